"""Commands for control loops: dynamics are learnt and rolled out, and models become programs of their own."""

from pathlib import Path
from typing import Annotated

import typer

from mogul.cli.options import (
    Data,
    Epochs,
    Force,
    Imports,
    Inducing,
    Jobs,
    Json,
    KernelName,
    MaxMemory,
    ModelInputs,
    Noise,
    Precision,
    Seed,
    complete_model,
    give,
    import_parts,
    levels,
    listed,
    print_json,
    require_csv,
    require_gibibytes,
    require_kernel,
    require_least,
    require_new_file,
    require_seed,
    training_settings,
    use_cores,
)
from mogul.errors import ConfigError
from mogul.models.families import require_model
from mogul.terminal import Bar, put

app = typer.Typer()
_STANDARD_OUTPUT = Path("-")
_PICTURES = (".png", ".svg", ".pdf")


@app.command()
def dynamics(
    data: Data,
    state: Annotated[str, typer.Option(help="Columns of the state, separated by commas.")],
    action: Annotated[str, typer.Option(help="Columns of the actions: those of a row lead to the next row's state.")],
    groups: Annotated[
        str | None, typer.Option(help="Column that names the trajectory of each row; without it there is one.")
    ] = None,
    angles: Annotated[str | None, typer.Option(help="States that are angles in radians, such as q1,q2.")] = None,
    time_step: Annotated[float, typer.Option("--dt", help="Time between two rows of a trajectory.")] = 1.0,
    out: Annotated[Path, typer.Option(help="Model file to write.")] = Path("dynamics.mogul"),
    model: Annotated[
        str | None,
        typer.Option(
            help="Name of a model of the differences between states: see mogul models.", autocompletion=complete_model
        ),
    ] = None,
    noise: Noise = None,
    kernel: KernelName = None,
    epochs: Epochs = None,
    inducing: Inducing = None,
    precision: Precision = None,
    jobs: Jobs = None,
    seed: Seed = 0,
    max_memory: MaxMemory = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    force: Force = False,
    imports: Imports = None,
    json_: Json = False,
) -> None:
    """Learn dynamics from trajectories of states and actions, for mogul rollout.

    Rows of a trajectory follow each other. The model predicts differences between states; angles are its inputs as sine
    and cosine.

    Example: mogul dynamics arm.csv --state q1,q2,dq1,dq2 --action u1,u2 --groups run --angles q1,q2 --dt .01
    """
    import_parts(imports)
    marked = [] if angles is None else listed(angles, "--angles")
    columns = listed(state, "--state"), listed(action, "--action"), marked
    if model is not None:
        require_model(model)
    of_kernel = require_kernel(kernel)
    settings = training_settings(epochs=epochs, precision=precision, num_inducing=inducing)
    given = {"model": model, "noise": noise}
    require_seed(seed)
    require_gibibytes(max_memory)
    require_new_file(out, force, "dynamics.mogul", data)
    use_cores(jobs)
    from mogul.cli.rollout import learn_file
    from mogul.data.sources.table import memory_limit

    options = {name: value for name, value in given.items() if value is not None} | of_kernel | settings
    with memory_limit(max_memory):
        options |= {"seed": seed, "verbose": 0 if quiet else 2}
        learnt = learn_file(data, out, columns, groups, time_step, options)
    give(learnt.to_json(), learnt.lines, json_)


@app.command()
def rollout(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File of mogul dynamics, or of Dynamics.save.")],
    start: Annotated[Path, typer.Argument(metavar="START", help="Table with a row of states for each start.")],
    actions: Annotated[Path, typer.Option(help="Table with a row of actions for each step.")],
    out: Annotated[Path, typer.Option(help="CSV file to write; - prints it.")] = _STANDARD_OUTPUT,
    plot: Annotated[
        Path | None, typer.Option(help="Picture of the fan, .png, .svg or .pdf, of a single start.")
    ] = None,
    particles: Annotated[int, typer.Option(help="Particles of each start; for moments, nodes.")] = 200,
    method: Annotated[
        str,
        typer.Option(
            help="functions: a particle follows one draw of the dynamics; marginals: a new draw at each step; "
            "moments: a Normal with matched moments."
        ),
    ] = "functions",
    quantiles: Annotated[str, typer.Option(help="Levels between 0 and 1, separated by commas.")] = ".05,.95",
    jobs: Jobs = None,
    seed: Seed = 0,
    force: Force = False,
    imports: Imports = None,
    json_: Json = False,
) -> None:
    """Run learnt dynamics ahead under given actions: mean, standard deviation and quantiles of each state.

    Example: mogul rollout arm.mogul start.csv --actions a.csv --out fan.csv --plot fan.png
    """
    import_parts(imports)
    wanted = levels(quantiles)
    require_least("--particles", particles, 1)
    require_seed(seed)
    if out != _STANDARD_OUTPUT:
        require_csv("--out", out)
        require_new_file(out, force, "fan.csv", model, start, actions)
    if plot is not None:
        if plot.suffix not in _PICTURES:
            raise ConfigError(f"--plot must end in .png, .svg or .pdf; got {plot}. Try {plot.with_suffix('.png')}.")
        require_new_file(plot, force, "fan.png", model, start, actions)
    use_cores(jobs)
    from mogul.cli.rollout import draw_fan, roll_file, write_fan

    fan = roll_file(model, start, actions, particles, method, seed, wanted)
    lines = []
    if plot is not None:
        draw_fan(fan, plot)
        lines.append(f"Fan: {plot}")
    if out != _STANDARD_OUTPUT:
        write_fan(fan, out)
        lines.insert(0, f"States after {fan.rollout.mean.shape[-2] - 1} steps: {out}")
        give({"out": str(out), "plot": None if plot is None else str(plot)}, lines, json_)
    elif json_:
        print_json(fan.to_json())
    else:
        put(fan.frame().to_csv(index=False), end="")


@app.command()
def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file; with --verify, the ONNX file.")],
    out: Annotated[Path, typer.Argument(metavar="FILE", help="ONNX file to write; with --verify, a table of inputs.")],
    quantiles: Annotated[str | None, typer.Option(help="Add quantiles: levels between 0 and 1.")] = None,
    jacobian: Annotated[bool, typer.Option("--jacobian", help="Add the derivative of the mean by the inputs.")] = False,
    precision: Annotated[
        str | None, typer.Option(help="float32 or float64; by default the model's. Inputs and results are float64.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare an ONNX file with its model on the rows of a table.")
    ] = False,
    source: Annotated[
        Path | None, typer.Option("--model", help="With --verify: the model file; by default of the same name.")
    ] = None,
    inputs: ModelInputs = None,
    force: Force = False,
    imports: Imports = None,
    json_: Json = False,
) -> None:
    """Write a model as an ONNX program of mean and standard deviation, in the units of training.

    The program is compared with the model on random rows, outside the data and at inducing points, before it is kept.
    Needs mogul[export].

    Example: mogul export arm.mogul arm.onnx --jacobian

    Example: mogul export --verify arm.onnx new.csv
    """
    import_parts(imports)
    wanted = levels(quantiles)
    columns = None if inputs is None else listed(inputs, "--inputs")
    if verify and (wanted or jacobian or precision):
        raise ConfigError("--verify takes a file as it is; got options of a new one. Leave them out.")
    if not verify and (source or columns):
        raise ConfigError("--model and --inputs are for --verify; got one without it. Leave it out.")
    if not verify and out.suffix != ".onnx":
        raise ConfigError(f"FILE must end in .onnx; got {out}. Try {out.with_suffix('.onnx')}.")
    if not verify:
        require_new_file(out, force, "model.onnx", model)
    with Bar(2) as bar:
        bar.stage("loading")
        from mogul.cli.export import export_file, verify_file
        from mogul.fitted.onnx_file import Settings

        bar.stage("comparing the program with the model" if verify else "writing the program")
        if verify:
            done = verify_file(model, out, source, columns)
        else:
            done = export_file(model, out, Settings(wanted, jacobian, precision))
    give(done.to_json(), done.lines, json_)
