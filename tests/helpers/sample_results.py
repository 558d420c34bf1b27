"""Results as experiments leave them: jobs of every experiment, with numbers of a realistic size."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from mogul.lab.experiments.record import Record
from mogul.lab.report.frame import Results

JOINTS = [f"next_{kind}{joint}" for kind in ("q", "qd") for joint in range(1, 8)]
CHEETAH = [f"{part}_velocity_change" for part in ("root_x", "root_z", "root_angle", "back_thigh", "back_shin")]
ROWS = {"dataset": "kuka", "digest": "0", "seed": None, "test_groups": [], "num_train": 15068, "num_test": 5000}
LEVELS = [round(0.05 * place, 2) for place in range(1, 20)]

NUM_TESTED, NUM_MAPPED = 150, 500  # rows that are kept: of the test rows, and of the training rows of a latent map

# label, kind, model, LL, MRMSE, seconds
KUKA: list[tuple[str, str, str, float, float, float]] = [
    ("MOGP", "model", "mogp", 14.9, 0.176, 41),
    ("GPRN", "model", "gprn", 19.3, 0.093, 96),
    ("DGP", "model", "dgp", 24.4, 0.091, 130),
    ("SBGPRN", "model", "sbgprn", 29.9, 0.088, 44),
    ("N-MOGP", "model", "n-mogp", 25.8, 0.096, 52),
    ("N-SBGPRN", "model", "n-sbgprn", 31.6, 0.087, 49),
    ("MOGP + linear", "model", "mogp", 43.8, 0.096, 40),
    ("N-MOGP + linear", "model", "n-mogp", 44.7, 0.093, 53),
    ("N-SBGPRN + linear", "model", "n-sbgprn", 45.6, 0.087, 50),
    ("mean", "baseline", "mean", -19.8, 0.998, 0.1),
    ("persistence", "baseline", "persistence", 33.1, 0.186, 0.1),
    ("least squares", "baseline", "least-squares", 34.4, 0.174, 0.2),
    ("random Fourier features + ridge", "baseline", "fourier", 39.9, 0.086, 11),
    ("MLP ensemble, constant noise", "baseline", "nets", 44.2, 0.086, 22),
]


def record(
    label: str, kind: str, model: str, ll: float, mrmse: float, seconds: float, rng: np.random.Generator, **changes: Any
) -> dict[str, Any]:
    """One job on Kuka; changes replace its parts."""
    names = changes.pop("names", JOINTS)
    num_outputs = len(names)
    content = {
        "format": 1,
        "experiment": "regression",
        "dataset": "kuka",
        "split": {**ROWS, "kind": "random", "seed": 0},
        "split_label": "random 0",
        "label": label,
        "kind": kind,
        "model": model,
        "settings": {},
        "preset": "fast",
        "seed": 0,
        "metrics": {
            "ll": ll + rng.normal(0, 0.25),
            "mrmse": mrmse * (1 + rng.normal(0, 0.01)),
            "crps": 0.45 * mrmse,
            **{f"coverage_{level}": level / 100 + rng.normal(0.01, 0.01) for level in (50, 80, 95)},
        },
        "per_output": {
            "names": names,
            "rmse": (mrmse * rng.lognormal(0, 0.5, num_outputs)).tolist(),
            "ll": (ll / num_outputs + rng.normal(0, 0.4, num_outputs)).tolist(),
        },
        "calibration": _calibration(rng),
        "predictions": _predictions(mrmse, num_outputs, rng),
        "curve": _curve(ll, seconds, rng) if kind == "model" else [],
        "latent": None,
        "command": f"mogul reproduce regression --datasets kuka --models {model} --splits 1 --seeds 1 --preset fast",
        "config": {"units": "standardised", "noise_floor": "none"},
        "versions": {"mogul": "0.1.0", "torch": "2.13.0"},
        "commit": "0123456789abcdef0123",
        "seconds": float(seconds),
        "error": None,
    }
    return content | changes


def results_of(jobs: Iterable[dict[str, Any]]) -> Results:
    """What was read from the files of these jobs."""
    return Results.of(Record.from_json(job) for job in jobs)


def sample_results(num_rows: int = 150) -> Results:
    """Every experiment, three splits of Kuka, a stand-in, and a job that failed; predictions of so many rows."""
    rng = np.random.default_rng(0)
    jobs = [*_kuka(rng), *_cheetah(rng), *_unsupervised(rng), *_sweeps(rng)]
    failed = record("DK-N-SBGPRN", "model", "dk-n-sbgprn", 0, 0.1, 3.0, rng, metrics={})
    jobs.append(failed | {"error": "NumericalError: the loss is NaN at epoch 3. Lower the learning rate."})
    for job in jobs:
        job["predictions"] = {word: rows[:num_rows] for word, rows in job["predictions"].items()}
    return results_of(jobs)


def _kuka(rng: np.random.Generator) -> list[dict[str, Any]]:
    random = [
        record(*line, rng, split_label=f"random {seed}", seed=seed, split={**ROWS, "kind": "random", "seed": seed})
        for line in KUKA
        for seed in range(3)
    ]
    groups = {"split": {**ROWS, "kind": "groups", "test_groups": [9, 10]}, "split_label": "by trajectory"}
    return random + [
        record(label, kind, model, 0.91 * ll, 1.3 * mrmse, seconds, rng, **groups)
        for label, kind, model, ll, mrmse, seconds in KUKA
    ]


def _cheetah(rng: np.random.Generator) -> list[dict[str, Any]]:
    lines = [
        ("MOGP", "model", "mogp", -3.2, 0.39, 120.0),
        ("N-MOGP", "model", "n-mogp", -1.7, 0.35, 140.0),
        ("N-MOGP + linear", "model", "n-mogp", -1.5, 0.34, 141.0),
        ("least squares", "baseline", "least-squares", -7.9, 0.66, 0.3),
    ]
    split = {**ROWS, "kind": "random", "seed": 0, "num_train": 6000, "num_test": 600}
    return [record(*line, rng, dataset="halfcheetah", names=CHEETAH, split=split) for line in lines]


def _unsupervised(rng: np.random.Generator) -> list[dict[str, Any]]:
    lines = [("MOGP-LVM", "mogp-lvm", 2.1, 0.61), ("N-SBGPRN-LVM", "n-sbgprn-lvm", 11.4, 0.42)]
    found = []
    for label, model, ll, mrmse in lines:
        job = record(label, "model", model, ll, mrmse, 60, rng, experiment="unsupervised")
        angle = np.random.default_rng(1).uniform(0, 2 * np.pi, NUM_MAPPED)  # of the same rows in every model
        mean = np.stack([np.cos(angle), np.sin(angle), 0.1 * angle, rng.normal(0, 0.1, NUM_MAPPED)], axis=1)
        outputs = np.tile(angle[:, None], (1, len(JOINTS)))
        job["latent"] = {
            "mean": mean.tolist(),
            "scale": np.full_like(mean, 0.05).tolist(),
            "outputs": outputs.tolist(),
        }
        found.append(job)
    return found


def _sweeps(rng: np.random.Generator) -> list[dict[str, Any]]:
    hidden: dict[str, Any] = {"experiment": "hidden-units"}
    jobs = [
        record("MOGP", "model", "mogp", 15.0, 0.17, 40, rng, **hidden),
        record("MOGP + linear", "model", "mogp", 43.8, 0.096, 40, rng, **hidden),
        record("DGP", "model", "dgp", 24.5, 0.09, 130, rng, **hidden),
        record("mean", "baseline", "mean", -19.8, 0.998, 0.1, rng, **hidden),
        record("least squares", "baseline", "least-squares", 34.4, 0.174, 0.2, rng, **hidden),
    ]
    for units in (4, 8, 12, 16, 20):
        gain = 1 - np.exp(-units / 6)
        for label, ll in (("N-MOGP", 30.0), ("N-SBGPRN", 32.0), ("N-DGP", 29.0)):
            settings = {"settings": {"num_hidden": units}, **hidden}
            jobs.append(record(label, "model", label.lower(), ll * gain, 0.17 - 0.09 * gain, 50, rng, **settings))
    for label, level in (("MOGP", 1.4), ("N-MOGP", 3.1)):
        for rows in (250, 500, 1000, 2000):
            small = record(label, "model", label.lower(), level * np.log(rows / 100), 0.4, 9, rng)
            small |= {"experiment": "small-data", "dataset": "rhythmic-arm", "settings": {"num_train": rows}}
            small["metrics"] |= {"train_ll": small["metrics"]["ll"] + 0.6, "train_mrmse": 0.3}
            jobs.append(small)
        for missing in (0, 3, 7, 10):
            swept = {"experiment": "missing-outputs", "settings": {"num_missing": missing}}
            jobs.append(record(label, "model", label.lower(), 9 * level - missing / 2, 0.1, 40, rng, **swept))
    return jobs


def _calibration(rng: np.random.Generator) -> dict[str, Any]:
    pit = rng.beta(0.9, 0.95, 20_000)
    covered = [float(np.mean(np.abs(pit - 0.5) <= level / 2)) for level in LEVELS]
    return {"pit_counts": np.histogram(pit, 20, (0, 1))[0].tolist(), "levels": LEVELS, "covered": covered}


def _predictions(mrmse: float, num_outputs: int, rng: np.random.Generator) -> dict[str, Any]:
    truth = rng.normal(size=(NUM_TESTED, num_outputs))
    std = mrmse * rng.lognormal(0, 0.3, truth.shape)
    return {
        "true": truth.tolist(),
        "mean": (truth + 1.05 * std * rng.normal(size=truth.shape)).tolist(),
        "std": std.tolist(),
    }


def _curve(ll: float, seconds: float, rng: np.random.Generator) -> list[dict[str, float]]:
    elbo = 15_000 * (ll - 60 * np.exp(-np.arange(30) / 4) + rng.normal(0, 0.1, 30))
    return [
        {"epoch": epoch, "elbo": float(value), "seconds": seconds * (epoch + 1) / 30}
        for epoch, value in enumerate(elbo)
    ]
