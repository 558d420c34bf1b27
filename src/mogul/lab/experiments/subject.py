"""What a row of the results is about: the same for a job that is still to run and for the record that it leaves."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mogul.data.splits import Split

Kind = Literal["model", "baseline"]


@dataclass(frozen=True)
class Subject:
    """A model or a baseline on one split of one data set with one setting.

    Args:
        experiment: which of the paper's.
        dataset: its name in the catalogue.
        split: how rows are divided.
        split_label: that in words.
        label: the name in tables.
        kind: whether it is a model or a baseline.
        model: what `mogul.fit` calls it, or the baseline's name.
        settings: what a sweep varies; empty otherwise.
        preset: how it is trained.
        seed: of the split and of training.
        command: makes this one row again.
    """

    experiment: str
    dataset: str
    split: Split
    split_label: str
    label: str
    kind: Kind
    model: str
    settings: Mapping[str, int]
    preset: str
    seed: int
    command: str

    @property
    def slug(self) -> str:
        """The name of its file: the same for what should be the same number."""
        return slug_of(self.experiment, self.preset, self.dataset, self.split_label, self.label, self.settings)

    @property
    def setting(self) -> str:
        """What a sweep varies, in words."""
        return describe(self.settings)


def slug_of(
    experiment: str, preset: str, dataset: str, split_label: str, label: str, settings: Mapping[str, int]
) -> str:
    """A name for a file that says which row it is.

    >>> slug_of("hidden-units", "fast", "kuka", "random 0", "N-DGP (L′ = L) + linear", {"num_hidden": 8})
    'hidden-units--fast--kuka--random-0--n-dgp-l-l-linear--num-hidden-8'
    """
    parts = [experiment, preset, dataset, split_label, label, *(f"{name} {settings[name]}" for name in settings)]
    return "--".join(_plain(part) for part in parts)


def describe(settings: Mapping[str, int]) -> str:
    """Settings in words.

    >>> describe({"num_hidden": 8})
    'num_hidden=8'
    """
    return ";".join(f"{name}={value}" for name, value in settings.items())


def _plain(words: str) -> str:
    ascii_words = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", ascii_words.lower()).strip("-")
