"""Draw the pictures of the pages anew: run the code of each page, and keep what it saves.

python docs/pictures.py
"""

import os
import re
import shutil
import tempfile
from pathlib import Path

import matplotlib

DOCS = Path(__file__).resolve().parent


def main() -> None:
    """Every page that shows a picture and has code."""
    matplotlib.use("Agg")
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if "savefig(" not in text:
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            names: dict[str, object] = {}
            for code in re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
                exec(compile(code, str(page), "exec"), names)
            for picture in Path(folder).glob("*.png"):
                shutil.copy(picture, DOCS / "images" / picture.name)
                print(f"{page.relative_to(DOCS)}: {picture.name}")
            os.chdir(DOCS)


if __name__ == "__main__":
    main()
