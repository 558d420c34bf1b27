"""The laboratory's commands: `mogul demo`, `data`, `reproduce` and `report`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType

from mogul.cli.options import Json, give, print_json
from mogul.errors import ConfigError
from mogul.storage.atomic import require_file, require_folder, write_json, write_whole
from mogul.terminal import Screen, put, say

data_app = typer.Typer(help="Data sets: list, check, simulate.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of a data set: see `mogul data list`.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of data sets; else $MOGUL_DATA.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Also write it to this file; - prints JSON in place of the table.")
]
STANDARD_OUTPUT = Path("-")


@data_app.command("list")
def list_(data_dir: DataDir = None, json_file: JsonFile = None) -> None:
    """List the data sets: sizes, groups, availability and description.

    Example: mogul data list --data-dir FOLDER
    """
    _require_json_place(json_file)
    from mogul.lab.datasets.audit import catalogue_table, presence
    from mogul.lab.datasets.catalogue import CATALOGUE
    from mogul.lab.datasets.files import named_folder

    folder = named_folder(data_dir)
    entries = list(CATALOGUE.values())
    content = [entry.to_json() | {"here": presence(entry, folder)} for entry in entries]
    _give(catalogue_table(entries, folder), content, json_file)


@data_app.command()
def check(name: Name, data_dir: DataDir = None, json_file: JsonFile = None) -> None:
    """Check a data set: shape, checksum, repeated rows, leaks across splits, constants, gaps, zeros.

    Example: mogul data check kuka --data-dir FOLDER
    """
    _require_json_place(json_file)
    from mogul.lab.datasets.audit import audit, audit_table
    from mogul.lab.datasets.catalogue import entry, load
    from mogul.lab.datasets.files import named_folder

    chosen = entry(name)
    grouped = load(name, data_dir)
    found, checksums = audit(grouped), chosen.checksums(grouped, named_folder(data_dir))
    content = chosen.to_json() | {"found_sha256": checksums, "audit": found.to_json()}
    _give(audit_table(chosen, found, checksums), content, json_file)


@data_app.command()
def simulate(
    name: Name,
    rows: Annotated[int | None, typer.Option(help="Number of rows; by default all rows of the set.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same rows.")] = 0,
    out: Annotated[Path | None, typer.Option(help="CSV file for inputs, outputs and group; else none.")] = None,
) -> None:
    """Simulate a data set, and write it if asked.

    Example: mogul data simulate rhythmic-arm --rows 1000 --seed 1 --out arm.csv
    """
    if rows is not None and rows < 1:
        raise ConfigError(f"--rows must be at least 1; got {rows}. Try --rows 1000.")
    if seed < 0:
        raise ConfigError(f"--seed must be at least 0; got {seed}. Try --seed 0.")
    if out is not None and out.suffix != ".csv":
        raise ConfigError(f"--out must end in .csv; got {out}. Try --out {out.with_suffix('.csv')}.")
    require_file(out, "Rows", "rows.csv")
    from mogul.lab.datasets.catalogue import data_checksum, describe_sizes, entry

    grouped = entry(name).simulate(rows, seed)
    sizes = describe_sizes(grouped.data.num_rows, grouped.data.num_inputs, grouped.data.num_outputs)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, lambda partial: grouped.frame().to_csv(partial, index=False))
    put(f"{name}: {sizes}, seed {seed}, SHA-256 {data_checksum(grouped)}" + (f"\nRows: {out}" if out else ""))


def _require_json_place(json_file: Path | None) -> None:
    if json_file != STANDARD_OUTPUT:
        require_file(json_file, "JSON", "data.json")


def _give(table: RenderableType, content: object, json_file: Path | None) -> None:
    """Print the table, or only the JSON; write the file if requested."""
    if json_file == STANDARD_OUTPUT:
        print_json(content)
        return
    Screen().print(table)
    if json_file is not None:
        write_json(json_file, content)


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that mogul reproduce --out wrote to.")],
    publish_to: Annotated[
        Path | None,
        typer.Option("--publish", help="Also copy the small files to this folder, to be kept in a repository."),
    ] = None,
    json_: Json = False,
) -> None:
    """Make the tables, figures and page of a run again from its records, finished or not.

    Nothing is trained. DIR/jobs holds the records of the run; everything else in DIR is rewritten.

    Example: mogul report mogul-results --publish results/kuka
    """
    from mogul.lab import require_laboratory

    require_laboratory()
    from mogul.lab.report.overview import publish, require_place
    from mogul.lab.report.tables import TerminalTable, experiment_tables, result_line
    from mogul.lab.reproduce import rebuild, where

    if publish_to is not None:
        require_place(folder, publish_to)
    results, written = rebuild(folder)
    published = [] if publish_to is None else publish(folder, publish_to)
    paths = [str(path) for path in (*written, *published)]
    failed = [result_line(record) for record in results.records if record.is_failed]
    content = {"folder": str(folder), "jobs": len(results.jobs), "failed": failed, "written": paths}
    lines: list[Any] = [TerminalTable(table) for table in experiment_tables(results)]
    lines.append(where(folder, written))
    if publish_to is not None:
        lines.append(where(publish_to, published))
    give(content, lines, json_)


EXPERIMENTS = "synthetic, regression, unsupervised, hidden-units, small-data, missing-outputs"


def reproduce(
    experiment: Annotated[str, typer.Argument(help=f"One of {EXPERIMENTS}.")],
    preset: Annotated[
        str,
        typer.Option(
            help="fast, default to train as mogul fit does, paper for the paper's own protocol, or paper-fast for the "
            "same models and objective in less time."
        ),
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
            help="Whether each model is also run with a linear mean; by default all are, but in the paper's presets.",
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
    points: Annotated[str | None, typer.Option(help="Points of a sweep, with commas, such as 4,12,20.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data for each model; else the preset's.")] = None,
    inducing: Annotated[
        int | None,
        typer.Option(help="The most inducing points in a model's first layer; else 200 in the fast preset."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Parallel jobs, one thread each; else one per core.")] = None,
    backend: Annotated[
        str,
        typer.Option(help="Where jobs run: loky, processes of this machine; dask or ray, a cluster, by an extra."),
    ] = "loky",
    address: Annotated[
        str | None, typer.Option(help="Address of a Dask or Ray cluster; else one of --jobs workers is started here.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results; what it already holds is not redone.")] = Path(
        "mogul-results"
    ),
    data_dir: Annotated[Path | None, typer.Option(help="Folder of data sets; else $MOGUL_DATA.")] = None,
) -> None:
    """Run one of the paper's experiments: tables beside the paper's, baselines among them.

    After an interruption, the same command resumes where it stopped.

    Example: mogul reproduce regression --datasets halfcheetah --models mogp,n-mogp --splits 1 --out results
    """
    if jobs is not None and jobs < 1:
        raise ConfigError(f"--jobs must be at least 1; got {jobs}. Try --jobs 2.")
    from mogul.lab import require_laboratory

    require_laboratory()
    from joblib import cpu_count

    from mogul.lab.experiments.backends import require_backend
    from mogul.lab.experiments.declarations import experiment as declared
    from mogul.lab.experiments.protocol import require_preset
    from mogul.lab.experiments.request import ExperimentRequest, SplitChoice, whole_numbers
    from mogul.lab.reproduce import reproduce as run

    where = require_backend(backend, address)
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
    if failed := run(request, out, jobs or cpu_count(), where, address):
        say(f"mogul: {failed} of the jobs failed; their errors are above and in {out}.")
        raise typer.Exit(1)


def _names(option: str, words: str | None) -> tuple[str, ...] | None:
    """Names with commas, each once."""
    if words is None:
        return None
    names = tuple(dict.fromkeys(word.strip() for word in words.split(",")))
    if "" in names:
        raise ConfigError(f"{option} must be names with commas; got {words!r}. Leave out what is empty.")
    return names


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
