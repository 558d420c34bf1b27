"""What an experiment of the paper is: a declaration that one shared runner carries out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from mogul.data import Dataset
from mogul.data.grouped import GroupedData
from mogul.errors import ConfigError
from mogul.lab.baselines import BASELINES, Baseline
from mogul.lab.datasets.catalogue import entry, load
from mogul.lab.experiments import protocol
from mogul.lab.experiments.lines import Line, plain_label
from mogul.lab.experiments.protocol import ProtocolName
from mogul.models import OPTIONS
from mogul.registry import names
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
        holds_out_groups: whether models on a plane that are to predict new trajectories hold out some of theirs, to
            know how long to train on all of them; `prepare` must leave the rows where they are.
        load: the data by name, folder and preset, for each seed.
        prepare: turns the rows of a split into those of a job.
        limits: the values that a setting may take, given training rows.
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

    def order(self, label: str) -> int:
        """The place of a label in tables: baselines, then lines, each beside its variants."""
        labels = [baseline.label for baseline in self.all_baselines.values()]
        noises = names("noise")
        labels += [each.label for line in self.lines for each in line.variants(linear=True, noises=noises)]
        plain = plain_label(label)
        return labels.index(plain) if plain in labels else len(labels)

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
        """How to train; where only a share of the training rows is used, steps are on as much smaller a batch.

        That is the paper's rule for its own models; the default way to train suits itself to few rows.
        """
        if preset == "paper":
            config = protocol.paper(line, dataset, num_train, epochs, seed)
        elif preset == "default":
            return line.trained(protocol.default(line, num_train, epochs, seed, grouped=grouped))
        elif line.linear:
            return line.trained(self.fast(line, num_train, epochs, seed))
        else:  # as many steps with few rows as with all
            config = self.fast(line, round(num_train / share), epochs, seed)
        return line.trained(replace(config, batch_size=max(1, round(share * config.batch_size))))
