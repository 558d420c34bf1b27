"""The library's commands: `mogul models`, `fit`, `predict`, `evaluate`, `show`, `export` and `compare`."""

from pathlib import Path
from typing import Annotated

import typer

from mogul.cli.options import (
    Categories,
    Data,
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
    require_csv,
    require_gibibytes,
    require_kernel,
    require_least,
    require_new_file,
    require_seed,
    require_share,
    training_settings,
    transform_by_output,
    use_cores,
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
    data: Data,
    targets: Targets = None,
    inputs: Inputs = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Name of a model: see mogul models; several joined by + for their mixture; auto for the best of mogp, "
            "gprn, sbgprn and n-sbgprn on validation rows. By default mogp by exact GPs up to 2,500 rows; beyond, "
            "n-sbgprn, or mogp+gprn+n-sbgprn with --groups.",
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
        typer.Option(help="default, or paper for the paper's protocol, constant noise and sizes, without linear mean."),
    ] = "default",
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            help="Score each output at rows that were not trained on, beside least squares and the mean.",
        ),
    ] = True,
    max_memory: MaxMemory = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A first answer in seconds, by 200 rows at random, marked as such."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
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
    """
    modules = import_parts(imports)
    wanted = None if targets is None else listed(targets, "--targets")
    given = None if inputs is None else listed(inputs, "--inputs")
    if model is not None:
        require_model(model)
    of_kernel = require_kernel(kernel)
    settings = training_settings(epochs=epochs, num_starts=restarts, precision=precision)
    sizes = training_settings(num_inducing=inducing)
    require_seed(seed)
    require_gibibytes(max_memory)
    require_share("--calibrate", calibrate, ".2")
    require_new_file(out, force, "model.mogul", data)
    if checkpoint is not None:
        require_folder(checkpoint)
    reading = reading_of(long, categories, missing, missing_inputs)
    use_cores(jobs)
    with Bar(0 if quiet else 2) as bar:
        bar.stage("loading")
        from mogul.cli.fit import fit_file, fit_lines
        from mogul.data.sources.table import memory_limit
        from mogul.objective import require_objective
        from mogul.training import FitRequest
        from mogul.training.starts import Saving, require_mean

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
        )
        with memory_limit(max_memory):
            bar.stage(f"reading {data}")
            summary = fit_file(data, wanted, given, out, request, groups=groups, say=say, reading=reading)
    give(summary.to_json(), fit_lines(summary, modules), json_)


@app.command()
def predict(
    model: ModelFile,
    data: Data,
    out: Annotated[Path, typer.Option(help="CSV file to write; - prints it.")] = STANDARD_OUTPUT,
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
    force: Force = False,
    imports: Imports = None,
    json_: Json = False,
) -> None:
    """Predict the outputs for every row: mean, standard deviation and quantiles, in the units of training.

    With --given, predictions are those given outputs that are known in the same row. A model with latent inputs takes
    the outputs that are there and fills in the others.

    Example: mogul predict jura.mogul new.csv --out predicted.csv --quantiles .1,.9
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
    if out != STANDARD_OUTPUT:
        require_csv("--out", out)
        require_new_file(out, force, "predictions.csv", data, model)
    use_cores(jobs)
    from mogul.cli.predict import predict_file, write_predictions
    from mogul.data.sources.table import memory_limit

    with memory_limit(max_memory):
        predictions = predict_file(model, data, columns, wanted, seed, coverage, known, kept)
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


@app.command()
def evaluate(
    model: ModelFile,
    data: Data,
    inputs: ModelInputs = None,
    targets: ModelTargets = None,
    long: Long = None,
    seed: Seed = 0,
    max_memory: MaxMemory = None,
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
    reading = reading_of(long)
    from mogul.cli.evaluate import evaluate_file, evaluation_tables
    from mogul.data.sources.table import memory_limit

    with memory_limit(max_memory):
        evaluation = evaluate_file(model, data, given, wanted, seed, reading)
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
        str,
        typer.Option(
            help="Models, separated by commas: see mogul models; auto chooses one in each fold.",
            autocompletion=complete_models,
        ),
    ] = "mogp,n-sbgprn",
    rivals: Annotated[
        str,
        typer.Option(
            help="Other methods beside them, separated by commas: trees, boosting, exact-gps; with mogul\\[rivals] "
            "catboost, ngboost, quantile-forest, gpar; or none."
        ),
    ] = "trees",
    folds: Annotated[int, typer.Option(help="Parts of the rows, each held out once.")] = 5,
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
    force: Force = False,
    imports: Imports = None,
    json_: Json = False,
) -> None:
    """Compare models, a forest, least squares and the mean on held-out rows: log likelihood, errors, coverage, time.

    Rows, or whole groups, are assigned to folds at random. It says when least squares is as good as the best model.

    Example: mogul compare jura.csv --targets Cd,Cu,Pb --models mogp,n-sbgprn --folds 5 --html jura.html

    Example: mogul compare arm.csv --targets force,torque --groups run --models mogp,mogp+gprn --folds 3

    Example: mogul compare arm.csv --targets force,torque --rivals trees,boosting,exact-gps
    """
    import_parts(imports)
    wanted = None if targets is None else listed(targets, "--targets")
    given = None if inputs is None else listed(inputs, "--inputs")
    chosen = _observed(listed(models, "--models"))
    of_kernel = require_kernel(kernel)
    require_least("--folds", folds, 2)
    settings = training_settings(epochs=epochs, num_starts=restarts, precision=precision)
    sizes = training_settings(num_inducing=inducing)
    require_seed(seed)
    require_gibibytes(max_memory)
    if html is not None:
        require_new_file(html, force, "comparison.html", data)
    reading = reading_of(long, categories, missing, missing_inputs)
    use_cores(jobs)
    from mogul.cli.compare import choices, compare_file, comparison_table, write_page
    from mogul.comparison.crossval import Trial
    from mogul.comparison.rivals import RIVALS, require_rivals
    from mogul.data.sources.table import memory_limit
    from mogul.objective import require_objective
    from mogul.training import FitRequest

    others = [] if rivals == "none" else require_rivals(listed(rivals, "--rivals"), "--rivals")
    told = [*chosen, *(RIVALS[name].label for name in others)]

    def say_trial(split: int, trial: Trial) -> None:
        if trial.label in told:
            label = trial.label if trial.chosen is None else f"{trial.label} ({trial.chosen})"
            scores = f"LL {trial.result.scores.ll:.2f} ({trial.seconds:.0f} s)"
            say(f"fold {split + 1} of {folds}: {label} {scores}")

    request = FitRequest(
        seed=seed,
        options={**sizes, **of_kernel, **({} if noise is None else {"noise": noise})},
        settings={**settings, "objective": require_objective(objective)},
    )
    with memory_limit(max_memory):
        result = compare_file(data, wanted, given, chosen, folds, request, say_trial, groups, others, reading)
    if html is not None:
        write_page(result, html)
    failed = [f"{label} failed: {reason}" for label, reason in result.leaderboard.failures.items()]
    written = [] if html is None else [f"Report: {html}"]
    lines = [result.leaderboard.verdict, *choices(result), *failed, *written]
    give(result.to_json(), [comparison_table(result), *lines], json_)


def _observed(models: list[str]) -> list[str]:
    """Names of models with observed inputs, each once; latent inputs cannot be compared."""
    for model in models:
        if is_latent(model):
            raise ConfigError(
                f"--models must have observed inputs, as least squares has; {model} has latent ones. Leave out -lvm."
            )
    return list(dict.fromkeys(models))
