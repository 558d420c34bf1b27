"""Latent inputs: classes of oil flow kept apart, and missing values of new rows filled in. Needs the data sets.

Nearest-neighbour errors count rows whose nearest other row on the map is of another class. Imputation hides a third of
the values of new rows; errors are in units of an output's standard deviation. Rivals have the best of their settings in
hindsight: the number of principal components, and of neighbours with and without weights.
"""

import os
import time
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from sklearn.impute import KNNImputer
from sklearn.neighbors import NearestNeighbors

from benchmarks.small import one_thread
from mogul import MultiOutputGPLVM
from mogul._typing import Array, BoolArray, IntArray
from mogul.lab.datasets.catalogue import entry, load

SHARED = Path(__file__).parents[2] / "shared" / "data"
SEEDS = range(3)
# Latent inputs for imputation, and rows to fit and to fill in.
OIL_INPUTS, KUKA_INPUTS, NUM_ROWS, NUM_NEW = 2, 14, 1000, 300


def run() -> dict[str, float]:
    """The group's figures; none where the data are not."""
    folder = Path(os.environ["MOGUL_DATA"]) if "MOGUL_DATA" in os.environ else SHARED
    oil = folder / "oil-flow"
    if not (oil.is_dir() and entry("kuka").is_present(folder)):
        print(f"Skipped: {folder} lacks oil-flow or kuka. Set MOGUL_DATA to the folder that holds the data sets.")
        return {}
    y, classes = np.loadtxt(oil / "DataTrn.txt"), np.loadtxt(oil / "DataTrnLbls.txt").argmax(1)
    data = load("kuka", folder).data
    kuka = np.concatenate([data.x, data.y], axis=1)
    order = np.random.default_rng(0).permutation(len(kuka))
    with one_thread():
        return {
            **maps(y, classes),
            **imputation("oil", y, np.loadtxt(oil / "DataTst.txt")[:NUM_NEW], OIL_INPUTS),
            **imputation("kuka", kuka[order[:NUM_ROWS]], kuka[order[NUM_ROWS:][:NUM_NEW]], KUKA_INPUTS),
        }


def maps(y: Float[Array, "N P"], classes: IntArray) -> dict[str, float]:
    """Errors of MOGP-LVM, the default, in two dimensions, and in the two most relevant of ten; seconds of a fit."""
    errors: dict[int, list[int]] = {2: [], 10: []}
    seconds = []
    for num_inputs, found in errors.items():
        for seed in SEEDS:
            started = time.process_time()
            gplvm = MultiOutputGPLVM(num_inputs, random_state=seed).fit(y)
            seconds.append(time.process_time() - started)
            strongest = np.argsort(gplvm.relevance_)[::-1][:2]
            found.append(class_errors(gplvm.fitted_.latent_means[:, strongest], classes))
            print(f"oil flow, {num_inputs} inputs, seed {seed}: {found[-1]} errors, {seconds[-1]:.0f} s", flush=True)
    return {
        "latents_oil_errors": float(np.mean(errors[2])),
        "latents_oil_errors_of_ten": float(np.mean(errors[10])),
        "latents_oil_seconds": max(seconds),
    }


def class_errors(positions: Float[Array, "N D"], classes: IntArray) -> int:
    """Rows whose nearest other row is of another class."""
    nearest = NearestNeighbors(n_neighbors=1).fit(positions).kneighbors(n_neighbors=1, return_distance=False)
    return int((classes[nearest[:, 0]] != classes).sum())


def imputation(name: str, known: Float[Array, "N P"], new: Float[Array, "T P"], num_inputs: int) -> dict[str, float]:
    """RMSE of ours and of the rivals, and the share of hidden values inside our 90 % bands."""
    shift, scale = known.mean(0), known.std(0)
    known, new = (known - shift) / scale, (new - shift) / scale
    hidden = np.random.default_rng(0).random(new.shape) < 1 / 3
    hidden[hidden.all(1), 0] = False
    holes = np.where(hidden, np.nan, new)
    gplvm = MultiOutputGPLVM(num_inputs).fit(known)
    prediction = gplvm.fitted_.reconstruct(holes)
    low, high = prediction.quantiles([0.05, 0.95])
    linear = [principal_imputation(known, holes, rank) for rank in range(1, known.shape[1])]
    neighbours = [
        KNNImputer(n_neighbors=number, weights=weights).fit(known).transform(holes)
        for number in (1, 2, 5, 10, 20)
        for weights in ("uniform", "distance")
    ]
    return {
        f"latents_{name}_rmse": _rmse(prediction.mean, new, hidden),
        f"latents_{name}_ppca_rmse": min(_rmse(each, new, hidden) for each in linear),
        f"latents_{name}_knn_rmse": min(_rmse(each, new, hidden) for each in neighbours),
        f"latents_{name}_coverage": float(((new > low) & (new < high))[hidden].mean()),
    }


def principal_imputation(known: Float[Array, "N P"], holes: Float[Array, "T P"], rank: int) -> Float[Array, "T P"]:
    """Conditional means of probabilistic principal components (Tipping and Bishop 1999)."""
    sizes, directions = np.linalg.eigh(np.cov(known.T))
    noise = sizes[:-rank].mean()
    leading = directions[:, -rank:]
    cov = (leading * (sizes[-rank:] - noise)) @ leading.T + noise * np.eye(len(sizes))
    filled = holes.copy()
    for row in filled:
        lost = np.isnan(row)
        if lost.any():
            gain = np.linalg.solve(cov[np.ix_(~lost, ~lost)], cov[np.ix_(~lost, lost)])
            row[lost] = known.mean(0)[lost] + (row[~lost] - known.mean(0)[~lost]) @ gain
    return filled


def _rmse(filled: Float[Array, "T P"], new: Float[Array, "T P"], hidden: Bool[BoolArray, "T P"]) -> float:
    return float(np.sqrt(np.square(filled - new)[hidden].mean()))
