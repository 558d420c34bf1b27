"""`mogul reproduce`: the paper's experiments, each one command."""

from pathlib import Path
from typing import Annotated

import typer

from mogul.errors import ConfigError

EXPERIMENTS = "synthetic, regression, unsupervised, hidden-units, small-data, missing-outputs"


def reproduce(
    experiment: Annotated[str, typer.Argument(help=f"One of {EXPERIMENTS}.")],
    preset: Annotated[
        str, typer.Option(help="fast, default to train as mogul fit does, or paper for the paper's own protocol.")
    ] = "fast",
    datasets: Annotated[
        str | None, typer.Option(help="Data sets with commas: see `mogul data list`; else the experiment's first.")
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            help="Models with commas, such as n-mogp, n-mogp-leaky, dgp-same (L′ = L), n-mogp+linear, "
            "n-mogp+linear+gp-noise, n-mogp+linear+gp-noise+balanced (trained for smaller errors; or +predictive), "
            "n-mogp+4-starts (a mixture of four starts), mogp+n-mogp (of two models); groups, such as table-2, noises "
            "or all; none."
        ),
    ] = None,
    baselines: Annotated[str | None, typer.Option(help="Baselines with commas, or none; else all.")] = None,
    linear: Annotated[
        bool | None,
        typer.Option(
            "--linear/--no-linear",
            help="Whether each model is also run on a least-squares plane; else all are, except in the paper's preset.",
        ),
    ] = None,
    noises: Annotated[
        str | None,
        typer.Option(
            help="Noises with commas that each model is run with: constant (the paper's), gp, net, student-t, "
            "gp-student-t, low-rank."
        ),
    ] = None,
    splits: Annotated[
        str | None,
        typer.Option(
            help="3 or random:3 for three random splits, trajectory for whole ones (trajectory:3 trains three times); "
            "with commas for both."
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds of splits and of training, with commas; else 0, 1, …")
    ] = None,
    points: Annotated[str | None, typer.Option(help="Of a sweep, with commas, such as 4,12,20.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data for each model; else the preset's.")] = None,
    inducing: Annotated[
        int | None,
        typer.Option(help="The most inducing points in a model's first layer; else 200 in the fast preset."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="How many at a time, one thread each; else one per core.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results; what it already holds is not redone.")] = Path(
        "mogul-results"
    ),
    data_dir: Annotated[Path | None, typer.Option(help="Folder of data sets; else $MOGUL_DATA.")] = None,
) -> None:
    """Run one of the paper's experiments: tables beside the paper's, baselines among them.

    Ended half-way, the same command goes on where it stopped.

    Example: mogul reproduce regression --datasets halfcheetah --models mogp,n-mogp --splits 1 --out results
    """
    if jobs is not None and jobs < 1:
        raise ConfigError(f"--jobs must be at least 1; got {jobs}. Try --jobs 2.")
    from mogul.lab import require_extra

    require_extra()
    from joblib import cpu_count

    from mogul.lab.experiments.declarations import experiment as declared
    from mogul.lab.experiments.protocol import require_preset
    from mogul.lab.experiments.request import ExperimentRequest, SplitChoice, whole_numbers
    from mogul.lab.reproduce import reproduce as run

    chosen = declared(experiment)
    checked_preset = require_preset(preset)
    default_splits = chosen.num_splits if checked_preset == "paper" else 1
    request = ExperimentRequest(
        chosen,
        checked_preset,
        SplitChoice.parse(splits, seeds, default_splits),
        datasets=_names("--datasets", datasets),
        models=_names("--models", models),
        baselines=_names("--baselines", baselines),
        linear=linear,
        noises=_names("--noises", noises),
        points=None if points is None else whole_numbers("--points", points),
        epochs=epochs,
        inducing=inducing,
        folder=data_dir,
    )
    if failed := run(request, out, jobs or cpu_count()):
        typer.echo(f"mogul: {failed} of the jobs failed; their errors are above and in {out}.", err=True)
        raise typer.Exit(1)


def _names(option: str, words: str | None) -> tuple[str, ...] | None:
    """Names with commas, each once."""
    if words is None:
        return None
    names = tuple(dict.fromkeys(word.strip() for word in words.split(",")))
    if "" in names:
        raise ConfigError(f"{option} must be names with commas; got {words!r}. Leave out what is empty.")
    return names
