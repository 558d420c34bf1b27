"""The public names: all there, each at its home, and light to import."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import mogul

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
DOCUMENTED = sorted(
    {
        name
        for page in REFERENCE.glob("*.md")
        for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
)
NAMES = [name for name in mogul.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_the_thing_at_its_home(name):
    thing = getattr(mogul, name)
    if inspect.ismodule(thing):
        assert thing is importlib.import_module(f"mogul.{name}")
    else:
        assert thing.__name__ == name
        assert getattr(importlib.import_module(thing.__module__), name) is thing
        assert thing.__module__.startswith("mogul.")


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_a_docstring(name):
    assert inspect.getdoc(getattr(mogul, name))


def test_everything_needed_for_a_first_fit_is_public():
    assert {"Dataset", "fit", "TrainingConfig", "Fitted", "Prediction", "MogulError"} <= set(mogul.__all__)


def test_names_are_listed_in_order_and_once():
    assert mogul.__all__ == sorted(set(mogul.__all__))
    assert dir(mogul) == mogul.__all__


def test_type_checkers_see_the_same_names_as_python():
    tree = ast.parse(inspect.getsource(mogul))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(NAMES)


def test_a_star_import_brings_every_name():
    space: dict[str, object] = {}
    exec("from mogul import *", space)
    assert set(mogul.__all__) <= set(space)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'mogul' has no attribute 'fti'"):
        _ = mogul.fti
    with pytest.raises(ImportError):
        exec("from mogul import fti")


def test_the_version_is_that_of_the_package():
    assert mogul.__version__ == version("mogul")


@pytest.mark.parametrize("module", ["mogul", "mogul.cli", "mogul.errors"])
def test_importing_does_not_bring_in_heavy_packages(module):
    heavy = {"torch", "gpytorch", "sklearn", "scipy", "pandas", "matplotlib"}
    code = f"import sys, {module}; print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", DOCUMENTED)
def test_what_the_reference_documents_exists(name):
    home, _, last = name.rpartition(".")
    thing = getattr(importlib.import_module(home), last)
    assert inspect.getdoc(thing)


def test_the_reference_has_what_the_author_of_a_part_needs():
    needed = {f"mogul.registry.{name}" for name in mogul.__all__ if name.startswith("register_")}
    needed |= {"mogul.registry.Option", "mogul.heads.Noise", "mogul.heads.NoiseLaw", "mogul.models.parts.Parts"}
    assert needed <= set(DOCUMENTED)
