"""The command line. Heavy packages are imported by the command that needs them, so that `--help` answers at once."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from mogul.errors import ConfigError, MogulError, unknown_name

app = typer.Typer(
    help="Multi-output Gaussian processes with neural likelihoods.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)


@app.callback()
def group() -> None:
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
    _require_folder(out)
    _require_file(json_file)
    from mogul.demo import run_demo

    run_demo(seeds, out, json_file)


@app.command()
def models() -> None:
    """List the models, each with a line and the paper's equation.

    Example: mogul models
    """
    from rich.console import Console

    from mogul.report.tables import models_table

    Console().print(models_table())


@app.command()
def reproduce(
    experiment: Annotated[str, typer.Argument(help="Which of the paper's experiments: regression.")],
    dataset: Annotated[str, typer.Option(help="kuka or f-baxter.")] = "kuka",
    names: Annotated[
        str, typer.Option("--models", help="Models, separated by commas.")
    ] = "mogp,gprn,dgp,sbgprn,n-mogp,n-sbgprn,n-dgp,dk-n-sbgprn",
    epochs: Annotated[int, typer.Option(help="Passes over the data for each model.")] = 30,
    seed: Annotated[int, typer.Option(help="Of the split and of training.")] = 0,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of data sets; else $MOGUL_DATA.")] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Also write every score to this file; what it already holds is not redone."),
    ] = None,
) -> None:
    """Run one of the paper's experiments and print its table beside the paper's.

    Example: mogul reproduce regression --dataset kuka --models mogp,n-mogp --epochs 30
    """
    if experiment != "regression":
        raise unknown_name("experiment", experiment, ["regression"])
    _require_file(json_file)
    from mogul.reproduce import run_regression

    run_regression(dataset, [name.strip() for name in names.split(",")], epochs, seed, data_dir, json_file)


def _require_folder(folder: Path) -> None:
    """Check before any work that results will have a place to go."""
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ConfigError(f"Output must go into a folder; {nearest} is a file. Choose another name.")
    if not os.access(nearest, os.W_OK):
        raise ConfigError(f"Output must go into a folder that can be written; {nearest} cannot. Choose another.")


def _require_file(path: Path | None) -> None:
    """The same for a single file, if one is wanted."""
    if path is None:
        return
    if path.is_dir():
        raise ConfigError(
            f"Scores must go into a file; {path} is a folder. Add a name, such as {path / 'scores.json'}."
        )
    _require_folder(path.parent)


def main() -> None:
    """Run the command line; errors are one line on stderr, exit code 2 for what the user can mend, 1 for the rest."""
    try:
        app()
    except MogulError as error:
        print(f"mogul: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, ValueError) else 1)
