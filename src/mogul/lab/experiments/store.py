"""A folder of results: one file for each job, whole or not there, and never of two configurations."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mogul.errors import DataError
from mogul.lab.experiments.job import Job
from mogul.lab.experiments.record import Record
from mogul.storage.atomic import write_json


class Store:
    """The records in a folder, by the names of their files.

    Args:
        folder: where results go; it need not be there yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> dict[str, Record]:
        """All records, in the order of their names."""
        return {path.stem: _read(path) for path in sorted((self.folder / "jobs").glob("*.json"))}

    def write(self, record: Record) -> None:
        """Store a record, all or nothing."""
        write_json(self._path(record.slug), record.to_json())

    def unfinished(self, jobs: Iterable[Job]) -> list[Job]:
        """The jobs without a result, or that failed; an error if any was done, here or for another split, otherwise."""
        stored, left = self.read(), []
        for job in jobs:
            record = stored.get(job.slug)
            if record is not None:
                self._require_same(job.slug, record.config, job.config)
            for slug, other in stored.items():
                if _same_row(other, job):
                    self._require_same(slug, _beside_data(other.config), _beside_data(job.config))
            if record is None or record.error is not None:
                left.append(job)
        return left

    def _path(self, slug: str) -> Path:
        return self.folder / "jobs" / f"{slug}.json"

    def _require_same(self, slug: str, stored: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        different = difference(stored, json.loads(json.dumps(asked)))
        if different is not None:
            name, there, here = different
            raise DataError(
                f"Results in one folder must be of one configuration; {self._path(slug)} has {name} = {there}, "
                f"and {here} was asked for. Choose another --out, or ask for the same."
            )


def difference(one: Any, other: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """The first setting that differs, and its two values.

    >>> difference({"a": {"b": 1}}, {"a": {"b": 2}})
    ('a.b', 1, 2)
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            found = difference(one.get(key), other.get(key), f"{name}.{key}" if name else key)
            if found is not None:
                return found
        return None
    return None if one == other else (name, one, other)


def _same_row(record: Record, job: Job) -> bool:
    """Whether both are averaged into one number: the same but for the seed."""
    names = ("experiment", "preset", "dataset", "label", "settings")
    same = all(getattr(record, name) == getattr(job, name) for name in names)
    return same and record.split.kind == job.split.kind


def _beside_data(config: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same for every seed, even where each has data of its own."""
    return {name: value for name, value in config.items() if name != "data_sha256"}


def _read(path: Path) -> Record:
    try:
        record = Record.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:  # our errors of data are among these
        raise DataError(f"{path} must be a result of mogul's; {error} Choose another folder.") from None
    if record.slug != path.stem:
        raise DataError(f"{path} must be named {record.slug}.json after what it holds; it is not. Rename it.")
    return record
