"""`mogul compare`: a leaderboard that says when a line would do."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from mogul.cli.options import (
    Data,
    Epochs,
    Force,
    Inputs,
    Json,
    Objective,
    Seed,
    Targets,
    complete_models,
    give,
    listed,
    require_least,
    require_new_file,
    require_seed,
)
from mogul.errors import ConfigError
from mogul.models.families import is_latent

app = typer.Typer()


@app.command()
def compare(
    data: Data,
    targets: Targets,
    inputs: Inputs = None,
    models: Annotated[
        str,
        typer.Option(
            help="Models, separated by commas: see mogul models; auto chooses one in each fold.",
            autocompletion=complete_models,
        ),
    ] = "mogp,n-sbgprn",
    folds: Annotated[int, typer.Option(help="Parts of the rows, each held out once.")] = 5,
    groups: Annotated[
        str | None,
        typer.Option(help="Column of labels, such as runs or days: whole groups are held out together."),
    ] = None,
    objective: Objective = "elbo",
    epochs: Epochs = None,
    seed: Seed = 0,
    html: Annotated[Path | None, typer.Option(help="Also write a report, one HTML file, here.")] = None,
    force: Force = False,
    json_: Json = False,
) -> None:
    """Compare models with least squares and the mean on held-out rows: log likelihood, errors, coverage, time.

    Rows go into folds at random, or whole groups do. It says plainly when least squares is as good as the best.

    Example: mogul compare jura.csv --targets Cd,Cu,Pb --models mogp,n-sbgprn --folds 5 --html jura.html

    Example: mogul compare arm.csv --targets force,torque --groups run --models mogp,mogp+gprn --folds 3
    """
    wanted = listed(targets, "--targets")
    given = None if inputs is None else listed(inputs, "--inputs")
    chosen = _observed(listed(models, "--models"))
    require_least("--folds", folds, 2)
    require_least("--epochs", epochs, 1)
    require_seed(seed)
    if html is not None:
        require_new_file(html, force, "comparison.html", data)
    from mogul.cli.compare import compare_file
    from mogul.cli.comparison_page import choices, comparison_table, write_page
    from mogul.comparison.crossval import Trial
    from mogul.objective import require_objective
    from mogul.training import FitRequest

    def say(split: int, trial: Trial) -> None:
        if trial.label in chosen:
            label = trial.label if trial.chosen is None else f"{trial.label} ({trial.chosen})"
            scores = f"LL {trial.result.scores.ll:.2f} ({trial.seconds:.0f} s)"
            print(f"fold {split + 1} of {folds}: {label} {scores}", file=sys.stderr)

    settings = {"epochs": epochs, "objective": require_objective(objective)}
    request = FitRequest(seed=seed, settings={name: value for name, value in settings.items() if value is not None})
    result = compare_file(data, wanted, given, chosen, folds, request, say, groups)
    if html is not None:
        write_page(result, html)
    failed = [f"{label} failed: {reason}" for label, reason in result.leaderboard.failures.items()]
    written = [] if html is None else [f"Report: {html}"]
    lines = [result.leaderboard.verdict, *choices(result), *failed, *written]
    give(result.to_json(), [comparison_table(result), *lines], json_)


def _observed(models: list[str]) -> list[str]:
    """Names of models with inputs, each once: those with latent inputs predict something else."""
    for model in models:
        if is_latent(model):
            raise ConfigError(
                f"--models must have observed inputs, as least squares has; {model} has latent ones. Leave out -lvm."
            )
    return list(dict.fromkeys(models))
