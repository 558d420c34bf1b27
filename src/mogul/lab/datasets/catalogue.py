"""The data sets that mogul knows by name, and the check of a user's files by checksum and shape."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import whosmat

from mogul._typing import IntArray
from mogul.data.dataset import Dataset
from mogul.data.splits import GroupedData
from mogul.errors import ConfigError, DataError, unknown_name
from mogul.lab.datasets import files, simulated
from mogul.lab.datasets.files import data_folder


@dataclass(frozen=True)
class File:
    """A file in the data folder; the checksum is None if none is recorded."""

    path: str
    sha256: str | None


@dataclass(frozen=True)
class CatalogueEntry:
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
        """Whether it is simulated and needs no folder."""
        return self.simulator is not None

    def is_present(self, folder: Path | None) -> bool:
        """Whether all its files are in the folder."""
        return folder is not None and bool(self.files) and all((folder / file.path).is_file() for file in self.files)

    def load(self, folder: Path) -> GroupedData:
        """Read it; files with another checksum or shape are refused."""
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
        """Simulate all its rows, or `num_rows` of them, with test rows in proportion."""
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
        """Read the files; any exception of a reader becomes a DataError."""
        if self.read is None:
            raise ConfigError(f"A recorded data set must be named; {self.name} is simulated. Use simulate.")
        try:
            return self.read(folder)
        except DataError:
            raise
        # Readers of foreign formats may raise any exception on a broken file.
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
    """The shapes of the matrices in a .mat file that is not the expected one."""
    try:
        held = [(name, "×".join(map(str, shape))) for name, shape, _ in whosmat(str(path))]
    # As in `_read`: foreign bytes.
    except Exception:
        return "nothing that can be read"
    some = ", ".join(f"{name} {shape}" for name, shape in held[:2])
    return f"{len(held)} other matrices ({some}{', …' if len(held) > 2 else ''})"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


_SARCOS_TEST = File("sarcos/sarcos_inv_test.mat", "161a59b5c3b4f4b404584323f181607b2acbe620eb134dc720760dc3f38f5cec")
_SARCOS_SOURCE = "the companion data of Rasmussen and Williams' book on Gaussian processes; no licence stated."
_DIRECT_SOURCE = "in the public repository JunShao0104/NDE-based-Robot-Learning-Dynamics (MIT), folder data/FK."


def entry(name: str) -> CatalogueEntry:
    """The entry of this name."""
    if name not in CATALOGUE:
        raise unknown_name("dataset", name, CATALOGUE)
    return CATALOGUE[name]


def load(name: str, folder: Path | None = None, seed: int = 0) -> GroupedData:
    """A data set by name: read from the folder and checked, or simulated, which needs no folder."""
    found = entry(name)
    return found.simulate(seed=seed) if found.is_simulated else found.load(data_folder(folder))


def _from_file(name: str) -> Callable[[Path], tuple[Dataset, IntArray]]:
    source = files.SOURCES[name]
    return lambda folder: source.load(folder / source.file)


def _direct_dynamics(name: str, paper: str, robot: str, sha256: str) -> CatalogueEntry:
    """One of the paper's two sets of next-state prediction."""
    source = files.SOURCES[name]
    return CatalogueEntry(
        name=name,
        num_rows=source.num_rows,
        num_inputs=21,
        num_outputs=14,
        num_test=source.num_test,
        groups="10 trajectories",
        what=f"{robot} arm, forward dynamics: positions, velocities, torques → the next positions and velocities",
        is_not="no test of generalisation when split at random: rows are consecutive samples, neighbours on both sides",
        source=_DIRECT_SOURCE,
        paper=paper,
        files=(File(source.file, sha256),),
        read=_from_file(name),
    )


_ENTRIES = (
    _direct_dynamics("kuka", "Kuka", "Kuka", "b66131278f6b3e325b614f05d90e6a180a4f658606f1f554d8c832939cb5ff9d"),
    _direct_dynamics(
        "f-baxter", "F-Baxter", "Baxter", "19a2e0e28fb4fb85375de36205dbc1272cabdc6f3bad452544fbaf93a6c1f087"
    ),
    CatalogueEntry(
        name="sarcos",
        num_rows=48_933,
        num_inputs=21,
        num_outputs=7,
        num_test=5_000,
        groups="2 files: 1 training, 2 test",
        what="SARCOS arm, inverse dynamics: positions, velocities, accelerations → torques; both files together",
        is_not="not free of leaks: the test file is said to repeat training rows, see the audit",
        source=_SARCOS_SOURCE,
        paper="Sarcos",
        files=(File("sarcos/sarcos_inv.mat", None), _SARCOS_TEST),
        read=files.read_sarcos,
    ),
    CatalogueEntry(
        name="sarcos-test",
        num_rows=4_449,
        num_inputs=21,
        num_outputs=7,
        num_test=449,
        groups="none",
        what="SARCOS arm, inverse dynamics: the official test file alone",
        is_not="not the paper's Sarcos, which is eleven times as large",
        source=_SARCOS_SOURCE,
        stands_in_for="Sarcos",
        files=(_SARCOS_TEST,),
        read=files.read_sarcos_test,
    ),
    CatalogueEntry(
        name="baxter-rand",
        num_rows=15_000,
        num_inputs=21,
        num_outputs=7,
        num_test=3_000,
        groups="10 blocks of time",
        what="Baxter arm, inverse dynamics in random motion",
        is_not="not the paper's R-Baxter: the same robot and columns, other motion",
        source="in the public repository JunShao0104/NDE-based-Robot-Learning-Dynamics (MIT), folder data/IK.",
        stands_in_for="R-Baxter",
        files=(File("baxter-rand/BaxterRand.npy", "16962201e7bd190980f956b5e71e7fa55dbe38f5a5a0485a3cb707b1aa45d0eb"),),
        read=files.read_baxter_rand,
    ),
    CatalogueEntry(
        name="jura",
        num_rows=359,
        num_inputs=11,
        num_outputs=7,
        num_test=100,
        groups="2 surveys: 1 prediction, 2 validation",
        what="Swiss Jura soil: place, rock and land use → seven metals",
        is_not="not of the paper; too small for large models",
        source="in the public repository GAMES-UChile/mogptk (MIT), folder examples/data.",
        files=(File("jura/jura.csv", "5765315c5ffca7815062338b3b139227bdc19b39430b6df50d54ed687651221a"),),
        read=files.read_jura,
    ),
    CatalogueEntry(
        name="eeg",
        num_rows=300,
        num_inputs=1,
        num_outputs=21,
        num_test=60,
        groups="10 blocks of time",
        what="a minute of EEG, ECG and breath: time → 21 channels",
        is_not="not of the paper; nothing but time predicts it, so that it is of use where some channels are missing",
        source="in the public repository GAMES-UChile/mogptk (MIT), folder examples/data.",
        files=(File("eeg/eeg.csv", "c894e0d14475c37f3fbe413daa4d52080afb72ddc96f58367904328479add9fb"),),
        read=files.read_eeg,
    ),
    CatalogueEntry(
        name="rf1",
        num_rows=9_005,
        num_inputs=64,
        num_outputs=8,
        num_test=1_005,
        groups="10 blocks of time",
        what="river flows at 8 sites, now and up to 60 hours ago → 48 hours ahead",
        is_not="not of the paper; 120 of the file's 9,125 rows lack inputs and are left out",
        source="among the multi-target sets of tsoumakas/mulan; this copy in "
        "Zhendong-Wang/Probabilistic-Conformal-Prediction (MIT).",
        files=(File("mulan-mtr/rf1.arff", "994f9e334811e040d2002e46d3ce06504e5d441249bf65448f53d6ea24b33cf0"),),
        read=files.read_rf1,
    ),
    CatalogueEntry(
        name="oil-flow",
        num_rows=3_000,
        num_inputs=0,
        num_outputs=12,
        num_test=1_000,
        groups="3 files: 1 training, 2 validation, 3 test",
        what="three-phase oil flow: 12 measurements, no inputs, for latent maps; three known regimes",
        is_not="not of the paper, and not measured: a simulation of a pipeline by its authors",
        source="in the public repository lawrennd/datasets_mirror, folder three_phase_oil_flow; no licence stated.",
        files=(
            File("oil-flow/DataTrn.txt", "ff1aeeceb204de936990bc22cc9d0e4ca7094e993a6d723509c60be0b0f2a136"),
            File("oil-flow/DataTrnLbls.txt", "15e5ce14ca8054ca34b984b8da7d8ffeff682f86af2772911e9deccdd4d438c0"),
            File("oil-flow/DataVdn.txt", "2faab71737820af032f8d418669dcda5342296cba53116c43fb9e76b45f51710"),
            File("oil-flow/DataVdnLbls.txt", "b6073b1f0719451cec67cddad533decf6448aa026482f872e211e848007ebbe8"),
            File("oil-flow/DataTst.txt", "f287fda27a2b6b9e93de22ebed7229d1c57bd7e3154d6291b66f99521816e466"),
            File("oil-flow/DataTstLbls.txt", "411dcc8d566cf1f9a40bdb16d9d0e2ddf934b534a840e508efd4be4ce5827d2f"),
        ),
        read=files.read_oil_flow,
    ),
    CatalogueEntry(
        name="halfcheetah",
        num_rows=110_000,
        num_inputs=23,
        num_outputs=9,
        num_test=10_000,
        groups="1,100 episodes of 100 steps",
        what="HalfCheetah-v5, forward dynamics: 17 observations and 6 actions → change of the 9 velocities",
        is_not="not the paper's MuJoCo set: as many inputs and outputs, actions of our own",
        source="simulated here by gymnasium and MuJoCo.",
        stands_in_for="MuJoCo",
        simulator=simulated.half_cheetah,
        simulated_sha256="4afad4b2c028fe56b506f3563eb2d404c2ce585e51e1e2653910372e11f01f40",
    ),
    CatalogueEntry(
        name="rhythmic-arm",
        num_rows=8_918,
        num_inputs=21,
        num_outputs=7,
        num_test=2_000,
        groups="14 segments of 637 samples",
        what="a 7-joint arm in rhythmic motion, inverse dynamics with friction and sensor noise",
        is_not="not the paper's R-Baxter, nor a Baxter: as many inputs and outputs, an arm of our own of about its "
        "masses",
        source="simulated here by MuJoCo.",
        stands_in_for="R-Baxter",
        simulator=simulated.rhythmic_arm,
        simulated_sha256="0faa8ddd8e6a6ebe697dcc0ce4222370e91259a195695f16a689d82f5aee7df3",
    ),
)
CATALOGUE: dict[str, CatalogueEntry] = {each.name: each for each in _ENTRIES}
