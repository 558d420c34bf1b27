"""`mogul data`: which data sets there are, whether a user's files are the right ones, and simulated ones."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mogul.errors import ConfigError
from mogul.storage.atomic import require_file, write_json, write_whole

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer(help="Data sets: list, check, simulate.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of a data set: see `mogul data list`.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of data sets; else $MOGUL_DATA.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Also write it to this file; - prints JSON in place of the table.")
]
STANDARD_OUTPUT = Path("-")


@app.command("list")
def list_(data_dir: DataDir = None, json_file: JsonFile = None) -> None:
    """List the data sets: sizes, groups, whether they are here, what they are and are not.

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


@app.command()
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


@app.command()
def simulate(
    name: Name,
    rows: Annotated[int | None, typer.Option(help="How many rows; else as many as the set has.")] = None,
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
    print(f"{name}: {sizes}, seed {seed}, SHA-256 {data_checksum(grouped)}" + (f"\nRows: {out}" if out else ""))


def _require_json_place(json_file: Path | None) -> None:
    if json_file != STANDARD_OUTPUT:
        require_file(json_file, "JSON", "data.json")


def _give(table: "RenderableType", content: object, json_file: Path | None) -> None:
    """Print the table, or the JSON alone; write the file if one is wanted."""
    if json_file == STANDARD_OUTPUT:
        json.dump(content, sys.stdout, indent=2, ensure_ascii=False)
        print()
        return
    from rich.console import Console

    Console().print(table)
    if json_file is not None:
        write_json(json_file, content)
