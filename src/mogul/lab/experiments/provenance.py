"""Where numbers come from: versions of what computed them, and the commit."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("mogul", "torch", "gpytorch", "numpy", "scikit-learn")


def versions() -> dict[str, str]:
    """Of the packages that numbers depend on, and of Python."""
    return {"python": platform.python_version()} | {package: version(package) for package in PACKAGES}


def commit() -> str | None:
    """The commit that mogul runs from, with `-dirty` behind it where files differ; None outside its repository."""
    package = Path(__file__).resolve().parents[2]
    top = _git(package, "rev-parse", "--show-toplevel")
    # An installed copy may lie inside some other project's repository.
    if top is None or Path(top).resolve() / "src" / "mogul" != package:
        return None
    return _git(package, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
