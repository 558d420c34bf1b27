"""Files that are whole or not there."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from mogul.errors import ConfigError


def write_json(path: Path, content: object) -> None:
    """Write all or nothing: a reader never sees half a file."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write under another name and rename, or leave nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def require_folder(folder: Path) -> None:
    """Check before any work that results will have a place to go."""
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ConfigError(f"Output must go into a folder; {nearest} is a file. Choose another name.")
    if not os.access(nearest, os.W_OK):
        raise ConfigError(f"Output must go into a folder that can be written; {nearest} cannot. Choose another.")


def require_file(path: Path | None, what: str = "Scores", example: str = "scores.json") -> None:
    """The same for a single file, if one is wanted."""
    if path is None:
        return
    if path.is_dir():
        raise ConfigError(f"{what} must go into a file; {path} is a folder. Add a name, such as {path / example}.")
    require_folder(path.parent)
