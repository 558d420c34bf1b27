"""Files that are whole or not there."""

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from mogul.errors import ConfigError


def remove_partials(path: Path) -> None:
    """Clear away what writings of this file have left behind that were killed on the way; others may be writing it."""
    for partial in path.parent.glob(f".{path.name}.*.partial"):
        if not _is_being_written(partial):
            partial.unlink(missing_ok=True)


def _is_being_written(partial: Path) -> bool:
    """Whether the process of this machine that began a file is alive."""
    number = partial.name.split(".")[-3]
    if os.name != "posix" or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)  # sends nothing
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def write_json(path: Path, content: object) -> None:
    """Write all or nothing: a reader never sees half a file."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write under a name of its own and rename, or leave nothing; its folder must be there."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    try:
        write(partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())  # else a crash may leave the new name on an empty file
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
