"""Every page of the documentation: its code runs, its commands exist, its pictures and links are there."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from matplotlib import pyplot as plt

from mogul.cli import app

# Long fits, whose lines quicker tests run too: tracing them would cost as much again.
pytestmark = pytest.mark.no_cover

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
WITH_CODE = [page for page in PAGES if "```python" in (DOCS / page).read_text(encoding="utf-8")]


def read(page):
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", read(page), flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch, botorch_compiles_nothing):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    plt.close("all")


@pytest.mark.parametrize("page", WITH_CODE)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, folder):
    if page == "howto/export.md":
        pytest.importorskip("onnxruntime", reason="mogul[export] is not installed")
    names = {"__name__": page}
    for number, code in enumerate(blocks(page, "python"), start=1):
        exec(compile(code, f"{page}, block {number}", "exec"), names)
    # What a page draws is what it shows.
    drawn = {path.name for path in folder.glob("*.png")}
    assert drawn <= {Path(picture).name for picture in re.findall(r"!\[.*?\]\((.*?)\)", read(page))}


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_exist(page):
    for line in "".join(blocks(page, "sh")).splitlines():
        command = line.partition("#")[0].strip()
        if command:
            require_known(command)


def require_known(command):
    """pip, make with a target of ours, python with a file of ours, or mogul with options that it has."""
    program, *arguments = shlex.split(command)
    if program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    elif program == "python":
        assert (ROOT / arguments[0]).is_file(), command
    elif program == "mogul":
        found = typer.main.get_command(app)
        while hasattr(found, "commands") and arguments:
            found = found.commands[arguments.pop(0)]
        known = {option for parameter in found.params for option in parameter.opts}
        assert {argument for argument in arguments if argument.startswith("--")} <= known, command
    else:
        assert program == "pip", command
        assert arguments[0] == "install"


def test_an_unknown_command_would_be_found():
    for command in ("mogul data lst", "make nothing", "python examples/none.py", "rm -r folder", "mogul demo --seed 1"):
        with pytest.raises((AssertionError, KeyError)):
            require_known(command)


@pytest.mark.parametrize("page", PAGES)
def test_links_and_pictures_of_a_page_are_there(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#.*?)?\)", read(page)):
        assert target.startswith("https://") or (DOCS / page).parent.joinpath(target).is_file(), target


def test_every_page_is_in_the_navigation():
    listed = re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(listed) == PAGES
