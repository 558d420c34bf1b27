"""Predictions of rows in files, written to Parquet a part at a time: memory does not grow with the number of rows.

Each part is whole or not there, and parts that are there are not predicted again: what was killed goes on.
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from mogul._typing import Array
from mogul.data.sources.row_files import FilePart, RowFiles
from mogul.errors import ConfigError, DataError, FileError, import_extra
from mogul.fitted.fitted import Fitted
from mogul.storage.atomic import remove_partials, write_json, write_whole

# Rows of a part, and those that are read and predicted at once.
PART_ROWS, _ROWS_AT_ONCE = 2**20, 2**15
_RECORD = "_predictions.json"  # readers of folders leave out names that begin so
_SUFFIX = ".parquet"


@dataclass(frozen=True)
class Asked:
    """What is written of each row, beside mean and standard deviation of each output.

    Args:
        levels: of quantiles.
        coverage: of intervals; None for none.
        seed: of draws, where there are any.
        num_samples: draws behind quantiles.
    """

    levels: Sequence[float] = ()
    coverage: float | None = None
    seed: int = 0
    num_samples: int = 250

    def names(self, outputs: Sequence[str]) -> list[str]:
        """For each output `a` the columns a, a_std, for a level of 0.1 a_q0.1, for intervals a_low and a_high."""
        ends = [] if self.coverage is None else ["_low", "_high"]
        parts = ["", "_std", *(f"_q{level:g}" for level in self.levels), *ends]
        return [name + part for name in outputs for part in parts]


def predict_files(
    fitted: Fitted,
    files: RowFiles,
    out: Path,
    asked: Asked | None = None,
    *,
    part_rows: int = PART_ROWS,
    watch: Callable[[int], object] = lambda count: None,
) -> int:
    """Predict all rows of files, whose inputs are in the model's order; returns their number.

    Args:
        fitted: the model.
        files: rows to predict; columns in `kept` are repeated before the predictions.
        out: a file that ends in .parquet, or a folder of parts, `part-00000.parquet` and so on.
        asked: what is written of each row.
        part_rows: rows of a part.
        watch: receives the number of rows done so far.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from mogul import fit
        >>> x = pd.DataFrame({"a": np.linspace(0, 1, 20)})
        >>> with TemporaryDirectory() as folder:
        ...     x.to_parquet(f"{folder}/new.parquet")
        ...     files = RowFiles.of(f"{folder}/new.parquet", [], ["a"])
        ...     predict_files(fit(x, 2 * x["a"]), files, Path(folder) / "out.parquet")
        20
    """
    if fitted.is_latent:
        raise ConfigError("Rows of files need a model with observed inputs; this one infers them. Read a table.")
    asked = asked or Asked()
    if asked.coverage is not None:
        fitted.require_calibration().multiplier(asked.coverage)  # or an error before any work
    if fitted.encoding is not None:
        raise ConfigError(
            f"Rows of files must have inputs that are numbers; the model encodes {fitted.encoding.names[0]!r}, for "
            "example. Predict a table."
        )
    _require_different([*files.kept, *asked.names(fitted.output_names)])
    folder = out.with_name(f".{out.name}.parts") if out.suffix == _SUFFIX else out
    parquet = import_extra("Writing Parquet", "parquet", "pyarrow.parquet", error=FileError)
    identity = _identity(fitted, files, asked, part_rows)
    _begin(folder, identity)
    writer = _Writer(fitted, asked, parquet, watch)
    number, parts = 0, []
    for path in files.paths:
        for rows in _pieces(files, path, part_rows):
            part = folder / f"part-{number:05d}{_SUFFIX}"
            remove_partials(part)
            if part.exists():
                writer.skip(part)
            else:
                write_whole(part, lambda partial, rows=rows, number=number: writer.write(partial, rows(), number))  # type: ignore[misc]
            parts.append(part)
            number += 1
    if folder != out:
        write_whole(out, lambda partial: _join(parts, partial, parquet))
        shutil.rmtree(folder)
    return writer.done


def _pieces(files: RowFiles, path: Path, part_rows: int) -> Iterator[Callable[[], Iterator[FilePart]]]:
    """How to read the rows of each part of a file."""
    for first in range(0, files.num_rows_of(path), part_rows):
        yield lambda first=first: files.rows_of(path, first, first + part_rows, _ROWS_AT_ONCE)  # type: ignore[misc]


class _Writer:
    """Writes parts, and counts their rows."""

    def __init__(self, fitted: Fitted, asked: Asked, parquet: Any, watch: Callable[[int], object]) -> None:
        self._fitted, self._asked, self._parquet, self._watch = fitted, asked, parquet, watch
        drawn = bool(asked.levels or fitted.transforms)
        self._predictor = None if drawn else fitted.predictor(seed=asked.seed)
        self.done = 0

    def skip(self, part: Path) -> None:
        """Count the rows of a part that is there."""
        with self._parquet.ParquetFile(part) as file:
            self._count(file.metadata.num_rows)

    def write(self, partial: Path, rows: Iterator[FilePart], number: int) -> None:
        """Predict and write a part."""
        pyarrow, writer = import_extra("Writing Parquet", "parquet", "pyarrow", error=FileError), None
        try:
            for place, part in enumerate(rows):
                found = self._predicted(part.values, self._asked.seed + number + 1_000_003 * place)
                kept = {} if part.frame is None else {str(name): part.frame[name] for name in part.frame.columns}
                table = pyarrow.Table.from_pandas(pd.DataFrame({**kept, **found}), preserve_index=False)
                writer = writer or self._parquet.ParquetWriter(partial, table.schema)
                writer.write_table(table.cast(writer.schema))
                self._count(len(part.values))
        finally:
            if writer is not None:
                writer.close()

    def _predicted(self, x: Float[Array, "N D"], seed: int) -> dict[str, Float[Array, "N"]]:
        """The columns of `Asked.names`."""
        asked, fitted = self._asked, self._fitted
        if self._predictor is None:
            prediction = fitted.predict(x, asked.num_samples, seed)
            parts = [prediction.mean, prediction.std, *(prediction.quantiles(asked.levels) if asked.levels else ())]
        else:
            parts = [*self._predictor.mean_std(x)]
        parts += [] if asked.coverage is None else fitted.interval(x, asked.coverage)
        columns = np.stack(parts, axis=-1).reshape(len(x), -1)  # output by output
        return dict(zip(asked.names(fitted.output_names), columns.T, strict=True))

    def _count(self, num_rows: int) -> None:
        self.done += num_rows
        self._watch(self.done)


def _join(parts: Sequence[Path], out: Path, parquet: Any) -> None:
    """One file of the groups of rows of all parts."""
    with parquet.ParquetFile(parts[0]) as first, parquet.ParquetWriter(out, first.schema_arrow) as writer:
        for part in parts:
            with parquet.ParquetFile(part) as file:
                for group in range(file.num_row_groups):
                    writer.write_table(file.read_row_group(group).cast(first.schema_arrow))


def _identity(fitted: Fitted, files: RowFiles, asked: Asked, part_rows: int) -> dict[str, Any]:
    """What predictions depend on: parts of another model, of other files or other columns are not mixed."""
    digest = hashlib.sha256()
    for model in fitted.single_models:
        for name, tensor in model.model.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return {
        "model": digest.hexdigest(),
        "files": [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files.paths],
        "inputs": list(files.inputs),
        "kept": list(files.kept),
        "levels": list(asked.levels),
        "coverage": asked.coverage,
        "seed": asked.seed,
        "part_rows": part_rows,
    }


def _begin(folder: Path, identity: dict[str, Any]) -> None:
    """Take up a folder of the same predictions, or a new one."""
    record = folder / _RECORD
    if record.exists():
        try:
            known = json.loads(record.read_text(encoding="utf-8"))
        except ValueError:
            known = {}
        different = [name for name in identity if known.get(name) != json.loads(json.dumps(identity[name]))]
        if different:
            raise FileError(
                f"Predictions must go on from the same ones; {folder} has others: {different[0]} differs. Name another "
                "folder, or delete that one."
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"Predictions must go into a new folder or a .parquet file; {folder} exists. Name another.")
    else:
        write_json(record, identity)


def _require_different(names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"Columns of predictions must have different names; {twice[0]!r} is used twice. Leave it out of --keep."
        )
