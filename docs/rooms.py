"""Draw the rooms of the package from its own imports, and write them into the table of architecture.md.

python docs/rooms.py
"""

import ast
import re
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

DOCS = Path(__file__).resolve().parent
PACKAGE = DOCS.parent / "src" / "mogul"
PAGE, PICTURE = DOCS / "architecture.md", DOCS / "images" / "rooms.png"
_NOT_ROOMS = ("__init__", "__main__", "_moved")
_LIBRARY, _OUTSIDE = "#dbe4f7", "#f7e6d0"
_EDGE, _TEXT = "#4053a3", "#1d2433"


def room_imports() -> dict[str, set[str]]:
    """For each room, a folder or a module of the package, the other rooms that it imports."""
    paths = [path for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    rooms = sorted({path.stem for path in paths} - set(_NOT_ROOMS))
    return {room: _imported_by(room) & set(rooms) - {room} for room in rooms}


def _imported_by(room: str) -> set[str]:
    folder = PACKAGE / room
    found: set[str] = set()
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{room}.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "mogul":
                found |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mogul."):
                found.add(str(node.module).split(".")[1])
    return found


def levels(imports: dict[str, set[str]]) -> dict[str, int]:
    """The level of each room: one more than the highest room that it imports."""
    found: dict[str, int] = {}

    def level(room: str) -> int:
        if room not in found:
            found[room] = 1 + max((level(other) for other in imports[room]), default=-1)
        return found[room]

    for room in imports:
        level(room)
    return found


def needed(imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Imports that do not follow from others: those of rooms through which a room is imported anyway are left out."""
    above: dict[str, set[str]] = {}
    for room in sorted(imports, key=levels(imports).__getitem__):
        above[room] = set(imports[room]).union(*(above[other] for other in imports[room]))
    return [
        (room, other)
        for room, others in imports.items()
        for other in sorted(others)
        if not any(other in above[between] for between in others)
    ]


def draw(imports: dict[str, set[str]]) -> None:
    """Rooms by level, the foundations on top; an arrow goes from a room to those that it needs."""
    place, by_level = {}, levels(imports)
    height = max(by_level.values())
    for row in range(height + 1):
        rooms = sorted(room for room in imports if by_level[room] == row)
        for column, room in enumerate(rooms):
            place[room] = (3.0 * (column - (len(rooms) - 1) / 2), 1.5 * (height - row))
    figure = Figure(figsize=(8, 0.62 * (height + 1)), dpi=110)
    axes = figure.add_axes((0, 0, 1, 1))
    boxes = {}
    for room, (x, y) in place.items():
        colour = _OUTSIDE if room in ("lab", "cli") else _LIBRARY
        style = "round,pad=0.02,rounding_size=0.18"
        boxes[room] = FancyBboxPatch((x - 1.15, y - 0.42), 2.3, 0.84, boxstyle=style, fc=colour, ec=_EDGE, zorder=3)
        axes.add_patch(boxes[room])
        axes.text(x, y, room, ha="center", va="center", color=_TEXT, fontsize=10, family="DejaVu Sans", zorder=4)
    for room, other in needed(imports):
        bend = 0.0 if by_level[room] - by_level[other] == 1 else 0.25
        arrow = {"arrowstyle": "-|>", "mutation_scale": 9, "color": _EDGE, "alpha": 0.55, "lw": 0.9, "zorder": 2}
        axes.add_patch(
            FancyArrowPatch(
                place[room],
                place[other],
                patchA=boxes[room],
                patchB=boxes[other],
                connectionstyle=f"arc3,rad={bend}",
                **arrow,
            )
        )
    widest = max(abs(x) for x, _ in place.values()) + 1.6
    axes.set(xlim=(-widest, widest), ylim=(-0.8, 1.5 * height + 0.8))
    axes.axis("off")
    figure.savefig(PICTURE, metadata={"Software": None})


def with_imports(page: str, imports: dict[str, set[str]]) -> str:
    """The page with the last column of its table of rooms as the imports have it."""

    def row(match: re.Match[str]) -> str:
        names = sorted(imports[match["room"]], key=lambda other: (levels(imports)[other], other))
        return f"{match[0][: match.start('imports') - match.start()]}{', '.join(names) or '—'} |"

    return re.sub(r"^\| `(?P<room>\w+)` \|[^|]*\| (?P<imports>[^|]*) \|$", row, page, flags=re.MULTILINE)


def main() -> None:
    """Draw the picture and write the table."""
    matplotlib.use("Agg")
    imports = room_imports()
    draw(imports)
    PAGE.write_text(with_imports(PAGE.read_text(encoding="utf-8"), imports), encoding="utf-8")


if __name__ == "__main__":
    main()
