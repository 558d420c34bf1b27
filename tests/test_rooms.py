"""The rooms of the package and the direction of imports: a room imports only from those above it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import mogul

PACKAGE = Path(mogul.__file__).parent
# In the order of imports; those in one line know nothing of each other.
ROOMS = (
    {"errors", "_typing"},
    {"terminal"},
    {"registry"},
    {"core"},
    {"nonlinearities"},
    {"priors"},
    {"heads", "means"},
    {"data"},
    {"models"},
    {"objective"},
    {"prediction"},
    {"metrics"},
    {"config"},
    {"storage"},
    {"fitted"},
    {"training"},
    {"estimators", "dynamics"},
    {"plot"},
    {"comparison"},
    {"lab"},
    {"cli"},
)
PLACE = {room: place for place, rooms in enumerate(ROOMS) for room in rooms}
# The package itself, which imports nothing until it is asked to; old paths; and `python -m mogul`.
FREE = {"", "_moved", "__main__"}


def room_of(module: str) -> str:
    """`mogul.heads.noise` → `heads`."""
    return module.removeprefix("mogul").lstrip(".").split(".")[0]


def imports() -> Iterator[tuple[str, str, int]]:
    """(module, imported module, line) of all imports of mogul by mogul, those inside functions included."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        module = ".".join(("mogul", *parts)).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and room_of(f"{node.module}.") != "":
                found = [node.module] if node.module != "mogul" else [f"mogul.{name.name}" for name in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module == "mogul":
                found = [f"mogul.{name.name}" for name in node.names]
            elif isinstance(node, ast.Import):
                found = [name.name for name in node.names]
            else:
                continue
            for imported in found:
                if imported.split(".")[0] == "mogul":
                    yield module, imported, node.lineno


def test_every_module_belongs_to_a_room() -> None:
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__"} - FREE == set(PLACE)


def test_imports_go_up() -> None:
    wrong = [
        f"{module}:{line} imports {imported}"
        for module, imported, line in imports()
        if room_of(module) not in FREE
        and room_of(module) != room_of(imported)
        and PLACE.get(room_of(imported), len(ROOMS)) >= PLACE[room_of(module)]
    ]
    assert not wrong


@pytest.mark.parametrize("room", sorted(set(PLACE) - {"lab", "cli"}))
def test_the_library_does_not_know_the_laboratory(room: str) -> None:
    assert not [imported for module, imported, _ in imports() if room_of(module) == room and room_of(imported) == "lab"]


def test_no_class_name_is_defined_twice() -> None:
    homes: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert not {name: places for name, places in homes.items() if len(places) > 1}
