"""The command line. Heavy packages are imported by the command that needs them, so that `--help` is fast."""

import importlib.metadata
import sys
from typing import Annotated

import typer

from mogul.cli.app import app as library_app
from mogul.cli.control import app as control_app
from mogul.cli.lab import data_app, demo, report, reproduce
from mogul.cli.runner import DEBUG, run
from mogul.terminal import put

LABORATORY = "Laboratory"
app = typer.Typer(
    help="Multi-output Gaussian processes with neural likelihoods.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)
lab_app = typer.Typer()
for command in (demo, reproduce, report):
    lab_app.command(rich_help_panel=LABORATORY)(command)
# In the order of the help. Commands of `app` itself would come before all of these.
app.add_typer(library_app)
app.add_typer(control_app)
app.add_typer(data_app, name="data", rich_help_panel=LABORATORY)
app.add_typer(lab_app)


def _print_version(wanted: bool | None) -> None:
    if wanted:
        put(f"mogul {importlib.metadata.version('mogul')}")
        raise typer.Exit


@app.callback()
def group(
    debug: Annotated[bool, typer.Option(DEBUG, help="Show where errors come from; any command takes it.")] = False,
    version: Annotated[
        bool | None,
        typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version),
    ] = None,
) -> None:
    """Multi-output Gaussian processes with neural likelihoods."""


def main() -> None:
    """Run the command line; errors are one line on stderr, with exit code 2 for user errors and 1 for others."""
    sys.exit(run(app, sys.argv[1:]))
