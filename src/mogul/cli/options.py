"""Arguments shared by several commands, and their checks without heavy imports."""

import csv
import math
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from mogul import registry
from mogul.errors import ConfigError
from mogul.models.families import AUTO, names
from mogul.storage.atomic import require_file
from mogul.terminal import Screen, printable_json, put

_MOST_SEED = 2**32 - 1


def complete_model(incomplete: str) -> list[str]:
    """Names of models with this prefix, for shell completion."""
    return [name for name in [*names(), AUTO] if name.startswith(incomplete)]


def complete_kernel(incomplete: str) -> list[str]:
    """Completion after the last + or * of a kernel."""
    place = max(incomplete.rfind("+"), incomplete.rfind("*")) + 1
    before, last = incomplete[:place], incomplete[place:]
    known = [*registry.names("kernel"), *([] if before else [AUTO])]
    return [before + name for name in known if name.startswith(last)]


def complete_models(incomplete: str) -> list[str]:
    """Completion after the last comma of a list."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in complete_model(last)]


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Table with names: .csv, .tsv, .xlsx, .parquet, .feather, .jsonl, .arff, .npz or .mat; any of them may "
        "end in .gz, too; - for CSV from standard input.",
    ),
]
DataFiles = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Table with names: .csv, .tsv, .xlsx, .parquet, .feather, .jsonl, .arff, .npz or .mat; any of them may "
        "end in .gz, too; - for CSV from standard input. Several .parquet, .feather, .arrow or .csv with the same "
        "columns: a folder, or a pattern in quotes, 'rows/*.parquet'.",
    ),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file, as mogul fit writes it.")]
Targets = Annotated[
    str | None, typer.Option(help="Columns to predict, separated by commas; empty cells are missing values.")
]
Long = Annotated[
    str | None,
    typer.Option(
        metavar="TASK,VALUE",
        help="For a table with a row for each value: the column that names its output, and the column that holds it.",
    ),
]
Categories = Annotated[
    str | None, typer.Option(help="Inputs whose numbers are names of kinds, not amounts; text needs no mention.")
]
Missing = Annotated[
    str | None,
    typer.Option(
        help="Numbers and words that stand for a gap, such as -200,n/a. By default numbers that are far from all else "
        "in many rows; none for none."
    ),
]
MissingInputs = Annotated[
    str,
    typer.Option(
        help="For gaps in inputs: mean fills in the column's mean, beside a column that marks gaps; drop drops their "
        "rows; refuse stops."
    ),
]
Noise = Annotated[
    str | None,
    typer.Option(
        help=f"Kind of noise: {', '.join(registry.names('noise'))}; residuals (the default) to "
        "choose by leave-one-out residuals; or auto for the best of gp, constant and "
        "student-t on validation rows."
    ),
]
Inducing = Annotated[
    int | None, typer.Option(help="Inducing points; 200 beyond 2,500 rows, and at most 600 where exact GPs start.")
]
Precision = Annotated[str | None, typer.Option(help="float32 or float64; by default from the model and the rows.")]
Restarts = Annotated[
    int | None, typer.Option(help="Random restarts of models trained by gradient steps; the best is kept.")
]
Jobs = Annotated[int | None, typer.Option(help="Processor cores to use; by default all.")]
Inputs = Annotated[str | None, typer.Option(help="Columns to predict from; else all that are not targets.")]
ModelInputs = Annotated[
    str | None, typer.Option("--inputs", help="Columns to predict from, in the model's order; else by its own names.")
]
ModelTargets = Annotated[
    str | None, typer.Option("--targets", help="Columns of the truth, in the model's order; else by its own names.")
]
KernelName = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        help=f"Kernel of the GPs: {', '.join(registry.names('kernel'))}; sums and products of them, rbf+periodic or "
        "rbf*linear; or auto for the largest evidence of exact GPs with rbf, matern52 and matern32. By default rbf.",
        autocompletion=complete_kernel,
    ),
]
Objective = Annotated[
    str,
    typer.Option(
        help="What training maximises: elbo, balanced for smaller errors where noise depends on the inputs, or "
        "predictive for the density of predictions."
    ),
]
Epochs = Annotated[
    int | None, typer.Option(help="Maximum epochs, for models trained by gradient steps; by default from the rows.")
]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Module of yours that registers models, noises or other parts; several with commas between them. "
        "Modules in this folder are found, too.",
    ),
]
MaxMemory = Annotated[
    float | None,
    typer.Option(
        "--max-memory", help="GiB that the table may take in memory; by default an eighth of the machine's, at most 8."
    ),
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Force = Annotated[bool, typer.Option("--force", help="Replace output files that exist; else they are refused.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]


def import_parts(imports: list[str] | None) -> list[str]:
    """Import the modules that register a user's parts, from the current folder, too; their names, each once."""
    names = dict.fromkeys(name for text in imports or [] for name in listed(text, "--import"))
    if names and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for name in names:
        try:
            import_module(name)
        except Exception as error:  # whatever a module of a user's may raise
            raise ConfigError(
                f"--import must name modules that Python can import; {name} fails with {type(error).__name__}: "
                f"{error}. Give its name without .py, in the folder of its file."
            ) from error
    return list(names)


def require_kernel(kernel: str | None) -> dict[str, str]:
    """The option of this kernel, its names checked, if one was given."""
    if kernel is not None and kernel != AUTO:
        registry.kernel_terms(kernel)
    return {} if kernel is None else {"kernel": kernel}


def levels(text: str | None) -> list[float]:
    """Quantile levels separated by commas.

    >>> levels(".1,.9")
    [0.1, 0.9]
    """
    found = []
    for part in [] if text is None else text.split(","):
        try:
            level = float(part)
        except ValueError:
            level = math.nan
        if not 0 < level < 1:
            raise ConfigError(
                f"--quantiles must be numbers between 0 and 1, separated by commas; got {part!r}. Try .1,.5,.9."
            )
        found.append(level)
    return list(dict.fromkeys(found))


def transform_by_output(text: str | None) -> Any:
    """One transform for all outputs, or some by name.

    >>> transform_by_output("log"), transform_by_output("Cd=log,Pb=auto")
    ('log', {'Cd': 'log', 'Pb': 'auto'})
    """
    if text is None or "=" not in text:
        return text
    pairs = [part.rpartition("=") for part in listed(text, "--transform")]
    for name, equals, kind in pairs:
        if not (name and equals and kind):
            raise ConfigError(
                f"--transform must be one name, or output=name separated by commas; got {text!r}. Try Cd=log,Pb=auto."
            )
    return {name: kind for name, _, kind in pairs}


def training_settings(**given: Any) -> dict[str, Any]:
    """Those that were given: whole numbers of at least one, and others as they are.

    >>> training_settings(epochs=3, precision=None)
    {'epochs': 3}
    """
    options = {"num_starts": "--restarts", "num_inducing": "--inducing"}
    for name, value in given.items():
        if isinstance(value, int):
            require_least(options.get(name, f"--{name}"), value, 1)
    return {name: value for name, value in given.items() if value is not None}


def use_cores(jobs: int | None) -> None:
    """Limit this process to so many cores."""
    require_least("--jobs", jobs, 1)
    if jobs is not None:
        import torch

        torch.set_num_threads(jobs)


def without_option(arguments: list[str], option: str) -> list[str]:
    """The arguments without an option and its value.

    >>> without_option(["fit", "a.csv", "--workers", "4", "--force"], "--workers")
    ['fit', 'a.csv', '--force']
    """
    kept, skip = [], False
    for argument in arguments:
        if not skip and not (argument == option or argument.startswith(f"{option}=")):
            kept.append(argument)
        skip = argument == option
    return kept


def reading_of(long: str | None, categories: str | None = None, missing: str | None = None, gaps: str = "mean") -> Any:
    """How a table is to be read, as a `mogul.data.sources.reading.Reading`."""
    columns = None if long is None else listed(long, "--long")
    if columns is not None and len(columns) != 2:
        raise ConfigError(
            f"--long must be two columns, of tasks and of values; got {len(columns)}: {long}. Try --long task,value."
        )
    kinds = [] if categories is None else listed(categories, "--categories")
    words = [] if missing is None else listed(missing, "--missing")
    from mogul.data.encodings.encoding import require_missing_inputs
    from mogul.data.sources.reading import Reading

    policy = require_missing_inputs(gaps, "--missing-inputs")
    return Reading(kinds, words, policy, None if columns is None else (columns[0], columns[1]), "--")


def require_gibibytes(value: float | None) -> None:
    """Check a size of memory, if one was given."""
    if value is not None and not 0 < value < math.inf:
        raise ConfigError(f"--max-memory must be a positive number of GiB; got {value}. Try --max-memory 4.")


def require_least(option: str, value: int | None, least: int) -> None:
    """Check a whole number, if one was given."""
    if value is not None and value < least:
        raise ConfigError(f"{option} must be at least {least}; got {value}. Try {option} {least}.")


def require_seed(seed: int) -> None:
    """Check a seed: NumPy's range is valid for other generators too."""
    require_least("--seed", seed, 0)
    if seed > _MOST_SEED:
        raise ConfigError(f"--seed must be at most {_MOST_SEED}; got {seed}. Try --seed 10.")


def require_share(option: str, value: float | None, example: str) -> None:
    """Check a share, if one was given."""
    if value is not None and not 0 < value < 1:
        raise ConfigError(f"{option} must be between 0 and 1; got {value}. Try {option} {example}.")


def require_new_file(path: Path, force: bool, example: str, *sources: Path) -> None:
    """Check before any work that an output file can be written without replacing anything by accident."""
    require_file(path, "Results", example)
    for source in sources:
        if path.exists() and source.exists() and path.samefile(source):
            raise ConfigError(f"Results must not replace their source; got {path} for both. Choose another name.")
    if path.exists() and not force:
        raise ConfigError(f"Results must go into a new file; {path} exists. Choose another name, or add --force.")


def require_one_table(data: Path) -> None:
    """Check that predictions in a table are of one table."""
    if not data.is_file() and (data.is_dir() or any(sign in str(data) for sign in "*?[")):
        raise ConfigError(f"Predictions of several files, {data}, must go into files: --out predicted.parquet.")


def refuse_with_files(**given: Any) -> None:
    """Refuse options that need a whole table, where predictions are written a part at a time."""
    for name, value in given.items():
        if value is not None:
            raise ConfigError(f"--{name} is for predictions in a table; got it with files. Leave it out.")


def require_csv(option: str, path: Path) -> None:
    """Check that an output file is CSV."""
    if path.suffix != ".csv":
        raise ConfigError(f"{option} must end in .csv; got {path}. Try {option} {path.with_suffix('.csv')}.")


def print_json(content: Any) -> None:
    """Print only the content; numbers that are not finite become null."""
    put(printable_json(_finite(content)))


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def give(content: Any, lines: Iterable[Any], as_json: bool) -> None:
    """Print a result as JSON, or as lines of text and tables."""
    if as_json:
        print_json(content)
        return
    console = Screen(highlight=False, markup=False)
    for line in lines:
        console.print(line, soft_wrap=isinstance(line, str))


def listed(text: str, option: str) -> list[str]:
    """Names separated by commas; a name with a comma needs double quotes.

    >>> listed('a, "b,c"', "--targets")
    ['a', 'b,c']
    """
    parts = [part.strip() for part in next(csv.reader([text], skipinitialspace=True), [])]
    if not parts or "" in parts:
        raise ConfigError(f"{option} must be names separated by commas; got {text!r}. Try {option} a,b.")
    return parts
