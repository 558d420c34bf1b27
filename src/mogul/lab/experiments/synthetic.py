"""The paper's synthetic experiment, section 5.1: MOGP against N-MOGP on g_k(x) = cos(4‖x‖)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mogul._typing import Array
from mogul.comparison.least_squares import LeastSquares, normal_prediction
from mogul.data import Dataset
from mogul.data.splits import GroupedData
from mogul.errors import unknown_name
from mogul.lab.baselines import Baseline
from mogul.lab.datasets.synthetic import RadialCosine
from mogul.lab.experiments.experiment import Experiment, Source
from mogul.lab.experiments.lines import Line
from mogul.lab.experiments.protocol import ProtocolName
from mogul.metrics import Scores, score
from mogul.prediction import Prediction
from mogul.training import Fitted, TrainingConfig, fit

DATASET = "radial-cosine"
NUM_TRAIN, NUM_TEST = 1000, 5000
SIZES: dict[str, Any] = {"num_latents": 3, "num_inducing": 200}
MODELS = {"mogp": SIZES, "n-mogp": SIZES | {"num_hidden": 8, "nonlinearity": "sherf"}}


@dataclass(frozen=True)
class Row:
    """One line of the table: where it comes from and its scores on the test set of a seed."""

    seed: int
    model: str
    ll: float
    mrmse: float
    crps: float
    coverage: float
    seconds: float | None = None


@dataclass(frozen=True)
class Slice:
    """Truth and prediction of one output along a random ray from the origin."""

    radius: Float[Array, "N"]
    truth: Float[Array, "N"]
    mean: Float[Array, "N"]
    low: Float[Array, "N"]
    high: Float[Array, "N"]


def config(seed: int) -> TrainingConfig:
    """The paper's protocol at a scale for two cores: five starts, a stepwise rate, analytic expectations."""
    return TrainingConfig(epochs=150, num_starts=5, start_epochs=25, batch_size=250, seed=seed)


def draw(seed: int) -> GroupedData:
    """Rows of their own for each seed, as many for training as in the paper."""
    num_rows = NUM_TRAIN + NUM_TEST
    data = RadialCosine().draw(num_rows, np.random.default_rng(seed))
    return GroupedData(DATASET, data, np.ones(num_rows, dtype=np.int64), NUM_TEST)


def predict_oracle(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """The true function and the true noise."""
    simulator = RadialCosine()
    return normal_prediction(simulator.truth(test.x), np.full(simulator.num_outputs, simulator.noise_scale**2))


def run(seed: int) -> Iterator[tuple[Row, Slice | None]]:
    """Oracle, least squares, MOGP and N-MOGP on one data set, as each is done, the models with their slices."""
    simulator = RadialCosine()
    train, test = draw(seed).split(seed)
    rng = np.random.default_rng([seed, 1])
    direction, output = simulator.direction(1, rng), int(rng.integers(simulator.num_outputs))
    yield _row(seed, "oracle", score([(predict_oracle(train, test, seed), test.y)], nested=True)), None
    yield _row(seed, "least squares", LeastSquares.fit(train).evaluate(test)), None
    for name, options in MODELS.items():
        fitted = fit(train, model=name, config=config(seed), mean="paper", noise="constant", **options)
        yield _row(seed, name, fitted.evaluate(test, nested=True), fitted), _slice(simulator, fitted, direction, output)


def _row(seed: int, model: str, scores: Scores, fitted: Fitted | None = None) -> Row:
    seconds = None if fitted is None else float(sum(record.seconds for record in fitted.history.records))
    assert scores.ll_nested is not None
    return Row(seed, model, scores.ll_nested, scores.mrmse, scores.crps, scores.coverage[0.8], seconds)


def _slice(simulator: RadialCosine, fitted: Fitted, direction: Float[Array, "1 D"], output: int) -> Slice:
    """Beyond radius 1 there are no data: the prediction extrapolates."""
    radius = np.linspace(0.0, 1.5, 151)
    x = radius[:, None] * direction
    prediction: Prediction = fitted.predict(x, num_samples=1000).outputs(slice(output, output + 1))
    low, high = prediction.quantiles([0.1, 0.9])[..., 0]
    return Slice(radius, simulator.truth(x)[:, output], prediction.mean[:, 0], low, high)


def _load(dataset: str, folder: Path | None, preset: ProtocolName) -> Source:
    if dataset != DATASET:
        raise unknown_name("dataset of the synthetic experiment", dataset, [DATASET])
    return draw


def _fast(line: Line, num_train: int, epochs: int | None, seed: int) -> TrainingConfig:
    return config(seed) if epochs is None else config(seed).within(epochs)


SYNTHETIC = Experiment(
    name="synthetic",
    section="5.1",
    title="g(x) = cos(4‖x‖), ℝ⁵ → ℝ⁸",
    groups={"all": [Line(name, name.upper(), name, options) for name, options in MODELS.items()]},
    dataset=DATASET,
    num_splits=1,
    units="original",
    baselines={"oracle": Baseline("oracle (true function and noise)", predict_oracle)},
    load=_load,
    fast=_fast,
)
