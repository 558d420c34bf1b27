"""What the catalogue says of a data set, and the check that a user's files are the ones it means."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mogul._typing import IntArray
from mogul.data.dataset import Dataset
from mogul.data.splits import GroupedData
from mogul.errors import ConfigError, DataError


@dataclass(frozen=True)
class File:
    """A file in the data folder; no checksum where nobody has recorded one yet."""

    path: str
    sha256: str | None


@dataclass(frozen=True)
class Entry:
    """A data set: its sizes, what it is and is not, where it comes from, and how it is read or simulated.

    `paper` is the paper's name for these very data; `stands_in_for` is the paper's name for data that these replace,
    whose figures in the paper must not be set beside those of this set.
    """

    name: str
    num_rows: int
    num_inputs: int
    num_outputs: int
    num_test: int
    groups: str
    what: str
    is_not: str
    source: str
    paper: str | None = None
    stands_in_for: str | None = None
    files: tuple[File, ...] = ()
    read: Callable[[Path], tuple[Dataset, IntArray]] | None = None
    simulator: Callable[[int, int], tuple[Dataset, IntArray]] | None = None
    simulated_sha256: str | None = None

    @property
    def is_simulated(self) -> bool:
        """Whether it is made, and needs no folder."""
        return self.simulator is not None

    def is_present(self, folder: Path | None) -> bool:
        """Whether all its files are in the folder."""
        return folder is not None and bool(self.files) and all((folder / file.path).is_file() for file in self.files)

    def load(self, folder: Path) -> GroupedData:
        """Read it, and refuse files whose checksum or shape is another."""
        self._require_files(folder)
        found = {file.path: file_checksum(folder / file.path) for file in self.files}
        wrong = [file for file in self.files if file.sha256 not in (None, found[file.path])]
        if wrong:
            raise self._wrong_file(folder, wrong[0], found[wrong[0].path])
        data, groups = self._read(folder)
        if self._sizes(data) != self._expected_sizes():
            raise self._wrong_file(folder, self.files[0], found[self.files[0].path])
        return GroupedData(self.name, data, groups, self.num_test)

    def simulate(self, num_rows: int | None = None, seed: int = 0) -> GroupedData:
        """Make it: all its rows, or so many, with test rows in proportion."""
        if self.simulator is None:
            raise ConfigError(
                f"A simulated data set must be named; {self.name} is recorded. Put its files in a folder."
            )
        rows = self.num_rows if num_rows is None else num_rows
        data, groups = self.simulator(rows, seed)
        return GroupedData(self.name, data, groups, max(1, round(rows * self.num_test / self.num_rows)))

    def checksums(self, grouped: GroupedData, folder: Path | None) -> dict[str, str]:
        """The SHA-256 found for each file, or for the values of a simulated set."""
        if self.is_simulated or folder is None:
            return {"values": data_checksum(grouped)}
        return {file.path: file_checksum(folder / file.path) for file in self.files}

    def recorded_checksums(self) -> dict[str, str | None]:
        """The SHA-256 that the catalogue holds for the same."""
        if self.is_simulated:
            return {"values": self.simulated_sha256}
        return {file.path: file.sha256 for file in self.files}

    def to_json(self) -> dict[str, Any]:
        """What the catalogue says, as plain values."""
        words = ("name", "num_rows", "num_inputs", "num_outputs", "num_test", "groups", "what", "is_not", "source")
        described = {word: getattr(self, word) for word in (*words, "paper", "stands_in_for")}
        return described | {"recorded_sha256": self.recorded_checksums()}

    def _require_files(self, folder: Path) -> None:
        missing = [file.path for file in self.files if not (folder / file.path).is_file()]
        if missing:
            raise DataError(
                f"{self.name} must be at {' and '.join(file.path for file in self.files)} in the data folder; "
                f"{folder / missing[0]} does not exist. Put the file there: {self.source}"
            )

    def _read(self, folder: Path) -> tuple[Dataset, IntArray]:
        """Read the files; what a reader makes of a broken one becomes an error of ours."""
        if self.read is None:
            raise ConfigError(f"A recorded data set must be named; {self.name} is simulated. Use simulate.")
        try:
            return self.read(folder)
        except DataError:
            raise
        # Readers of foreign formats raise whatever they like on foreign bytes.
        except Exception as error:
            raise DataError(
                f"{self.name} must be readable; {_one_line(error)}. Is it the right file, and complete?"
            ) from error

    def _wrong_file(self, folder: Path, file: File, found_sha256: str) -> DataError:
        """The error that says what was expected and what is there."""
        try:
            found_shape = describe_sizes(*self._sizes(self._read(folder)[0]))
        except DataError:
            found_shape = _matrices(folder / file.path)
        return DataError(
            f"{self.name} must be {describe_sizes(*self._expected_sizes())} with SHA-256 "
            f"{file.sha256 or '(none recorded)'}; {folder / file.path} has {found_shape} with SHA-256 {found_sha256}. "
            "Put the right file there."
        )

    def _expected_sizes(self) -> tuple[int, int, int]:
        return self.num_rows, self.num_inputs, self.num_outputs

    @staticmethod
    def _sizes(data: Dataset) -> tuple[int, int, int]:
        return data.num_rows, data.num_inputs, data.num_outputs


def describe_sizes(num_rows: int, num_inputs: int, num_outputs: int) -> str:
    """In words.

    >>> describe_sizes(20068, 21, 14)
    '20,068 rows (21 → 14)'
    """
    return f"{num_rows:,} rows ({num_inputs} → {num_outputs})"


def file_checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def data_checksum(grouped: GroupedData) -> str:
    """The SHA-256 of the values, row by row: inputs, outputs, group."""
    rows = np.column_stack([grouped.data.x, grouped.data.y, grouped.groups])
    return hashlib.sha256(np.ascontiguousarray(rows, dtype="<f8").tobytes()).hexdigest()


def _matrices(path: Path) -> str:
    """The shape of what a file holds, where it is a file of matrices, though not of those wanted."""
    from scipy.io import whosmat

    try:
        held = [(name, "×".join(map(str, shape))) for name, shape, _ in whosmat(str(path))]
    # As in `_read`: foreign bytes.
    except Exception:
        return "nothing that can be read"
    some = ", ".join(f"{name} {shape}" for name, shape in held[:2])
    return f"{len(held)} other matrices ({some}{', …' if len(held) > 2 else ''})"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
