"""From the options of `mogul reproduce` to a checked list of jobs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mogul.data import Dataset
from mogul.data.splits import GroupedData, Split
from mogul.errors import ConfigError, require_positive, unknown_name
from mogul.lab.baselines import Baseline
from mogul.lab.datasets.catalogue import data_checksum
from mogul.lab.experiments.declarations import Experiment, Settings
from mogul.lab.experiments.lines import NONE, Line, choose, require_noises
from mogul.lab.experiments.protocol import ProtocolName, capped
from mogul.lab.experiments.record import Job
from mogul.models.families import is_latent
from mogul.training import TrainingConfig
from mogul.training.defaults import is_the_papers

RANDOM, TRAJECTORY = "random", "trajectory"
BY_TRAJECTORY = "by trajectory"
_REMEDY = "Try --splits 3, or --splits random:3,trajectory:3."


@dataclass(frozen=True)
class ChosenSplit:
    """One split: random rows by the seed, or by trajectory, where the seed is that of training alone."""

    seed: int
    by_trajectory: bool = False

    def of(self, grouped: GroupedData) -> Split:
        """The split of these data."""
        return grouped.group_split() if self.by_trajectory else grouped.random_split(self.seed)

    @property
    def label(self) -> str:
        """The split in tables and file names."""
        if not self.by_trajectory:
            return f"{RANDOM} {self.seed}"
        return BY_TRAJECTORY if self.seed == 0 else f"{BY_TRAJECTORY}, seed {self.seed}"

    @property
    def words(self) -> str:
        """The options that choose this split."""
        return f"{f'--splits {TRAJECTORY} ' if self.by_trajectory else ''}--seeds {self.seed}"


@dataclass(frozen=True)
class SplitChoice:
    """Random splits by their seeds, and the split by trajectory with seeds of training.

    Example:
        >>> SplitChoice.parse("random:2,trajectory", None, 10)
        SplitChoice(random=(0, 1), trajectory=(0,))
        >>> SplitChoice.parse(None, "3,7", 10)
        SplitChoice(random=(3, 7), trajectory=())
    """

    random: tuple[int, ...]
    trajectory: tuple[int, ...] = ()

    @staticmethod
    def parse(splits: str | None, seeds: str | None, default: int) -> "SplitChoice":
        """From `--splits` (`3`, `random:3`, `random`, `trajectory`, `trajectory:3`) and `--seeds` (`0,1,2`)."""
        words = [RANDOM] if splits is None else [word.strip() for word in splits.split(",")]
        given = None if seeds is None else whole_numbers("--seeds", seeds)
        chosen: dict[str, tuple[int, ...]] = {}
        for word in words:
            name, count = _name_and_count(word)
            if name in chosen:
                raise ConfigError(f"--splits must name {name} splits once; got {splits!r}. {_REMEDY}")
            if count and given is not None:
                raise ConfigError(
                    f"--seeds must stand beside splits without a number; got --splits {splits}. Drop one of them."
                )
            if count and int(count) < 1:
                raise ConfigError(f"--splits must be at least 1; got {count}. {_REMEDY}")
            number = int(count) if count else default if name == RANDOM else 1
            chosen[name] = tuple(range(number)) if given is None else given
        return SplitChoice(chosen.get(RANDOM, ()), chosen.get(TRAJECTORY, ()))

    @property
    def each(self) -> list[ChosenSplit]:
        """All of them."""
        by_trajectory = [ChosenSplit(seed, by_trajectory=True) for seed in self.trajectory]
        return [ChosenSplit(seed) for seed in self.random] + by_trajectory


def _name_and_count(word: str) -> tuple[str, str]:
    """`random:3` → random and 3; a bare number is one of random splits."""
    if word.isdecimal():
        return RANDOM, word
    name, colon, count = word.partition(":")
    if name not in {RANDOM, TRAJECTORY} or (colon and not count.isdecimal()):
        raise ConfigError(
            f"--splits must be a number, random, trajectory, or one of these with :NUMBER; got {word!r}. {_REMEDY}"
        )
    return name, count


def whole_numbers(option: str, words: str) -> tuple[int, ...]:
    """A list of different whole numbers, 0 or more.

    >>> whole_numbers("--seeds", "0, 2")
    (0, 2)
    """
    parts = [word.strip() for word in words.split(",")]
    if not all(part.isdecimal() for part in parts) or len(set(parts)) < len(parts):
        raise ConfigError(f"{option} must be different whole numbers with commas; got {words!r}. Try {option} 0,1,2.")
    return tuple(int(part) for part in parts)


@dataclass(frozen=True)
class ExperimentRequest:
    """An experiment with what the user chose of it; None is the experiment's own choice.

    Args:
        experiment: which.
        preset: how to train.
        datasets: names of the catalogue.
        models: names of lines or groups of lines; `none` for no model.
        baselines: names; `none` for no baseline.
        linear: whether each model is also run on a least-squares plane; by default in all presets but the paper's two.
        noises: that each model is run with; by default the constant one, and what all presets but the paper's two add.
        splits: which.
        points: of the sweep.
        epochs: of every model.
        inducing: the most inducing points in a model's first layer.
        folder: of the data sets.
    """

    experiment: Experiment
    preset: ProtocolName
    splits: SplitChoice
    datasets: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    baselines: tuple[str, ...] | None = None
    linear: bool | None = None
    noises: tuple[str, ...] | None = None
    points: tuple[int, ...] | None = None
    epochs: int | None = None
    inducing: int | None = None
    folder: Path | None = None

    def tasks(self) -> list[tuple[Job, GroupedData]]:
        """Each job with its data, quick ones first; everything is checked before this returns."""
        for option, value in (("--epochs", self.epochs), ("--inducing", self.inducing)):
            if value is not None:
                require_positive(**{option: value})
        if self.points is not None:
            self.experiment.require_sweep()
        lines, baselines = self._lines(), self._baselines()
        if not lines and not baselines:
            raise ConfigError("There must be something to run; got no models and no baselines. Name some.")
        found: list[tuple[Job, GroupedData]] = []
        for dataset in self.datasets or (self.experiment.dataset,):
            source = self.experiment.load(dataset, self.folder, self.preset)
            for chosen in self.splits.each:
                grouped = source(chosen.seed)
                jobs = list(self._jobs(grouped, chosen, lines, baselines))
                if not jobs:
                    raise ConfigError(
                        f"At least one baseline must suit {dataset}; got {', '.join(baselines)}, of which none does. "
                        "Name others, or models."
                    )
                found += [(job, grouped) for job in jobs]
        return sorted(found, key=lambda task: task[0].work)

    def _lines(self) -> list[Line]:
        is_ours, groups = not is_the_papers(self.preset), self.experiment.groups
        words = self.models
        if words is None:
            adds = is_ours and self.linear is not False and self.noises is None
            words = (next(iter(groups)), *(self.experiment.added_groups if adds else ()))
        linear = is_ours if self.linear is None else self.linear
        return choose(words, groups, linear=linear, noises=require_noises(self.noises or ("constant",)))

    def _baselines(self) -> dict[str, Baseline]:
        known = self.experiment.all_baselines
        if self.baselines is None:
            return known
        for name in self.baselines:
            if name not in (*known, NONE):
                raise unknown_name("baseline", name, [*known, NONE])
        return {name: known[name] for name in self.baselines if name != NONE}

    def _jobs(
        self, grouped: GroupedData, chosen: ChosenSplit, lines: Sequence[Line], baselines: Mapping[str, Baseline]
    ) -> Iterator[Job]:
        """The jobs of one split."""
        split = chosen.of(grouped)
        train, test = grouped.divide(split)
        self.experiment.require_points(self.points, train)
        swept = self.experiment.settings(self.points, swept=True)
        example, _ = self.experiment.prepare(train, test, swept[0], chosen.seed)
        self._require_inputs(grouped.name, lines, example)
        common: dict[str, Any] = {
            "experiment": self.experiment.name,
            "dataset": grouped.name,
            "split": split,
            "split_label": chosen.label,
            "preset": self.preset,
            "seed": chosen.seed,
            "units": self.experiment.units,
            "data_sha256": data_checksum(grouped),
        }
        for name, baseline in baselines.items():
            if not baseline.applies(example):
                continue
            for settings in self.experiment.settings(self.points, swept=self.experiment.sweeps_baselines):
                command = self._command(grouped.name, chosen, f"--models none --baselines {name}", settings)
                yield Job(
                    **common,
                    label=baseline.label,
                    kind="baseline",
                    model=name,
                    settings=settings,
                    command=command,
                    noise_floor=baseline.noise_floor,
                    baseline_epochs=baseline.epochs,
                )
        for line in lines:
            for settings in self.experiment.settings(self.points, swept=line.swept):
                words = f"--models {line.name}{'' if line.linear else ' --no-linear'} --baselines none"
                yield Job(
                    **common,
                    label=line.label,
                    kind="model",
                    model=line.model,
                    settings=settings,
                    command=self._command(grouped.name, chosen, words, settings),
                    noise_floor=line.noise_floor,
                    options=self._options(line, settings, example.num_outputs),
                    linear=line.linear,
                    training=self._training(line, split, settings, chosen.seed, grouped=chosen.by_trajectory),
                    holds_out_groups=chosen.by_trajectory and self._holds_out_groups(line),
                )

    def _require_inputs(self, dataset: str, lines: Sequence[Line], train: Dataset) -> None:
        """Check that lines whose inputs are observed have some."""
        observed = [line.label for line in lines if not is_latent(line.model)]
        if observed and not train.num_inputs:
            raise ConfigError(
                f"{observed[0]} of {self.experiment.name} needs data with inputs; got {dataset}, which has none. "
                f"Name other data, or try mogul reproduce unsupervised --datasets {dataset}."
            )

    def _options(self, line: Line, settings: Settings, num_outputs: int) -> dict[str, Any]:
        options = self.experiment.build_options(line, settings, num_outputs)
        return capped(options, line.model, self.preset, self.inducing)

    def _holds_out_groups(self, line: Line) -> bool:
        """The paper's presets, and the paper's models, train on all there is."""
        return not is_the_papers(self.preset) and line.linear and self.experiment.holds_out_groups

    def _training(self, line: Line, split: Split, settings: Settings, seed: int, *, grouped: bool) -> TrainingConfig:
        num_train = settings.get("num_train", split.num_train)
        share = num_train / split.num_train
        chosen = line, self.preset, split.dataset, num_train, share, self.epochs, seed
        return self.experiment.training(*chosen, grouped=grouped)

    def _command(self, dataset: str, chosen: ChosenSplit, words: str, settings: Settings) -> str:
        """What makes one row alone."""
        points = "".join(f" --points {value}" for value in settings.values())
        epochs = "" if self.epochs is None else f" --epochs {self.epochs}"
        inducing = "" if self.inducing is None else f" --inducing {self.inducing}"
        first = f"mogul reproduce {self.experiment.name} --preset {self.preset} --datasets {dataset} {chosen.words}"
        return f"{first} {words}{points}{epochs}{inducing}"
