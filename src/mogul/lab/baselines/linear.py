"""Least squares: the line that every model must beat, with Normal and with heavy-tailed residuals."""

from mogul.comparison.least_squares import LeastSquares
from mogul.data import Dataset
from mogul.lab.baselines.student import StudentT
from mogul.prediction import Prediction


def predict_least_squares(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """The least-squares plane with Normal residuals."""
    return LeastSquares.fit(train).predict(test.x)


def predict_student(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """The same plane with Student-t residuals, whose scale the outputs of a row share."""
    plane = LeastSquares.fit(train)
    noise = StudentT.fit(train.y - plane.predict(train.x).mean)
    return noise.around(plane.predict(test.x).mean)
