"""The paper's regression experiment, section 5.3: models side by side on robot data, in standardised units."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mogul.data import Dataset, Scaling
from mogul.data.robots import RobotData
from mogul.experiments.baselines import LeastSquares
from mogul.metrics import Scores, score
from mogul.models import Name
from mogul.objective import Analytic
from mogul.training import NoiseUpdate, TrainingConfig, fit

# The paper's tables 2, 4, 5 and 6: LL and MRMSE per data set.
PAPER: dict[str, dict[str, tuple[float, float]]] = {
    "kuka": {
        "MOGP": (15.64, 0.174),
        "GPRN": (17.57, 0.091),
        "DGP": (25.08, 0.089),
        "SBGPRN": (29.65, 0.087),
        "N-MOGP": (25.32, 0.095),
        "N-SBGPRN": (31.19, 0.087),
        "N-DGP": (25.41, 0.088),
        "DK-N-SBGPRN": (31.58, 0.086),
        "DGP (L′ = L)": (15.60, 0.190),
        "N-DGP (L′ = L)": (23.69, 0.103),
    },
    "f-baxter": {
        "MOGP": (13.16, 0.285),
        "GPRN": (23.74, 0.042),
        "DGP": (23.81, 0.083),
        "SBGPRN": (33.73, 0.040),
        "N-MOGP": (25.50, 0.068),
        "N-SBGPRN": (35.23, 0.039),
        "N-DGP": (27.36, 0.057),
        "DK-N-SBGPRN": (36.01, 0.038),
        "DGP (L′ = L)": (12.89, 0.284),
        "N-DGP (L′ = L)": (21.77, 0.081),
    },
}


@dataclass(frozen=True)
class Entry:
    """A line of the table: a model, with options where it departs from the named one."""

    label: str
    model: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """What one entry reached on the test rows."""

    label: str
    ll: float
    mrmse: float
    crps: float
    seconds: float | None = None


def entries(models: Sequence[str], num_outputs: int) -> list[Entry]:
    """Each named model; deep ones also with as many GPs in the second layer as in the first."""
    lines = [Entry(model.upper(), model) for model in models]
    same = {"num_top_latents": (num_outputs + 1) // 2}
    lines += [Entry(f"{model.upper()} (L′ = L)", model, same) for model in models if Name.parse(model).recipe.deep]
    return lines


def config(model: str, epochs: int, seed: int) -> TrainingConfig:
    """Closed-form expectations and noise, stepwise rates, annealing for deep models.

    Those also have small batches and one draw of the inner layer: with the paper's 1,000 rows and five draws, 30 epochs
    of Kuka are 450 steps, too few for hidden units on top of two layers to learn.
    """
    recipe = Name.parse(model).recipe
    return TrainingConfig(
        epochs=epochs,
        batch_size=250 if recipe.deep else recipe.batch_size,
        learning_rate=0.02,
        milestones=(0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        decay=0.65,
        anneal_epochs=min(recipe.anneal_epochs, epochs // 5),
        num_starts=1,
        expectation=Analytic(),
        updates=(NoiseUpdate(),),
        precision="float32",
        seed=seed,
    )


def run(
    robot: RobotData, models: Sequence[str], epochs: int, seed: int, done: Mapping[str, Row] | None = None
) -> Iterator[Row]:
    """Least squares, then each model as it is done, on the paper's random split; what is `done` is not redone."""
    train, test = robot.split(seed)
    yield _row("least squares", _least_squares(train, test))
    for entry in entries(models, train.num_outputs):
        if done and entry.label in done:
            yield done[entry.label]
            continue
        fitted = fit(train, entry.model, config(entry.model, epochs, seed), mean="paper", **entry.options)
        seconds = sum(record.seconds for record in fitted.history.records)
        yield _row(entry.label, fitted.evaluate(test, standardised=True), seconds)


def _least_squares(train: Dataset, test: Dataset) -> Scores:
    units = Scaling.of(train).outputs
    prediction = LeastSquares.fit(train).predict(test.x)
    return score([(prediction.standardised(units), units.apply(test.y))])


def _row(label: str, scores: Scores, seconds: float | None = None) -> Row:
    return Row(label, scores.ll, scores.mrmse, scores.crps, seconds)
