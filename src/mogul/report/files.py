"""Files that are whole or not there."""

import json
import os
from pathlib import Path


def write_json(path: Path, content: object) -> None:
    """Write all or nothing: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, path)
