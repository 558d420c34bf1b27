"""The baselines by name: each fits training rows and predicts test rows."""

from collections.abc import Callable
from dataclasses import dataclass

from mogul.data import Dataset
from mogul.lab.baselines.closed_form import (
    contains_state,
    predict_fourier,
    predict_least_squares,
    predict_mean,
    predict_neighbours,
    predict_persistence,
    predict_student,
)
from mogul.lab.baselines.trained import GP_FLOOR, NET_FLOOR, predict_nets, predict_noise_nets, predict_sparse_gps
from mogul.prediction import Prediction


def has_inputs(train: Dataset) -> bool:
    """Whether there is anything to predict from."""
    return train.num_inputs > 0


@dataclass(frozen=True)
class Baseline:
    """A method that every model is compared with.

    Attributes:
        label: its name in tables.
        fit_predict: the predictive distribution at the test rows, in original units, given training rows and a seed.
            NaN in the training outputs is missing. Test outputs are ignored, unless inputs are latent and must be
            inferred from them.
        applies: whether it makes sense for such data.
        noise_floor: the smallest standard deviation of its noise, in words.
        epochs: its time in epochs of a MOGP, for the progress bar.
    """

    label: str
    fit_predict: Callable[[Dataset, Dataset, int], Prediction]
    applies: Callable[[Dataset], bool] = has_inputs
    noise_floor: str = "none"
    epochs: float = 0.1


def _of_residual(floor: float) -> str:
    return f"sd {floor:.2g} of the plane's residual"


# Epochs: by the seconds that each takes on Kuka, where one of MOGP takes about three.
BASELINES: dict[str, Baseline] = {
    "mean": Baseline("mean", predict_mean, applies=lambda train: True),
    "persistence": Baseline("persistence", predict_persistence, applies=contains_state),
    "least-squares": Baseline("least squares", predict_least_squares),
    "least-squares-t": Baseline("least squares, Student-t", predict_student, epochs=2.0),
    "neighbours": Baseline("k nearest neighbours", predict_neighbours, epochs=0.3),
    "fourier": Baseline("random Fourier features + ridge", predict_fourier, epochs=3.0),
    "nets": Baseline(
        "MLP ensemble + linear, constant noise", predict_nets, noise_floor=_of_residual(NET_FLOOR), epochs=15.0
    ),
    "noise-nets": Baseline(
        "MLP ensemble + linear, noise by the nets", predict_noise_nets, noise_floor=_of_residual(NET_FLOOR), epochs=17.0
    ),
    "sparse-gps": Baseline(
        "independent sparse GPs + linear (GPyTorch)",
        predict_sparse_gps,
        noise_floor=_of_residual(GP_FLOOR),
        epochs=12.0,
    ),
}

__all__ = ["BASELINES", "Baseline"]
