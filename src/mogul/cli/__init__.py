"""The command line. Heavy packages are imported by the command that needs them, so that `--help` answers at once."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from mogul.cli.comparing import app as compare_app
from mogul.cli.data import app as data_app
from mogul.cli.models import app as models_app
from mogul.cli.report import report as report_command
from mogul.cli.reproduce import reproduce as reproduce_command
from mogul.cli.runner import DEBUG, run
from mogul.errors import ConfigError
from mogul.storage.atomic import require_file, require_folder

app = typer.Typer(
    help="Multi-output Gaussian processes with neural likelihoods.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)
app.add_typer(models_app)
app.add_typer(compare_app)
app.add_typer(data_app, name="data")
app.command()(reproduce_command)
app.command()(report_command)


@app.callback()
def group(
    debug: Annotated[bool, typer.Option(DEBUG, help="Show where errors come from; any command takes it.")] = False,
) -> None:
    """Multi-output Gaussian processes with neural likelihoods."""


@app.command()
def demo(
    seeds: Annotated[int, typer.Option(help="How many data sets to draw and fit: seeds 0, 1, …")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("mogul-demo"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write every score to this file.")] = None,
) -> None:
    """Fit the paper's synthetic experiment: a table and a figure.

    Example: mogul demo --seeds 5 --json scores.json
    """
    if seeds < 1:
        raise ConfigError(f"--seeds must be at least 1; got {seeds}. Try --seeds 5.")
    require_folder(out)
    require_file(json_file)
    from mogul.lab.experiments.synthetic import run_demo

    run_demo(seeds, out, json_file)


def main() -> None:
    """Run the command line; errors are one line on stderr, exit code 2 for what the user can mend, 1 for the rest."""
    sys.exit(run(app, sys.argv[1:]))
