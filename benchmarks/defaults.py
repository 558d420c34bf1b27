"""What someone gets who names nothing: the default regressor by cross-validation, beside least squares and the mean.

`python -m benchmarks.defaults jura kuka` adds these data sets to defaults.json, or goes on where it stopped, and writes
docs/defaults.md; all that can be reached by default.
"""

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.robots import SHARED
from mogul.comparison.crossval import LEAST_SQUARES, MEAN, TIE, compare, folds
from mogul.data import Dataset
from mogul.lab.datasets.catalogue import CATALOGUE, entry, load
from mogul.training import FitRequest
from mogul.training.defaults import default_model

RESULTS = Path(__file__).parent / "defaults.json"
PAGE = Path(__file__).parents[1] / "docs" / "defaults.md"
NUM_FOLDS = 5
MAX_ROWS = 25_000  # of the longest, so many at random
DEFAULT = "default"

_INTRODUCTION = """# The default

What you get from `mogul.fit(X, Y)`, `MultiOutputGPRegressor()` and `mogul fit` when you name no model, and how well it
does on measured data.

**Up to 2,500 rows** it is `mogp` with exact GPs: one latent GP for each of up to 24 outputs, with a linear mean. The
kernel (RBF or Matérn), a lengthscale for each input and the noise are chosen by the evidence, from starts that span
decades of lengthscales, and what is not known of them widens every band. Residuals of rows left out choose the noise:
constant, Student-t where there are outliers, with a size that depends on the input where it does, and correlated across
outputs where residuals are.

**Beyond**, and up to 60,000 values (rows × outputs), `mogp` is tried first: hyperparameters from exact GPs of 600 rows,
posterior given all rows. Rows held out decide between it and `n-sbgprn`, which is tried where the GPs leave more than
noise. [The laboratory notes](laboratory.md#thousands-of-rows) have what that gains.

`n-sbgprn` is trained by minibatches from a random start, with 200 inducing points and noise that depends
on the input; with `groups` it is [a mixture](laboratory.md#new-groups). [Work with big
data](howto/big_data.md#what-the-default-does) has both side by side.

**A forest** is put under the linear mean for outputs that it helps to predict at rows left out: see
[means](howto/means.md#what-the-default-does).

In the table, each data set is predicted by five-fold cross-validation at random, beside least squares and the mean on
the same rows. LL is the log density of a held-out row in standardised units, over all outputs; higher is better. MRMSE
is the root mean squared error over the spread, mean over outputs; lower is better: see [Read the
scores](howto/scores.md). "95 % hold" is the share of true values inside 95 % bands. Seconds are those of a fit by one
thread on a machine with other work to do. Rows that follow each other in time are easier to predict from their
neighbours than from other days: for new trajectories see [performance](performance.md).

Written by `python -m benchmarks.defaults` from `benchmarks/defaults.json`. Least squares and the mean have residuals
that are correlated across outputs by the same rule as the model's: up to 2,500 rows. Of HalfCheetah's 110,000 rows
25,000 were drawn. Rows with a † were measured with earlier defaults.
"""

_END = """How these choices were made, and what was tried beside them, is in the [laboratory notes](laboratory.md).
`python -m benchmarks small` holds the default of few rows against scikit-learn's exact GPs; [the panel](panel.md) holds
it against other packages.
"""


def main() -> None:
    """Run what is missing, fold by fold; the page is written after each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description=__doc__)
    parser.add_argument("datasets", nargs="*", metavar="dataset", help="names of `mogul data list`")
    folder = Path(os.environ.get("MOGUL_DATA", SHARED))
    names = parser.parse_args().datasets or [name for name in CATALOGUE if entry(name).is_present(folder)]
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in names:
        data = _rows(load(name, folder).data)
        if data.num_inputs == 0:
            continue  # nothing to regress on
        if results.get(name, {}).get("earlier"):
            del results[name]  # measured with another default: begun anew
        found = results.setdefault(name, {"rows": data.num_rows, "folds": {}})
        for number, split in enumerate(folds(data.num_rows, NUM_FOLDS, seed=0)):
            if str(number) in found["folds"]:
                continue
            model = default_model(len(split[0]), data.num_outputs)
            board = compare(data, [model], [split], FitRequest())
            lines = {DEFAULT: board[model], LEAST_SQUARES: board[LEAST_SQUARES], MEAN: board[MEAN]}
            found["model"] = model
            found["folds"][str(number)] = {
                label: {"ll": line.ll, "mrmse": line.mrmse, "coverage": line.coverage[0.95], "seconds": line.seconds}
                for label, line in lines.items()
            }
            print(name, number, {label: round(line.ll, 2) for label, line in lines.items()}, flush=True)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            PAGE.write_text(defaults_page(results), encoding="utf-8")


def _rows(data: Dataset) -> Dataset:
    if data.num_rows <= MAX_ROWS:
        return data
    return data.rows(np.sort(np.random.default_rng(0).permutation(data.num_rows)[:MAX_ROWS]))


def defaults_page(results: Mapping[str, Any]) -> str:
    """The page, in Markdown."""
    head = "| data | rows | folds | model | LL | least squares | mean | | MRMSE | least squares | 95 % hold | seconds |"
    table = [head, "|" + "---|" * 12]
    table += [_line(name, found) for name, found in results.items() if found["folds"]]
    return "\n".join([_INTRODUCTION, *table, "", _END])


def _line(name: str, found: Mapping[str, Any]) -> str:
    def mean(label: str, score: str) -> float:
        return fmean(fold[label][score] for fold in found["folds"].values())

    ours, line, constant = (mean(label, "ll") for label in (DEFAULT, LEAST_SQUARES, MEAN))
    verdict = "ahead" if ours > max(line, constant) else "a tie" if ours > max(line, constant) - TIE else "**behind**"
    label = f"{name} †" if found.get("earlier") else name
    cells = [label, f"{found['rows']:,}", str(len(found["folds"])), found["model"], _ll(ours), _ll(line), _ll(constant)]
    cells += [verdict, f"{mean(DEFAULT, 'mrmse'):.3f}", f"{mean(LEAST_SQUARES, 'mrmse'):.3f}"]
    cells += [f"{mean(DEFAULT, 'coverage'):.0%}", f"{mean(DEFAULT, 'seconds'):.0f}"]
    return f"| {' | '.join(cells)} |"


def _ll(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


if __name__ == "__main__":
    main()
