"""The paper's experiments, each a declaration that `mogul.lab.experiments.run` carries out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from mogul.data import Dataset
from mogul.data.splits import GroupedData
from mogul.errors import ConfigError, unknown_name
from mogul.lab.baselines import BASELINES, Baseline
from mogul.lab.baselines.closed_form import predict_principal
from mogul.lab.datasets.catalogue import entry, load
from mogul.lab.experiments import protocol, synthetic
from mogul.lab.experiments.lines import Line, Variant, line
from mogul.lab.experiments.protocol import ProtocolName
from mogul.models import OPTIONS
from mogul.registry import names as registered
from mogul.training import TrainingConfig

Units = Literal["standardised", "original"]
Settings = Mapping[str, int]
Source = Callable[[int], GroupedData]  # the data of a seed


def catalogued(dataset: str, folder: Path | None, preset: ProtocolName) -> Source:
    """A data set of the catalogue, the same for every seed; the fast preset has fewer rows of some simulated ones."""
    fewer = protocol.FAST_ROWS.get(dataset) if preset == "fast" else None
    grouped = load(dataset, folder) if fewer is None else entry(dataset).simulate(fewer)
    return lambda seed: grouped


def unchanged(train: Dataset, test: Dataset, settings: Settings, seed: int) -> tuple[Dataset, Dataset]:
    """The rows as they are."""
    return train, test


def positive(train: Dataset) -> range:
    """Every positive number."""
    return range(1, 10**9)


@dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments: data × splits × lines × settings.

    Args:
        name: what is typed.
        section: of the paper.
        title: in a few words.
        groups: its lines, by names that can be typed for many at once; the first is the default.
        added_groups: those that all presets but the paper's run beside the first.
        dataset: the default.
        setting: what is swept, if anything: a name of the model's options, or one that `prepare` knows.
        points: its values.
        num_splits: how many random splits the paper averages over.
        units: of all scores.
        options: what all models of it are built with.
        baselines: those that only these data have, beside the ones of every experiment.
        sweeps_baselines: whether baselines depend on what is swept.
        scores_training: whether scores on the training rows are wanted, too.
        holds_out_groups: whether models with the linear mean use some trajectories as validation rows on the split by
            trajectory, to choose the number of epochs, then train on all; `prepare` must keep the order of rows.
        load: the data by name, folder and preset, for each seed.
        prepare: turns the rows of a split into those of a job.
        limits: the allowed values of a setting, given training rows.
        fast: how to train fast.
    """

    name: str
    section: str
    title: str
    groups: Mapping[str, Sequence[Line]]
    added_groups: tuple[str, ...] = ()
    dataset: str = "kuka"
    setting: str | None = None
    points: tuple[int, ...] = ()
    num_splits: int = 10
    units: Units = "standardised"
    options: Mapping[str, Any] = field(default_factory=dict)
    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    sweeps_baselines: bool = True
    scores_training: bool = False
    holds_out_groups: bool = False
    load: Callable[[str, Path | None, ProtocolName], Source] = catalogued
    prepare: Callable[[Dataset, Dataset, Settings, int], tuple[Dataset, Dataset]] = unchanged
    limits: Callable[[Dataset], range] = positive
    fast: Callable[[Line, int, int | None, int], TrainingConfig] = protocol.fast

    @property
    def lines(self) -> list[Line]:
        """All its lines, each once."""
        return list({line.name: line for group in self.groups.values() for line in group}.values())

    @property
    def all_baselines(self) -> dict[str, Baseline]:
        """Its own, and those of every experiment."""
        return {**self.baselines, **BASELINES}

    def place(self, kind: str, variant: Variant) -> tuple[int, bool, int]:
        """Where tables list a line: baselines, then models, each beside its variants; unknown ones last."""
        if kind == "baseline":
            known = [baseline.label for baseline in self.all_baselines.values()]
        else:
            known = list(dict.fromkeys(line.variant.family for line in self.lines))
        if variant.family not in known:
            return len(known), False, 0
        return known.index(variant.family), variant.linear, registered("noise").index(variant.noise)

    def settings(self, points: Sequence[int] | None, *, swept: bool) -> list[Settings]:
        """What a line is run with: each point of the sweep, or nothing in particular."""
        if self.setting is None or not swept:
            return [{}]
        return [{self.setting: point} for point in (self.points if points is None else points)]

    def require_sweep(self) -> None:
        """Check that there is something to choose points of."""
        if self.setting is None:
            raise ConfigError(f"--points are for sweeps; {self.name} sweeps nothing. Leave them out.")

    def require_points(self, points: Sequence[int] | None, train: Dataset) -> None:
        """Check the values of the sweep against the training rows of a data set."""
        allowed = self.limits(train)
        for point in self.points if points is None else points:
            if point not in allowed:
                raise ConfigError(
                    f"--points of {self.name} ({self.setting}) must be from {allowed[0]} to {allowed[-1]} for these "
                    f"data; got {point}. Choose others."
                )

    def build_options(self, line: Line, settings: Settings, num_outputs: int) -> dict[str, Any]:
        """The options of `mogul.models.build`."""
        swept = {name: value for name, value in settings.items() if name in OPTIONS}
        return dict(self.options) | line.build_options(num_outputs) | swept

    def training(
        self,
        line: Line,
        preset: ProtocolName,
        dataset: str,
        num_train: int,
        share: float,
        epochs: int | None,
        seed: int,
        *,
        grouped: bool = False,
    ) -> TrainingConfig:
        """How to train; with a share of the training rows, the batch shrinks by the same share.

        That is the paper's rule for its own models; the default way to train suits itself to few rows.
        """
        if preset == "paper":
            config = protocol.paper(line, dataset, num_train, epochs, seed)
        elif preset == "paper-fast":
            return line.trained(protocol.paper_fast(line, num_train, epochs, seed))
        elif preset == "default":
            return line.trained(protocol.default(line, num_train, epochs, seed, grouped=grouped))
        elif line.linear:
            return line.trained(self.fast(line, num_train, epochs, seed))
        else:  # the same number of steps with few rows as with all
            config = self.fast(line, round(num_train / share), epochs, seed)
        return line.trained(replace(config, batch_size=max(1, round(share * config.batch_size))))


def _load(dataset: str, folder: Path | None, preset: ProtocolName) -> Source:
    if dataset != synthetic.DATASET:
        raise unknown_name("dataset of the synthetic experiment", dataset, [synthetic.DATASET])
    return synthetic.draw


def _fast(line: Line, num_train: int, epochs: int | None, seed: int) -> TrainingConfig:
    config = synthetic.config(seed)
    return config if epochs is None else config.within(epochs)


SYNTHETIC = Experiment(
    name="synthetic",
    section="5.1",
    title="g(x) = cos(4‖x‖), ℝ⁵ → ℝ⁸",
    groups={"all": [Line(name, (name.upper(),), name, options) for name, options in synthetic.MODELS.items()]},
    dataset=synthetic.DATASET,
    num_splits=1,
    units="original",
    baselines={"oracle": Baseline("oracle (true function and noise)", synthetic.predict_oracle)},
    load=_load,
    fast=_fast,
)


_NAMES = ("mogp", "gprn", "dgp", "sbgprn", "n-mogp", "n-sbgprn", "n-dgp", "dk-n-sbgprn")
_MAIN = [line(model) for model in _NAMES] + [line(model, same_layers=True) for model in ("dgp", "n-dgp")]
_MOGP = [line("mogp"), line("dk-mogp"), line("n-mogp")]
_MOGP += [line("n-mogp", nonlinearity=sigma) for sigma in ("erf", "relu", "leaky")]
_GPRN = [line(model) for model in ("gprn", "dk-gprn", "sbgprn", "dk-sbgprn", "n-sbgprn", "dk-n-sbgprn")]
_GPRN += [
    line(model, nonlinearity=sigma) for model in ("n-sbgprn", "dk-n-sbgprn") for sigma in ("erf", "relu", "sherf")
]
_DGP = [
    each
    for same in (False, True)
    for each in (
        line("dgp", same_layers=same),
        line("n-dgp", same_layers=same),
        *(line("n-dgp", nonlinearity=sigma, same_layers=same) for sigma in ("sherf", "leaky")),
    )
]
_TABLE_2 = [line(model) for model in ("mogp", "dk-mogp", "gprn", "dk-gprn", "dgp", "n-mogp", "sbgprn", "n-sbgprn")]
_TABLE_2 += [line("dk-n-sbgprn"), line("n-dgp")]
# Not of the paper: the noise of its best model as it depends on where a row is, and with heavy tails; and the simplest
# model with the first of them, which new trajectories lead astray the least.
_NOISES = [line("n-sbgprn").on_a_plane.with_noise(noise) for noise in ("gp", "net", "student-t")]
_NOISES += [line("mogp").on_a_plane.with_noise("gp")]

REGRESSION = Experiment(
    name="regression",
    section="5.3",
    title="regression",
    groups={
        "main": _MAIN,
        "table-2": _TABLE_2,
        "table-4": _MOGP,
        "table-5": _GPRN,
        "table-6": _DGP,
        "all": [*_MOGP, *_GPRN, *_DGP],
        "noises": _NOISES,
    },
    added_groups=("noises",),
    holds_out_groups=True,
)


_TABLE_3 = [line("mogp-lvm"), line("n-mogp-lvm"), line("n-sbgprn-lvm")]
# N-MOGP has 14 hidden units and leaky ReLU, N-SBGPRN ReLU, unless said otherwise.
_TABLE_7 = [
    line("mogp-lvm"),
    *(line("n-mogp-lvm", nonlinearity=sigma, hidden=7) for sigma in ("erf", "relu", "sherf", "leaky")),
    line("n-mogp-lvm"),
    *(line("n-mogp-lvm", nonlinearity=sigma, hidden=14) for sigma in ("erf", "relu", "sherf")),
    line("n-sbgprn-lvm"),
    *(line("n-sbgprn-lvm", nonlinearity=sigma) for sigma in ("erf", "sherf", "leaky")),
]


def concatenated(train: Dataset, test: Dataset, settings: Settings, seed: int) -> tuple[Dataset, Dataset]:
    """y ← (x, y): inputs and outputs together are what is to be explained."""
    return _outputs_only(train), _outputs_only(test)


def _outputs_only(data: Dataset) -> Dataset:
    values = np.concatenate([data.x, data.y], axis=1)
    frame = pd.DataFrame(values, columns=[*data.input_names, *data.output_names])
    return Dataset(None, frame, check_outputs=False)


UNSUPERVISED = Experiment(
    name="unsupervised",
    section="5.4",
    title="unsupervised learning",
    groups={"table-3": _TABLE_3, "table-7": _TABLE_7},
    baselines={"pca": Baseline("probabilistic PCA", predict_principal, applies=lambda train: train.num_outputs > 1)},
    prepare=concatenated,
)


HIDDEN_UNITS = Experiment(
    name="hidden-units",
    section="5.5",
    title="varying the number of hidden units",
    groups={
        "all": [
            *(replace(line(model), swept=False) for model in ("mogp", "dgp")),
            *(line(model) for model in ("n-mogp", "n-sbgprn", "n-dgp")),
        ]
    },
    setting="num_hidden",
    points=(4, 8, 12, 16, 20),
    sweeps_baselines=False,
    holds_out_groups=True,
)


def fewer_rows(train: Dataset, test: Dataset, settings: Settings, seed: int) -> tuple[Dataset, Dataset]:
    """The first `num_train` shuffled training rows: smaller sets are nested, and each split has its own order."""
    order = np.random.default_rng([seed, 1]).permutation(train.num_rows)
    return train.rows(order[: settings["num_train"]]), test


def _at_most_all(train: Dataset) -> range:
    return range(2, train.num_rows + 1)


SMALL_DATA = Experiment(
    name="small-data",
    section="5.6",
    title="small data regime",
    groups={"all": [line("mogp"), line("n-mogp")], "deep": [line("n-dgp")]},
    dataset="rhythmic-arm",
    setting="num_train",
    points=(250, 500, 1000, 2000, 4000),
    num_splits=15,
    options={"num_inducing": 250},
    scores_training=True,
    prepare=fewer_rows,
    limits=_at_most_all,
)


def with_gaps(train: Dataset, test: Dataset, settings: Settings, seed: int) -> tuple[Dataset, Dataset]:
    """The same number of outputs missing in every training row, others in each row and each split."""
    places = np.tile(np.arange(train.num_outputs), (train.num_rows, 1))
    shuffled = np.random.default_rng([seed, 2]).permuted(places, axis=1)
    y = np.where(shuffled < settings["num_missing"], np.nan, train.y)
    inputs = pd.DataFrame(train.x, columns=train.input_names)
    return Dataset(inputs, pd.DataFrame(y, columns=train.output_names)), test


def _some_left(train: Dataset) -> range:
    return range(train.num_outputs)


MISSING_OUTPUTS = Experiment(
    name="missing-outputs",
    section="5.7",
    title="missing outputs",
    groups={"all": [line("mogp"), line("n-mogp")]},
    setting="num_missing",
    points=(0, 3, 6, 9),
    holds_out_groups=True,
    prepare=with_gaps,
    limits=_some_left,
)


EXPERIMENTS: dict[str, Experiment] = {
    each.name: each for each in (SYNTHETIC, REGRESSION, UNSUPERVISED, HIDDEN_UNITS, SMALL_DATA, MISSING_OUTPUTS)
}


def experiment(name: str) -> Experiment:
    """The experiment of this name.

    >>> experiment("small-data").section
    '5.6'
    """
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
