"""Where numbers come from."""

import subprocess
from pathlib import Path

import pytest
import torch

from mogul.lab.experiments import run
from mogul.lab.experiments.run import commit, versions

MODULE = Path("lab") / "experiments" / "run.py"


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that holds a package where mogul's would be; the package says it is mogul."""
    folder = tmp_path / "src" / "mogul"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    monkeypatch.setattr(run, "__file__", str(folder / MODULE))
    return folder


def test_versions_are_those_that_run() -> None:
    found = versions()
    assert found["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert {"python", "mogul", "gpytorch", "numpy"} <= set(found)


def test_the_commit_is_that_of_the_repository_and_says_when_files_differ(package: Path, tmp_path: Path) -> None:
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit() == head
    (package / "__init__.py").write_text("changed")
    assert commit() == f"{head}-dirty"


def test_an_installed_copy_in_another_repository_has_no_commit(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "venv" / "mogul"
    installed.mkdir(parents=True)
    monkeypatch.setattr(run, "__file__", str(installed / MODULE))
    assert commit() is None


def test_without_a_repository_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "__file__", str(tmp_path / "mogul" / MODULE))
    assert commit() is None
