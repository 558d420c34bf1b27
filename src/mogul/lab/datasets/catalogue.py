"""Every data set that mogul knows, by name."""

from collections.abc import Callable
from pathlib import Path

from mogul._typing import IntArray
from mogul.data.dataset import Dataset
from mogul.data.splits import GroupedData
from mogul.errors import unknown_name
from mogul.lab.datasets import robots, simulated, tables
from mogul.lab.datasets.entry import Entry, File
from mogul.lab.datasets.robots import data_folder

_SARCOS_TEST = File("sarcos/sarcos_inv_test.mat", "161a59b5c3b4f4b404584323f181607b2acbe620eb134dc720760dc3f38f5cec")
_SARCOS_SOURCE = "the companion data of Rasmussen and Williams' book on Gaussian processes; no licence stated."
_DIRECT_SOURCE = "in the public repository JunShao0104/NDE-based-Robot-Learning-Dynamics (MIT), folder data/FK."


def entry(name: str) -> Entry:
    """The entry of this name."""
    if name not in CATALOGUE:
        raise unknown_name("dataset", name, CATALOGUE)
    return CATALOGUE[name]


def load(name: str, folder: Path | None = None, seed: int = 0) -> GroupedData:
    """A data set by name: read from the folder and checked, or simulated, which needs no folder."""
    found = entry(name)
    return found.simulate(seed=seed) if found.is_simulated else found.load(data_folder(folder))


def _from_file(name: str) -> Callable[[Path], tuple[Dataset, IntArray]]:
    source = robots.SOURCES[name]
    return lambda folder: source.load(folder / source.file)


def _direct_dynamics(name: str, paper: str, robot: str, sha256: str) -> Entry:
    """One of the paper's two sets of next-state prediction."""
    source = robots.SOURCES[name]
    return Entry(
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
    Entry(
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
        read=robots.read_sarcos,
    ),
    Entry(
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
        read=robots.read_sarcos_test,
    ),
    Entry(
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
        read=robots.read_baxter_rand,
    ),
    Entry(
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
        read=tables.read_jura,
    ),
    Entry(
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
        read=tables.read_eeg,
    ),
    Entry(
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
        read=tables.read_rf1,
    ),
    Entry(
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
        read=tables.read_oil_flow,
    ),
    Entry(
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
    Entry(
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
CATALOGUE: dict[str, Entry] = {each.name: each for each in _ENTRIES}
