"""The default beside its rivals, one record for each data set, fold and method: `python -m benchmarks panel`.

`python -m benchmarks panel --data edm,jura --methods mogul,trees --folds 1` adds what is missing to results/panel.csv
and writes docs/panel.md. Records that are there are skipped, so that a run that was cut short goes on where it stopped;
to measure one again, delete its line. Data are read from the folder of MOGUL_DATA.
"""

import argparse
import csv
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float

from benchmarks.panel_data import DATA, Fold, PanelData, imputed
from benchmarks.panel_page import panel_page
from mogul import MultiOutputGPRegressor
from mogul._typing import Array
from mogul.comparison.crossval import LEAST_SQUARES, MEAN, predict_baseline
from mogul.comparison.rivals import RIVALS, require_rivals
from mogul.data import Dataset, Scaling
from mogul.errors import MogulError, MogulWarning, unknown_name
from mogul.lab.datasets.files import data_folder
from mogul.metrics import FEW_OUTER, NUM_INNER, Part, arrmse, energy_score, score
from mogul.prediction import Prediction
from mogul.storage.atomic import write_whole

RECORDS = Path(__file__).parents[1] / "results" / "panel.csv"
PAGE = Path(__file__).parents[1] / "docs" / "panel.md"
MOGUL = "mogul"
METHODS = {MOGUL: MOGUL, "least-squares": LEAST_SQUARES, "mean": MEAN} | {name: name for name in RIVALS}
DEFAULT_METHODS = (MOGUL, "trees", "boosting", "least-squares")
_NUM_DRAWS = FEW_OUTER * NUM_INNER


@dataclass(frozen=True)
class Record:
    """What one method scored on one fold, in standardised units; `score` is a classic's own."""

    data: str
    fold: int
    method: str
    num_train: int
    num_test: int
    ll: float
    crps: float
    energy: float
    arrmse: float
    coverage: float
    seconds: float
    score: float = float("nan")
    note: str = ""

    @property
    def key(self) -> tuple[str, int, str]:
        """What it is the record of."""
        return self.data, self.fold, self.method


def read_records(path: Path) -> list[Record]:
    """All records of a file; none if it is not there."""
    if not path.exists():
        return []
    words, numbers = {"data", "method", "note"}, {"fold", "num_train", "num_test"}
    with path.open(encoding="utf-8", newline="") as lines:
        return [
            Record(
                **{
                    name: text if name in words else int(text) if name in numbers else float(text or "nan")
                    for name, text in row.items()
                }  # type: ignore[arg-type]
            )
            for row in csv.DictReader(lines)
        ]


def add_record(path: Path, record: Record) -> list[Record]:
    """Write all records anew, whole or not at all; another process may have added some since they were read."""
    known = {each.key: each for each in read_records(path)} | {record.key: record}
    order = {name: number for number, name in enumerate(DATA)}
    records = sorted(known.values(), key=lambda each: (order.get(each.data, len(order)), each.fold, each.method))

    def write(partial: Path) -> None:
        with partial.open("w", encoding="utf-8", newline="") as lines:
            writer = csv.writer(lines, lineterminator="\n")
            writer.writerow([each.name for each in fields(Record)])
            writer.writerows([_cell(value) for value in asdict(each).values()] for each in records)

    write_whole(path, write)
    return records


def _cell(value: object) -> object:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.6g}"
    return value


def measure(name: str, data: PanelData, number: int, method: str, fold: Fold) -> Record:
    """Fit a method to a fold's training rows, and score it on the test rows; an error of its own is kept as a note."""
    sizes = fold.train.num_rows, fold.test.num_rows
    started = time.perf_counter()
    try:
        parts = list(_parts(method, fold))
    except MogulError as error:
        nan = float("nan")
        return Record(name, number, method, *sizes, nan, nan, nan, nan, nan, nan, note=str(error))
    seconds = time.perf_counter() - started
    units = Scaling.of(fold.train).outputs
    scaled: list[Part] = [(prediction.standardised(units), units.apply(y)) for prediction, y in parts]
    scores = score(scaled)
    mean = np.concatenate([prediction.mean for prediction, _ in parts])
    return Record(
        data=name,
        fold=number,
        method=method,
        num_train=sizes[0],
        num_test=sizes[1],
        ll=scores.ll,
        crps=scores.crps,
        energy=float(np.nanmean(np.concatenate([energy_score(prediction, y) for prediction, y in scaled]))),
        arrmse=arrmse(mean, fold.test.y, np.nanmean(fold.train.y, axis=0)),
        coverage=scores.coverage[0.95],
        seconds=seconds,
        score=float("nan") if data.score is None else data.score(fold, mean),
    )


def _parts(method: str, fold: Fold) -> Iterator[Part]:
    """Predictions in original units beside the test outputs."""
    if method == MOGUL:
        # The plain default: no argument, and no groups.
        fitted = MultiOutputGPRegressor().fit(fold.train.x, fold.train.y).fitted_
        if fold.known is None:
            yield from fitted.predict_parts(fold.test, _NUM_DRAWS)
        else:
            yield fitted.predict(fold.test.x, _NUM_DRAWS, given=fold.known), fold.test.y
    elif fold.known is None or method == "gpar":  # which finds known outputs among its training rows by their inputs
        yield predict_baseline(METHODS[method], fold.train, fold.test.x, seed=0), fold.test.y
    else:
        yield predict_from_known(METHODS[method], fold, fold.known), fold.test.y


def predict_from_known(method: str, fold: Fold, known: Float[Array, "T P"]) -> Prediction:
    """Each hidden output by a regression on the inputs and on the other outputs that are mostly known in its test rows.

    It is what one does with a method that knows nothing of known outputs. Outputs are predicted apart from each other.
    """
    train, test = fold.train, fold.test
    mean = np.tile(np.nanmean(train.y, axis=0), (test.num_rows, 1))
    var = np.tile(np.nanvar(train.y, axis=0), (test.num_rows, 1))
    for target in np.flatnonzero(~np.isnan(test.y).all(axis=0)):
        rows, own = ~np.isnan(test.y[:, target]), ~np.isnan(train.y[:, target])
        helps = np.isnan(known[rows]).mean(axis=0) < 0.5
        before, after = (
            pd.DataFrame(np.hstack(parts)).rename(columns=str)
            for parts in ((train.x[own], train.y[np.ix_(own, helps)]), (test.x[rows], known[np.ix_(rows, helps)]))
        )
        x, test_x = imputed(before, after)
        found = predict_baseline(method, Dataset(x, train.y[own, target, None]), test_x.to_numpy(), seed=0)
        mean[rows, target], var[rows, target] = found.mean[:, 0], found.var[:, 0]
    return Prediction(mean, var, mean[None], var[None])


def run(
    data: Sequence[str], methods: Sequence[str], num_folds: int | None, folder: Path, path: Path
) -> Iterator[Record]:
    """Measure what is not yet recorded, record by record."""
    known = {record.key for record in read_records(path)}
    for name in data:
        own = DATA[name]
        for number in range(min(own.num_folds, num_folds or own.num_folds)):
            wanted = [method for method in methods if (name, number, method) not in known]
            fold = own.fold(folder, number) if wanted else None
            for method in wanted:
                assert fold is not None
                record = measure(name, own, number, method, fold)
                add_record(path, record)
                yield record


def chosen(text: str | None, kind: str, known: Iterable[str], default: Iterable[str]) -> list[str]:
    """Names separated by commas, all known; the default if there are none."""
    names = list(default) if text is None else [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise unknown_name(kind, name, known)
    return names


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print, write the page after each record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks panel", description=__doc__)
    parser.add_argument("--data", help=f"any of {', '.join(DATA)}; all by default")
    parser.add_argument("--methods", help=f"any of {', '.join(METHODS)}; {', '.join(DEFAULT_METHODS)} by default")
    parser.add_argument("--folds", type=int, help="only the first folds of each; all by default")
    given = parser.parse_args(arguments)
    try:
        data = chosen(given.data, "--data", DATA, DATA)
        methods = chosen(given.methods, "--methods", METHODS, DEFAULT_METHODS)
        require_rivals([method for method in methods if method in RIVALS], "--methods")
        folder = data_folder()
    except MogulError as error:
        parser.error(str(error))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MogulWarning)  # of rows in time, of which the page speaks
        for record in run(data, methods, given.folds, folder, RECORDS):
            print(
                f"{record.data} fold {record.fold} {record.method}: LL {record.ll:.3f} CRPS {record.crps:.3f} energy "
                f"{record.energy:.3f} aRRMSE {record.arrmse:.3f} 95% {record.coverage:.3f} score {record.score:.4f} "
                f"({record.seconds:.1f} s) {record.note}",
                flush=True,
            )
            write_page()
    write_page()


def write_page() -> None:
    """docs/panel.md from the records."""
    text = panel_page([asdict(record) for record in read_records(RECORDS)])
    write_whole(PAGE, lambda partial: partial.write_text(text, encoding="utf-8"))


if __name__ == "__main__":
    main()
