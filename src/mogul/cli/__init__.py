"""The command line. Heavy packages are imported by the command that needs them, so that `--help` is fast."""

import sys
from typing import Annotated

import typer

from mogul.cli.app import app as library_app
from mogul.cli.lab import data_app, demo, report, reproduce
from mogul.cli.runner import DEBUG, run

app = typer.Typer(
    help="Multi-output Gaussian processes with neural likelihoods.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)
app.add_typer(library_app)
app.add_typer(data_app, name="data")
app.command()(reproduce)
app.command()(report)
app.command()(demo)


@app.callback()
def group(
    debug: Annotated[bool, typer.Option(DEBUG, help="Show where errors come from; any command takes it.")] = False,
) -> None:
    """Multi-output Gaussian processes with neural likelihoods."""


def main() -> None:
    """Run the command line; errors are one line on stderr, with exit code 2 for user errors and 1 for others."""
    sys.exit(run(app, sys.argv[1:]))
