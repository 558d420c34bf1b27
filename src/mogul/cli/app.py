"""The library's commands: `mogul models`, `fit`, `predict`, `evaluate`, `show`, `export` and `compare`."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from mogul.cli.options import (
    Categories,
    Data,
    DataFiles,
    Epochs,
    Force,
    Imports,
    Inducing,
    Inputs,
    Jobs,
    Json,
    KernelName,
    Long,
    MaxMemory,
    Missing,
    MissingInputs,
    ModelFile,
    ModelInputs,
    ModelTargets,
    Noise,
    Objective,
    Precision,
    Quiet,
    Restarts,
    Seed,
    Targets,
    complete_model,
    complete_models,
    give,
    import_parts,
    levels,
    listed,
    print_json,
    reading_of,
    refuse_with_files,
    require_csv,
    require_gibibytes,
    require_kernel,
    require_least,
    require_new_file,
    require_one_table,
    require_seed,
    require_share,
    training_settings,
    transform_by_output,
    use_cores,
    without_option,
)
from mogul.errors import ConfigError
from mogul.models.families import Name, is_latent, names, require_model
from mogul.storage.atomic import require_folder
from mogul.terminal import Bar, Screen, put, say

app = typer.Typer()
STANDARD_OUTPUT = Path("-")


@app.command()
def models(json_: Json = False) -> None:
    """List the models, each with a line and the paper's equation.

    Example: mogul models
    """
    if json_:
        parsed = {name: Name.parse(name) for name in names()}
        print_json(
            [
                {
                    "name": name,
                    "what": each.recipe.description,
                    "equation": each.recipe.equation,
                    "family": each.family,
                    "deep_kernel": each.deep_kernel,
                    "latent": each.latent,
                }
                for name, each in parsed.items()
            ]
        )
        return
    from mogul.cli.words import models_table

    Screen().print(models_table())


@app.command()
def fit(
    data: DataFiles,
    targets: Targets = None,
    inputs: Inputs = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Name of a model: see mogul models; several joined by + for their mixture; auto for the best of mogp, "
            "gprn, sbgprn and n-sbgprn on validation rows. By default mogp by exact GPs up to 2,500 rows; beyond, "
            "the better of mogp and n-sbgprn, or mogp+gprn+n-sbgprn with --groups.",
            autocompletion=complete_model,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Model file to write.")] = Path("model.mogul"),
    noise: Noise = None,
    kernel: KernelName = None,
    mean: Annotated[
        str | None,
        typer.Option(
            help="Mean of the outputs, whose residual the GPs model: linear, or auto with a forest under it where that "
            "helps (the default without --model and --groups); trees or boosting, both cross-fitted; paper, zero or "
            "constant for none."
        ),
    ] = None,
    transform: Annotated[
        str | None,
        typer.Option(
            help="For outputs that are positive, skewed or counted: log, yeo-johnson, or auto to choose for each "
            "output; some outputs by name, Cd=log,Pb=auto."
        ),
    ] = None,
    autoregressive: Annotated[
        bool | None,
        typer.Option(
            help="Model each output less a linear function of the outputs before it, or do not; by default the log "
            "evidence decides for outputs with empty cells where others have none, up to 2,500 rows."
        ),
    ] = None,
    objective: Objective = "elbo",
    groups: Annotated[
        str | None,
        typer.Option(
            help="Column of labels, such as runs or days: whole groups are held out for early stopping; then the model "
            "is trained on all rows."
        ),
    ] = None,
    calibrate: Annotated[
        float | None,
        typer.Option(
            help="Share of rows, or groups, set aside at random for calibration: for predict --coverage. Try .2."
        ),
    ] = None,
    long: Long = None,
    categories: Categories = None,
    missing: Missing = None,
    missing_inputs: MissingInputs = "mean",
    epochs: Epochs = None,
    restarts: Restarts = None,
    inducing: Inducing = None,
    precision: Precision = None,
    jobs: Jobs = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder for a checkpoint: the same command continues from it after a crash."),
    ] = None,
    seed: Seed = 0,
    preset: Annotated[
        str,
        typer.Option(
            help="default, or paper for the paper's protocol, constant noise and sizes, without linear mean, or "
            "paper-fast for the same models and objective in less time."
        ),
    ] = "default",
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            help="Score each output at rows that were not trained on, beside least squares and the mean.",
        ),
    ] = True,
    max_memory: MaxMemory = None,
    stream: Annotated[
        bool | None,
        typer.Option(
            help="Leave the rows of files on disk, or read them whole; by default they stay there where several files "
            "would take more than --max-memory.",
        ),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(help="Folder for the scaled copy of rows that stay on disk; by default one that is removed."),
    ] = None,
    epoch_steps: Annotated[
        int | None, typer.Option(help="Most steps of an epoch, for very many rows; by default an epoch sees all rows.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes of this machine that train the model together, with the same batches.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="Where gradient steps are taken: cpu, cuda, cuda:1, mps, or auto for what is there.")
    ] = "cpu",
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A first answer in seconds, by 200 rows at random, marked as such."),
    ] = False,
    quiet: Quiet = False,
    force: Force = False,
    imports: Imports = None,
    json_: Json = False,
) -> None:
    """Fit a model to the rows of a table and write it to a file.

    Inputs may be numbers, text, categories, dates or times, with gaps. Decimal commas and numbers that stand for a gap
    are found; lines say what was found.

    Up to 2,500 rows by exact GPs, one for each output, in seconds or a minute; beyond by minibatches. mogul.fit(X, Y)
    in Python gives the same model.

    Example: mogul fit jura.csv --targets Cd,Cu,Pb --inputs X,Y --out jura.mogul

    Example: mogul fit arm.csv --targets force,torque --groups run --model auto --noise auto

    Example: mogul fit long.csv --long sensor,value --missing -999

    Example: mogul fit 'rows/*.parquet' --targets force,torque --workers 4 --checkpoint states
    """
    modules = import_parts(imports)
    wanted = None if targets is None else listed(targets, "--targets")
    given = None if inputs is None else listed(inputs, "--inputs")
    if model is not None:
        require_model(model)
    of_kernel = require_kernel(kernel)
    settings = training_settings(epochs=epochs, epoch_steps=epoch_steps, num_starts=restarts, precision=precision)
    sizes = training_settings(num_inducing=inducing)
    require_seed(seed)
    require_gibibytes(max_memory)
    require_share("--calibrate", calibrate, ".2")
    require_new_file(out, force, "model.mogul", data)
    if checkpoint is not None:
        require_folder(checkpoint)
    if scratch is not None:
        require_folder(scratch)
    require_least("--workers", workers, 1)
    if workers is not None and workers > 1 and "RANK" not in os.environ:
        from mogul.cli.workers import run_workers

        raise typer.Exit(run_workers(without_option(sys.argv[1:], "--workers"), workers, jobs, checkpoint))
    use_cores(jobs)
    with Bar(0 if quiet or os.environ.get("RANK", "0") != "0" else 2) as bar, ExitStack() as stack:
        bar.stage("loading")
        reading = reading_of(long, categories, missing, missing_inputs)
        from mogul.cli.fit import fit_file, fit_lines
        from mogul.data.sources.table import memory_limit
        from mogul.objective import require_objective
        from mogul.training import FitRequest
        from mogul.training.starts import Place, Saving, require_mean
        from mogul.training.team import Team, device_by_name

        where = device_by_name(device)
        team = Team.of_environment()
        stack.callback(team.leave)
        request = FitRequest(
            model=model,
            preset=preset,
            seed=seed,
            mean=require_mean(mean),
            transform=transform_by_output(transform),
            autoregressive=autoregressive,
            options={**sizes, **of_kernel, **({} if noise is None else {"noise": noise})},
            settings={**settings, "objective": require_objective(objective)},
            calibrate=calibrate,
            check=check,
            quick=quick,
            saving=Saving(None, checkpoint, bar=bar),
            place=Place(where, team),
        )
        with memory_limit(max_memory):
            bar.stage(f"reading {data}")
            own = {"groups": groups, "say": say if team.is_first else len, "reading": reading}
            summary = fit_file(data, wanted, given, out, request, **own, stream=stream, scratch=scratch)
    if not team.is_first:
        return
    give(summary.to_json(), fit_lines(summary, modules), json_)


@app.command()
def predict(
    model: ModelFile,
    data: DataFiles,
    out: Annotated[
        Path,
        typer.Option(
            help="CSV file to write; - prints it. A .parquet file or a folder of them is written a part at a time, for "
            "any number of rows; the same command goes on after a crash."
        ),
    ] = STANDARD_OUTPUT,
    quantiles: Annotated[str | None, typer.Option(help="Levels between 0 and 1, separated by commas.")] = None,
    coverage: Annotated[
        float | None,
        typer.Option(help="Add intervals with this coverage; the model must be fitted with --calibrate."),
    ] = None,
    given: Annotated[
        str | None,
        typer.Option(help="Columns of known outputs to predict the others from too, such as Ni,Zn; empty is unknown."),
    ] = None,
    inputs: ModelInputs = None,
    keep: Annotated[
        str | None, typer.Option(help="Columns of the table to write before the predictions, such as id,date.")
    ] = None,
    decimals: Annotated[int | None, typer.Option("--round", help="Decimals of the predictions.")] = None,
    jobs: Jobs = None,
    seed: Seed = 0,
    max_memory: MaxMemory = None,
    quiet: Quiet = False,
    force: Force = False,
    imports: Imports = None,
    json_: Json = False,
) -> None:
    """Predict the outputs for every row: mean, standard deviation and quantiles, in the units of training.

    With --given, predictions are those given outputs that are known in the same row. A model with latent inputs takes
    the outputs that are there and fills in the others.

    Example: mogul predict jura.mogul new.csv --out predicted.csv --quantiles .1,.9

    Example: mogul predict arm.mogul 'rows/*.parquet' --out predicted.parquet
    """
    import_parts(imports)
    wanted = levels(quantiles)
    require_share("--coverage", coverage, ".9")
    columns = None if inputs is None else listed(inputs, "--inputs")
    known = None if given is None else listed(given, "--given")
    kept = [] if keep is None else listed(keep, "--keep")
    require_least("--round", decimals, 0)
    if known is not None and coverage is not None:
        raise ConfigError(
            "--coverage holds for predictions with nothing known; got --given too. Use --quantiles .05,.95."
        )
    require_seed(seed)
    require_gibibytes(max_memory)
    if out.suffix in ("", ".parquet") and out != STANDARD_OUTPUT:
        refuse_with_files(given=known, round=decimals)
        if out.suffix:
            require_new_file(out, force, "predictions.parquet", model)
        require_folder(out)
        use_cores(jobs)
        _predict_files(model, data, out, columns, kept, wanted, coverage, seed, json_)
        return
    require_one_table(data)
    if out != STANDARD_OUTPUT:
        require_csv("--out", out)
        require_new_file(out, force, "predictions.csv", data, model)
    use_cores(jobs)
    with Bar(0 if quiet else 2) as bar:
        bar.stage("loading")
        from mogul.cli.predict import predict_file, write_predictions
        from mogul.data.sources.table import memory_limit

        with memory_limit(max_memory):
            predictions = predict_file(model, data, columns, wanted, seed, coverage, known, kept, bar)
    if decimals is not None:
        predictions = predictions.rounded(decimals)
    if out != STANDARD_OUTPUT:
        write_predictions(predictions, out)
        report = {"rows": predictions.num_rows, "outputs": predictions.output_names, "out": str(out)}
        give(report, [f"Predictions of {predictions.num_rows:,} rows: {out}"], json_)
    elif json_:
        print_json(predictions.to_json())
    else:
        put(predictions.frame().to_csv(index=False), end="")


def _predict_files(
    model: Path,
    data: Path,
    out: Path,
    inputs: list[str] | None,
    kept: list[str],
    wanted: list[float],
    coverage: float | None,
    seed: int,
    json_: bool,
) -> None:
    """Predictions of files, to files."""
    with Bar(2) as bar:
        bar.stage("loading")
        from mogul.data.sources.row_files import RowFiles
        from mogul.fitted.files import load
        from mogul.fitted.to_files import Asked, predict_files

        fitted = load(model)
        files = RowFiles.of(data, [], inputs or fitted.input_columns, kept=kept, prefix="--")
        bar.stage("predicting", files.about_rows)
        count = predict_files(fitted, files, out, Asked(wanted, coverage, seed), watch=bar.reach)
    report = {"rows": count, "outputs": fitted.output_names, "out": str(out)}
    give(report, [f"Predictions of {count:,} rows: {out}"], json_)


@app.command()
def evaluate(
    model: ModelFile,
    data: DataFiles,
    inputs: ModelInputs = None,
    targets: ModelTargets = None,
    long: Long = None,
    seed: Seed = 0,
    max_memory: MaxMemory = None,
    quiet: Quiet = False,
    imports: Imports = None,
    json_: Json = False,
) -> None:
    """Score a model on rows with known outputs: log likelihood, errors, and coverage of its intervals.

    The log likelihood is the joint density of all outputs of a row, by importance sampling.

    Example: mogul evaluate jura.mogul test.csv
    """
    import_parts(imports)
    given = None if inputs is None else listed(inputs, "--inputs")
    wanted = None if targets is None else listed(targets, "--targets")
    require_seed(seed)
    require_gibibytes(max_memory)
    with Bar(0 if quiet else 2) as bar:
        bar.stage("loading")
        reading = reading_of(long)
        from mogul.cli.evaluate import evaluate_file, evaluation_tables
        from mogul.data.sources.table import memory_limit

        with memory_limit(max_memory):
            evaluation = evaluate_file(model, data, given, wanted, seed, reading, bar)
    give(evaluation.to_json(), evaluation_tables(evaluation), json_)


@app.command()
def show(
    model: ModelFile,
    importance: Annotated[
        bool, typer.Option("--importance", help="Load the model, and add how much each input matters to each output.")
    ] = False,
    imports: Imports = None,
    json_: Json = False,
) -> None:
    """Show the contents of a model file: model, sizes, names, training, versions. Tensors are not loaded.

    Example: mogul show jura.mogul

    Example: mogul show jura.mogul --importance
    """
    import_parts(imports)
    from mogul.cli.show import importance_of, importance_table, model_table, show_file

    card = show_file(model)
    with Bar(2 if importance else 0) as bar:
        bar.stage("importance of inputs")
        found = importance_of(model) if importance else None
    if found is None:
        give(card.to_json(), [model_table(card)], json_)
    else:
        plain = {"importance": found.reset_index().to_dict("records")}
        give(card.to_json() | plain, [model_table(card), importance_table(found)], json_)


@app.command()
def compare(
    data: Data,
    targets: Targets = None,
    inputs: Inputs = None,
    models: Annotated[
        str | None,
        typer.Option(
            help="Models, separated by commas: see mogul models; auto chooses one in each fold. By default that of "
            "mogul fit, and with 500 rows or more mogp and n-sbgprn.",
            autocompletion=complete_models,
        ),
    ] = None,
    rivals: Annotated[
        str,
        typer.Option(
            help="Other methods beside them, separated by commas: trees, boosting, exact-gps; with mogul\\[rivals] "
            "catboost, ngboost, quantile-forest, gpar; or none."
        ),
    ] = "trees",
    folds: Annotated[
        str,
        typer.Option(
            metavar="NUMBER|time|time:NUMBER",
            help="Parts of the rows, each held out once at random; or time, to predict each part from the rows before "
            "it, by a date among the inputs or the order of rows.",
        ),
    ] = "5",
    groups: Annotated[
        str | None,
        typer.Option(help="Column of labels, such as runs or days: whole groups are held out together."),
    ] = None,
    kernel: KernelName = None,
    objective: Objective = "elbo",
    noise: Noise = None,
    long: Long = None,
    categories: Categories = None,
    missing: Missing = None,
    missing_inputs: MissingInputs = "mean",
    epochs: Epochs = None,
    restarts: Restarts = None,
    inducing: Inducing = None,
    precision: Precision = None,
    jobs: Jobs = None,
    seed: Seed = 0,
    html: Annotated[Path | None, typer.Option(help="Also write a report, one HTML file, here.")] = None,
    max_memory: MaxMemory = None,
    quiet: Quiet = False,
    force: Force = False,
    imports: Imports = None,
    json_: Json = False,
) -> None:
    """Compare models, a forest, least squares and the mean on held-out rows: log likelihood, errors, coverage, time.

    Rows, or whole groups, are assigned to folds at random, or models are trained on the past. It says roughly how long
    that takes, when least squares is as good as the best model, and what to do next.

    Example: mogul compare jura.csv --targets Cd,Cu,Pb --models mogp,n-sbgprn --folds 5 --html jura.html

    Example: mogul compare arm.csv --targets force,torque --groups run --models mogp,mogp+gprn --folds 3

    Example: mogul compare arm.csv --targets force,torque --rivals trees,boosting,exact-gps

    Example: mogul compare load.csv --targets load --folds time --html load.html
    """
    import_parts(imports)
    wanted = None if targets is None else listed(targets, "--targets")
    given = None if inputs is None else listed(inputs, "--inputs")
    chosen = None if models is None else _observed(listed(models, "--models"))
    of_kernel = require_kernel(kernel)
    num_folds, by_time = _folds(folds)
    if by_time and groups is not None:
        raise ConfigError(
            f"--folds time trains on the past, --groups holds out whole groups; got both, {groups} too. Leave one out."
        )
    settings = training_settings(epochs=epochs, num_starts=restarts, precision=precision)
    sizes = training_settings(num_inducing=inducing)
    require_seed(seed)
    require_gibibytes(max_memory)
    if html is not None:
        require_new_file(html, force, "comparison.html", data)
    use_cores(jobs)
    with Bar(0 if quiet else 2) as bar:
        bar.stage("loading")
        reading = reading_of(long, categories, missing, missing_inputs)
        from mogul.cli.compare import choices, compare_file, comparison_table, output_lines
        from mogul.cli.comparison_page import write_page
        from mogul.comparison.crossval import LEAST_SQUARES, MEAN, Trial
        from mogul.comparison.rivals import require_rivals
        from mogul.data.sources.table import memory_limit
        from mogul.objective import require_objective
        from mogul.training import FitRequest
        from mogul.training.starts import Saving

        others = [] if rivals == "none" else require_rivals(listed(rivals, "--rivals"), "--rivals")

        def say_trial(split: int, trial: Trial) -> None:
            if trial.label not in (LEAST_SQUARES, MEAN):
                label = trial.label if trial.chosen is None else f"{trial.label} ({trial.chosen})"
                scores = f"LL {trial.result.scores.ll:.2f} ({trial.seconds:.0f} s)"
                say(f"fold {split + 1} of {num_folds}: {label} {scores}")

        request = FitRequest(
            seed=seed,
            options={**sizes, **of_kernel, **({} if noise is None else {"noise": noise})},
            settings={**settings, "objective": require_objective(objective)},
            saving=Saving(bar=bar),
        )
        with memory_limit(max_memory):
            bar.stage(f"reading {data}")
            result = compare_file(
                data,
                wanted,
                given,
                chosen,
                num_folds,
                request,
                say_trial,
                groups,
                others,
                reading,
                by_time=by_time,
                say=say,
            )
        if html is not None:
            write_page(result, html)
    board = result.leaderboard
    failed = [f"{label} failed: {reason}" for label, reason in board.failures.items()]
    written = [] if html is None else [f"Report: {html}"]
    command = [] if result.next_command is None else [f"Next: {result.next_command}"]
    lines = [
        "",
        *output_lines(result),
        "",
        board.in_words,
        board.verdict,
        *choices(result),
        *failed,
        *written,
        *command,
    ]
    give(result.to_json(), [comparison_table(result), *lines], json_)


def _folds(text: str) -> tuple[int, bool]:
    """The number of folds, and whether each is predicted from the past.

    >>> _folds("3"), _folds("time"), _folds("time:4")
    ((3, False), (5, True), (4, True))
    """
    kind, _, number = text.rpartition(":") if ":" in text else (text, "", "5") if text == "time" else ("", "", text)
    if kind not in ("", "time") or not number.removeprefix("-").isdecimal():
        raise ConfigError(f"--folds must be a number, time or time:NUMBER; got {text!r}. Try --folds 5.")
    require_least("--folds", int(number), 2)
    return int(number), kind == "time"


def _observed(models: list[str]) -> list[str]:
    """Names of models with observed inputs, each once; latent inputs cannot be compared."""
    for model in models:
        if is_latent(model):
            raise ConfigError(
                f"--models must have observed inputs, as least squares has; {model} has latent ones. Leave out -lvm."
            )
    return list(dict.fromkeys(models))
