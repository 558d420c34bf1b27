# Each target makes .venv and installs what it needs: the first command typed on a fresh machine just works.
ROOT := $(dir $(abspath $(lastword $(MAKEFILE_LIST))))
VENV := $(ROOT).venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# The installer's notices are not ours to answer; its errors are.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint $(ROOT)constraints.txt
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo)
INPUTS := $(ROOT)pyproject.toml $(ROOT)constraints.txt

.PHONY: help demo test test-browser test-cluster check format bench docs clean
help:
	@echo "make demo    fit the paper's synthetic experiment: a table and a figure"
	@echo "make test    run all tests, with line and branch coverage"
	@echo "make test-browser  open the page of results in Chromium, which is installed if missing (Debian)"
	@echo "make test-cluster  run jobs by Dask and Ray, which are installed if missing"
	@echo "make check   formatting, lint, strict types"
	@echo "make format  mend formatting and what lint can mend by itself"
	@echo "make bench   side-by-side timings"
	@echo "make docs    the documentation as a site, in site/; warnings are errors"

$(VENV)/installed-runtime: $(INPUTS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable "$(ROOT)"
	touch $@

$(VENV)/installed-dev: $(VENV)/installed-runtime
	$(INSTALL) --editable "$(ROOT)[dev]"
	touch $@

$(VENV)/installed-docs: $(VENV)/installed-runtime
	$(INSTALL) --editable "$(ROOT)[docs]"
	touch $@

demo: $(VENV)/installed-runtime
	cd $(ROOT) && $(BIN)/mogul demo

# Two processes of one thread each: on two cores that beats one process of two threads. Bytecode is kept, since checks
# of shapes rewrite every module.
test: $(VENV)/installed-dev
	cd $(ROOT) && OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadgroup --cov --cov-report=term-missing

# Apart from `test`: a machine may have no browser, and installing one needs its administrator.
$(VENV)/installed-browser: $(VENV)/installed-dev
	$(INSTALL) --editable "$(ROOT)[browser]"
	test -x /usr/bin/chromium || { $(AS_ROOT) apt-get update && $(AS_ROOT) apt-get install --yes --no-install-recommends chromium; }
	touch $@

# Apart from `test`: Ray and Dask take a minute to start, and 400 MB to install.
$(VENV)/installed-cluster: $(VENV)/installed-dev
	$(INSTALL) --editable "$(ROOT)[dask,ray]"
	touch $@

test-cluster: $(VENV)/installed-cluster
	cd $(ROOT) && OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m cluster tests/lab

test-browser: $(VENV)/installed-browser
	cd $(ROOT) && $(BIN)/python -m pytest -m browser tests/browser

check: $(VENV)/installed-dev
	cd $(ROOT) && $(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy

format: $(VENV)/installed-dev
	cd $(ROOT) && $(BIN)/ruff format . && $(BIN)/ruff check --fix .

bench: $(VENV)/installed-dev
	cd $(ROOT) && $(BIN)/python -m benchmarks

docs: $(VENV)/installed-docs
	cd $(ROOT) && NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) $(ROOT)site $(ROOT).mypy_cache $(ROOT).ruff_cache $(ROOT).pytest_cache $(ROOT).hypothesis
