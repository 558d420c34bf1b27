"""How commands end: one line on standard error, an exit code that says whose turn it is, tracebacks on request."""

import os
import subprocess
import sys

import pytest
from tests.helpers.terminal import Outcome, assert_refused, command

import mogul.lab.experiments.synthetic
from mogul import cli
from mogul.errors import ConfigError, FileError, NumericalError

HEAVY = {"torch", "gpytorch", "sklearn", "scipy", "pandas", "matplotlib", "numpy"}


@pytest.fixture
def run(tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run `mogul` with these arguments, as its installed script does."""
    monkeypatch.chdir(tmp_path)
    return command(monkeypatch, capsys)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch):
    """Let the demo fail with this error."""

    def by(error: Exception) -> None:
        def fail(*arguments: object) -> None:
            raise error

        monkeypatch.setattr(mogul.lab.experiments.synthetic, "run_demo", fail)

    return by


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("rule; value. Remedy."), 2), (FileError("rule; value. Remedy."), 2), (NumericalError("rule."), 1)],
)
def test_what_the_user_can_mend_is_told_from_what_went_wrong(run, failing, error, code):
    failing(error)
    assert run("demo") == Outcome(code, "", f"mogul: {error}\n")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ZeroDivisionError("by zero"), "Internal error: ZeroDivisionError: by zero. Run it with --debug"),
        (AssertionError(), "Internal error: AssertionError. Run it with --debug"),
        (
            OSError(28, "No space left on device", "x.csv"),
            "x.csv: No space left on device. Check its path and the disk space.",
        ),
        (MemoryError(), "There must be enough memory"),
        (RuntimeError("two\nlines"), "two\\nlines"),
    ],
)
def test_any_other_error_is_one_line_too(run, failing, error, says):
    failing(error)
    outcome = run("demo")
    assert outcome.code == 1
    assert says in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [("--debug", "demo"), ("demo", "--debug")])
def test_debug_shows_where_it_happened(run, failing, arguments):
    failing(ZeroDivisionError("by zero"))
    outcome = run(*arguments)
    assert outcome.code == 1
    assert "Traceback" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("mogul: ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("fit",), "Missing argument 'DATA'. Try mogul fit --help."),
        (("fit", "t.csv", "--targts", "a"), "--targets"),
        (
            ("fit", "t.csv", "--targets", "a", "--epochs", "many"),
            "--epochs must be a valid integer; got 'many'. Try mogul fit --help.",
        ),
        (
            ("fit", "t.csv", "--targets", "a", "--seed", "1.5"),
            "--seed must be a valid integer; got '1.5'. Try mogul fit",
        ),
        (
            ("fit", "t.csv", "--targets", "a", "--calibrate", "x"),
            "--calibrate must be a valid number; got 'x'. Try mogul",
        ),
        (("predict", "m", "t.csv", "--coverage", ""), "--coverage must be a valid number; got ''. Try mogul predict"),
        (
            ("compare", "t.csv", "--targets", "a", "--folds", "x\ny"),
            "--folds must be a number, time or time:NUMBER; got 'x\\ny'.",
        ),
        (("fti",), "Did you mean 'fit'? Try mogul --help."),
        (("show", "a", "b"), "Try mogul show --help."),
    ],
)
def test_usage_is_explained_in_one_line(run, arguments, says):
    assert_refused(run(*arguments), says)


def test_control_characters_do_not_reach_the_terminal(run):
    outcome = run("fit", "a\x1b[31m.csv", "--targets", "b")
    assert "\x1b" not in outcome.err
    assert "\\x1b[31m.csv" in outcome.err


@pytest.mark.parametrize("arguments", [["--help"], ["models"], ["models", "--json"], ["fit", "--help"], ["compare"]])
def test_what_needs_no_numbers_answers_without_heavy_packages(arguments):
    code = (
        "import sys\n"
        "from mogul.cli import app\n"
        f"try: app({arguments!r})\n"
        "except SystemExit: pass\n"
        f"print('loaded:', *sorted({HEAVY!r} & set(sys.modules)))"
    )
    environment = {**os.environ, "TERM": "dumb"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_a_model_file_is_shown_without_torch(tmp_path):
    data = mogul.Dataset([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]])
    mogul.fit(data, model="mogp", config=mogul.TrainingConfig(epochs=1, num_starts=1), noise="constant").save(
        tmp_path / "m.mogul"
    )
    code = (
        "import sys\n"
        "from mogul.cli import app\n"
        "try: app(['show', 'm.mogul', '--json'])\n"
        "except SystemExit: pass\n"
        "print('loaded:', *sorted({'torch', 'pandas', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert '"model": "mogp"' in done.stdout
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_models_are_completed_by_the_shell():
    words = {"COMP_WORDS": "mogul fit --model n-m", "COMP_CWORD": "3", "_MOGUL_COMPLETE": "complete_bash"}
    code = "import sys; sys.argv[0] = 'mogul'; from mogul.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **words}
    )
    assert done.stdout.split() == ["n-mogp", "n-mogp-lvm"]


def test_every_command_is_there():
    named = {command.name or command.callback.__name__ for command in cli.app.registered_commands}
    named |= {
        command.callback.__name__
        for group in cli.app.registered_groups
        for command in group.typer_instance.registered_commands
    }
    assert {"demo", "models", "fit", "predict", "evaluate", "compare", "show"} <= named
