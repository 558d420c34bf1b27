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

Written by `python -m benchmarks.defaults` from `benchmarks/defaults.json`: `MultiOutputGPRegressor()` with no argument,
as `mogul fit` with no option, by five-fold cross-validation at random, beside least squares and the mean on the same
rows. LL is the log density of a held-out row in standardised units, over all outputs; higher is better. MRMSE is the
root mean squared error over the spread, mean over outputs. Rows that follow each other in time are easier to predict
from their neighbours than from other days: by trajectory see [performance](performance.md).

Up to 2,500 training rows the default is `mogp`, with a latent GP for each of up to 24 outputs. Each output has an
exact GP (an RBF or Matérn kernel, by the evidence, with a lengthscale for each input, and a plane with random
coefficients): hyperparameters by L-BFGS on the log evidence, from starts that span decades of lengthscales; variances
widened by what is not known of these; inducing points by Cholesky with pivots, q(u) in closed form. Residuals of rows
left out choose the noise: constant, Student-t, or either with a size that depends on the input by GPs; and whether it
is correlated across outputs, by a few factors whose number the Bayesian information criterion chooses. Beyond, it is
`n-sbgprn`, or with `groups` [a mixture](#new-groups), by Adam from a random start, with 200 inducing points and noise
that GPs describe (least standard deviation 1e-4 of an output's scale), Student-t where the residuals of 400 rows have
heavy tails. What is not known of the plane is part of every variance. A forest is put under the plane for outputs
that it helps to predict at rows left out: see [means](howto/means.md#what-the-default-does). [How to work with big
data](howto/big_data.md#what-the-default-does) has both side by side.

Of HalfCheetah's 110,000 rows 25,000 were drawn. Seconds are those of a fit by one thread on a machine with other work
to do. `python -m benchmarks small` holds the default of few rows against scikit-learn's exact GPs.

BaxterRand and rf1 were measured with the forest; rows without a † before it was part of the default.

Rows with a † were measured with earlier defaults (few rows: five random starts, Adam and GP noise; many rows: 400
inducing points, GP noise, 20 to 60 epochs), and their log likelihood by the paper's nested estimator, which is lower
than the density that `evaluate` gives now. Least squares and the mean have residuals that are correlated across outputs
by the same rule as the model's: up to 2,500 rows.

Beyond 2,500 rows the default takes 0.31 of the time of the one before it on Kuka, side by side, and 0.38 to 0.57 by
the clocks of this table, which had other work beside it. It pays for that on two of five data sets: BaxterRand had
10.00 / 0.158, the rhythmic arm 10.80 / 0.071. F-Baxter (50.93) and SARCOS' test rows (4.31) gained. rf1 had −31.45 for
the sake of one row, 177 standard deviations out, which Student-t tails allow for now; without that row it had 13.0 /
0.32, more than now. Of the rows without a †, those of EEG, rf1, SARCOS, BaxterRand and the rhythmic arm were measured
before the degrees of freedom of Student-t noise had a prior.
"""

# Test LL on up to 2,000 other rows; one or two random draws of the training rows, seeds 0 and 1. Not part of a run.
_WHY = """## Why this one

Before it was the default, on few rows drawn at random, LL on up to 2,000 others (two draws, where there are two):

| rows | least squares | n-sbgprn | n-sbgprn, GP noise | mogp | mogp, GP noise |
|---|---|---|---|---|---|
| Jura, 50 | −9.4, −9.8 | −204, −243 | −55.8, −55.6 | −10.5, −8.2 | −8.6, −9.4 |
| Jura, 200 | −8.9, −8.9 | −21.2, −15.2 | −10.1, −13.5 | −7.9, −7.7 | −8.3, −6.4 |
| rf1, 50 | below −10²⁸ | −4183, −8393 | −16.6, −8.4 | −21.9, −36.6 | −2.8, 0.1 |
| rf1, 200 | −229, −593 | −53, −430 | 1.4, −4.7 | −47, −97 | 2.9, 1.8 |
| rf1, 1,000 | −33.9 | | 9.9 | | 7.5 |
| EEG, 200 | −29.2, −35.0 | −28.5, −34.4 | −27.8, −31.5 | −28.8 | −27.3 |
| SARCOS test, 1,000 | −1.9 | | −20.2 | | 3.0 |

With few rows hidden units and a net that mixes are far too sure of themselves; noise that depends on the input mends
most of it, a simpler model the rest. `model="auto"` and `noise="auto"` let held-out rows choose, for a fit each.

Since then few rows start at exact GPs, and residuals choose the noise.

Noise that was learnt on a few motions may be too small on new ones, and intervals then too narrow. Hold out whole
motions (`groups=`) or calibrate where that matters.

## Steps

With more than 2,500 rows Adam has a rate of 0.02, and of 0.01 where rows come in groups. GP noise, 200 inducing
points, 20 epochs, one run each, LL / MRMSE of a sixth of the training rows, or of two trajectories, that were left out:

| left out of | model | 0.01 | 0.02 |
|---|---|---|---|
| Kuka, rows | `n-sbgprn` | 59.9 / 0.086 | 61.7 / 0.087 |
| Kuka, rows | `mogp` | 60.4 / 0.097 | 62.2 / 0.095 |
| F-Baxter, rows | `n-sbgprn` | 50.6 / 0.038 | 50.8 / 0.037 |
| BaxterRand, rows | `n-sbgprn` | 6.8 / 0.193 | 8.2 / 0.178 |
| SARCOS test, rows | `n-sbgprn` | 2.2 / 0.207 | 3.1 / 0.191 |
| Kuka, trajectories 5 and 6 | `mogp` | 55.3 / 0.110 | 51.0 / 0.106 |
| F-Baxter, trajectories 7 and 8 | `mogp` | 49.9 / 0.037 | 50.0 / 0.037 |

Twenty epochs here; the table of groups below had up to 25. Until lately rows were gone through at least 60 times, up to
3,000 steps, with 400 inducing points; now 40 times with 200, at rates that follow a cosine. On Kuka (15,068 rows, one
thread, side by side) that takes 93 s where the way before took 297. In groups it is 20 times, as ever. Before, at a
rate of 0.02; 400 inducing points, 200 where it says so:

| left out of | model | 30 epochs | 60 epochs | 60, `objective="balanced"` |
|---|---|---|---|---|
| Kuka, rows | `n-sbgprn` | 63.4 / 0.0845 | 64.4 / 0.0839 | 64.0 / 0.0831 |
| Kuka, rows | `sbgprn` | | | 64.0 / 0.0836 |
| F-Baxter, rows | `n-sbgprn`, 200 | 51.2 / 0.0356 | 51.5 / 0.0341 | 51.5 / 0.0324 |
| BaxterRand, rows | `n-sbgprn` | 9.2 / 0.1655 | 9.8 / 0.1580 | 9.8 / 0.1521 |

Now, 200 inducing points, another sixth of the rows left out, 46 epochs, one run each: Kuka 63.4 / 0.0847 with GP
noise, and 66.7 / 0.0901 with Student-t tails on top of it, which the residuals of 400 rows ask for. On the test rows of
the split of seed 0 the default has 66.1 / 0.0907, where the way before had 64.4 / 0.0854: densities are higher, errors
6 % larger; `noise="gp"` has the smaller errors. SARCOS test, GP noise, 3.52 / 0.176 in 64 epochs, before 3.69 / 0.165
in 84, for 0.40 of its time. There is a price, then: where errors count more than time, give `num_inducing=400`.
Natural gradients for all q(u) beside Adam, at the same rate, reached 63.2 / 0.086 on Kuka in 20 epochs, and in 42 were
thrown back to 61.3 / 0.088.

Balanced training weighs what the signal learns from a row by a power of its noise's variance. Kuka, 30 epochs: the
power 0 (the bound itself) has 63.4 / 0.0845, ¼ (which it is) 62.4 / 0.0837, ½ 61.0 / 0.0833; ½ or 1 at first and 0 in
the end 62.8 / 0.0844 and 61.8 / 0.0841. None of 14 latent GPs in place of 7 (62.4 / 0.0852), 800 inducing points
(62.2 / 0.0856) or an average of the weights over the last epochs (62.2 / 0.0838 where it is 62.4 / 0.0837) helps.

What is left of Kuka's errors at random is much the same for all models. Another sixth of the rows left out, 60
epochs, balanced: `n-sbgprn` 64.3 / 0.0836, with erf 64.6 / 0.0841, `sbgprn` 64.8 / 0.0833 (in up to 120 epochs 65.2 /
0.0831), `dk-sbgprn` 64.6 / 0.0841; the mixture of `sbgprn`, `dk-sbgprn` and `n-sbgprn` 65.2 / 0.0830. On the test
rows of two splits the power ½ gave this mixture 63.2 / 0.0841, where ¼ has 64.5 / 0.0842: it is not worth a name of
its own.

## New groups

With `groups`, a fifth of them say how long to train, and then all are trained on. Two of each robot's eight training
trajectories were left out to score on; GP noise, 200 inducing points, one run each, LL / MRMSE:

| scored on | `mogp` without the validation groups | then all, for as long | all, to the end | `n-sbgprn`, all |
|---|---|---|---|---|
| Kuka, 5 and 6 | 36.3 / 0.118 | 55.1 / 0.110 | 55.3 / 0.110 | 52.1 / 0.109 |
| Kuka, 7 and 8 | | | 42.8 / 0.245 | 39.7 / 0.253 |
| F-Baxter, 7 and 8 | 49.2 / 0.038 | 49.9 / 0.037 | 49.7 / 0.039 | 49.9 / 0.037 |
| F-Baxter, 3 and 4 | 21.2 / 0.161 | 46.6 / 0.057 | 44.0 / 0.072 | 45.5 / 0.062 |

A trajectory less to learn from costs more than stopping in time saves; to stop in time and to learn from all, the
default, has the good of both. Hidden units and a net that mixes are led astray by new motions where a linear mixing
is not. The last column had 12 epochs, the two before it up to 25; of Kuka's trajectories 7 and 8 both had 12.

Models go wrong on different motions, and a mixture of different ones less often. All rows, up to 25 epochs, 200
inducing points, GP noise, one run each, LL / MRMSE:

| scored on | `mogp` | `gprn` | `n-sbgprn` | `mogp+n-sbgprn` | `mogp+gprn+n-sbgprn` |
|---|---|---|---|---|---|
| Kuka, 1 and 2 | 52.4 / 0.126 | 40.9 / 0.129 | 26.8 / 0.137 | 54.4 / 0.126 | 55.4 / 0.125 |
| Kuka, 3 and 4 | 60.7 / 0.083 | 59.8 / 0.077 | 58.0 / 0.075 | 61.4 / 0.077 | 61.4 / 0.077 |
| Kuka, 5 and 6 | 56.0 / 0.110 | 55.0 / 0.108 | 52.3 / 0.110 | 56.8 / 0.109 | 57.3 / 0.108 |
| Kuka, 7 and 8 | 42.5 / 0.242 | 43.2 / 0.246 | 38.5 / 0.241 | 43.8 / 0.230 | 45.4 / 0.233 |
| F-Baxter, 1 and 2 | 50.1 / 0.038 | 50.2 / 0.038 | 50.3 / 0.036 | 50.4 / 0.036 | 50.5 / 0.036 |
| F-Baxter, 3 and 4 | 44.3 / 0.072 | 45.6 / 0.061 | 44.2 / 0.074 | 45.1 / 0.069 | 45.8 / 0.065 |
| F-Baxter, 5 and 6 | 50.8 / 0.034 | 50.9 / 0.034 | 51.0 / 0.033 | 51.0 / 0.033 | 51.1 / 0.033 |
| F-Baxter, 7 and 8 | 49.7 / 0.039 | 50.1 / 0.038 | 49.8 / 0.038 | 50.1 / 0.037 | 50.4 / 0.037 |

The mixture of three, with a higher LL than each of its members on all eight pairs, is the default with more than
2,500 rows in groups. Its errors are 4 % smaller than `mogp`'s on Kuka and 6 % on F-Baxter (in the mean of
logarithms). It takes as long as its members together, some five times as long as `mogp`. Beyond 20 outputs it is
`mogp+n-sbgprn`: a GPRN has a GP for each pair of an output and a latent GP, and a step of it takes three times as
long as one of `n-sbgprn` with 50 outputs, seven times with 100. On Kuka `sbgprn`, `dk-mogp` and `dgp` were tried as
further members: up to 0.9 nat more with all of them, and no smaller errors. Balanced training of all three had 53.8 /
0.125 in the mean over Kuka's pairs, where the bound has 54.9 / 0.124.

What would make errors on new trajectories smaller: Kuka, up to 25 epochs of all rows, 200 inducing points, one run
each, MRMSE of least squares and LL / MRMSE of the others:

| scored on | least squares | `mogp` | 14 latent GPs | 14, balanced | `n-sbgprn`, balanced |
|---|---|---|---|---|---|
| 1 and 2 | 0.192 | 52.4 / 0.126 | 53.6 / 0.112 | 53.3 / 0.111 | 9.6 / 0.133 |
| 3 and 4 | 0.167 | 60.7 / 0.083 | 60.5 / 0.082 | 60.0 / 0.077 | 53.8 / 0.075 |
| 5 and 6 | 0.155 | 56.0 / 0.110 | 52.3 / 0.107 | 55.2 / 0.107 | 51.6 / 0.108 |
| 7 and 8 | 0.314 | 42.5 / 0.242 | 41.0 / 0.243 | 42.6 / 0.245 | 37.2 / 0.259 |

A latent GP for each output and balanced training make errors smaller on three of four, at densities that are as high on
average, for twice the time: worth a try, and no default. A mixture of starts mends densities more than errors: three
starts of "14, balanced" have 56.2 / 0.112 on 1 and 2, four of `n-sbgprn`, balanced, 43.4 / 0.257 on 7 and 8.

There is a floor under these errors. Of Kuka's rows in motion (fastest joint above 0.1 rad/s) 39 % have a next velocity
that is 3/2 of the one before, 39 % one that is 2/3, and 17 % the same, in all joints alike: positions were recorded
every 10 ms, and renewed by a clock of their own, two or three times in between. Where speeds are known from neighbours,
models learn which of the two comes next more often; on motions with speeds of their own there is little to learn it
from.
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
    return "\n".join([_INTRODUCTION, *table, "", _WHY])


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
