"""Names in files may hold escape sequences of terminals: they are printed, escaped, and not obeyed."""

import ast
import io
import json
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.table import Table
from rich.text import Text
from tests.helpers.terminal import command

import mogul
from mogul.terminal import Screen, printable, printable_json

RED, TITLE, CSI, FLIPPED = "\x1b[31m", "\x1b]0;owned\x07", "\x9b2J", "\u202etxt"
NASTY = {"input": f"a{RED}", "other": f"b{TITLE}", "output": f"y{CSI}{FLIPPED}"}
PACKAGE = Path(mogul.__file__).parent


def controls(text: str) -> set[str]:
    return {sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Cs")} - {"\n"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(24, 3)), columns=list(NASTY.values()))
    frame.to_csv(f"t{RED}.csv", index=False)
    monkeypatch.setattr("mogul.terminal._is_watched", lambda: True)
    return command(monkeypatch, capsys)


def test_no_command_prints_them(run, monkeypatch: pytest.MonkeyPatch):
    table, targets = f"t{RED}.csv", NASTY["output"]
    commands = {
        "fit": ["fit", table, "--targets", targets, "--out", f"m{RED}.mogul"],
        "show": ["show", f"m{RED}.mogul"],
        "predict": ["predict", f"m{RED}.mogul", table],
        "evaluate": ["evaluate", f"m{RED}.mogul", table],
        "compare": ["compare", table, "--targets", targets, "--models", "mogp", "--folds", "2", "--rivals", "none"],
        "refused": ["fit", table, "--targets", f"z{TITLE}"],
        "usage": ["fit", table, f"--{RED}"],
    }
    for name, arguments in commands.items():
        outcome = run(*arguments)
        assert outcome.code == (2 if name in ("refused", "usage") else 0), outcome
        assert not controls(outcome.out + outcome.err), name
        if name != "usage":
            assert "\\x" in outcome.out + outcome.err, name
    as_json = run("show", f"m{RED}.mogul", "--json")
    assert json.loads(as_json.out)["output_names"] == [targets]
    assert not controls(as_json.out)


def test_files_and_pipes_get_columns_as_they_are(run, monkeypatch: pytest.MonkeyPatch):
    run("fit", f"t{RED}.csv", "--targets", NASTY["output"], "--out", "m.mogul", "--no-check")
    monkeypatch.setattr("mogul.terminal._is_watched", lambda: False)
    assert run("predict", "m.mogul", f"t{RED}.csv").out.startswith(f"{NASTY['output']},")


def test_tables_stay_aligned_and_a_consoles_own_sequences_stay():
    stream = io.StringIO()
    screen = Screen(file=stream, force_terminal=True, width=60)
    table = Table(RED + "head", title=f"t{RED}")
    table.add_row(Text(f"x{RED}", style="bold"))
    table.add_row("plain")
    screen.print(table)
    printed = stream.getvalue()
    assert "\x1b[1m" in printed  # bold is the console's own
    assert RED not in printed
    assert printed.count("\\x1b") == 3
    widths = {len(line) for line in Text.from_ansi(printed).plain.splitlines() if line.startswith(("┃", "│"))}
    assert len(widths) == 1


def test_ordinary_text_stays():
    for text in ("Größe, m²", "温度", "a b", "…×→", "two\nlines\tand a tab"):
        assert printable(text) == text
    assert json.loads(printable_json({"a\x7f": ["\u2028", 1.5]})) == {"a\x7f": ["\u2028", 1.5]}


def test_text_leaves_by_one_door():
    """Elsewhere nobody prints: what is printed there would not be escaped."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name == "terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
            is_rich = name == "print" and isinstance(node.func, ast.Attribute)
            if name in ("print", "echo", "secho", "Console") and not is_rich:
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert not found
