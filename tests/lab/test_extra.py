"""The laboratory's own packages: commands that need them say so, and the rest of mogul does without."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.terminal import assert_refused, command

from mogul.lab import EXTRA

COMMANDS = {"reproduce": ("synthetic",), "report": ("runs",)}
# Importing a module whose place in sys.modules is None fails as if it were not installed.
WITHOUT = "import sys\nfor name in {names}: sys.modules[name] = None\nimport {modules}"


@pytest.mark.parametrize("missing", EXTRA)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_names_the_extra_that_it_needs(
    name: str,
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, missing, None)
    outcome = command(monkeypatch, capsys, name)(*COMMANDS[name])
    assert_refused(outcome, f"{missing} is not installed", 'pip install "mogul[lab]"')
    assert list(tmp_path.iterdir()) == []


def test_demo_data_and_baselines_need_no_extra() -> None:
    # joblib comes with scikit-learn, and jinja2 with torch.
    modules = "mogul.lab.experiments.synthetic, mogul.lab.datasets.audit, mogul.lab.baselines, mogul.estimators"
    script = WITHOUT.format(names=["plotly"], modules=modules)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
