"""What any model must be compared with, by name: each fits training rows and predicts test rows."""

from mogul.lab.baselines.base import Baseline
from mogul.lab.baselines.constant import contains_state, predict_mean, predict_persistence
from mogul.lab.baselines.fourier import predict_fourier
from mogul.lab.baselines.linear import predict_least_squares, predict_student
from mogul.lab.baselines.neighbours import predict_neighbours
from mogul.lab.baselines.nets import NOISE_FLOOR as NET_FLOOR
from mogul.lab.baselines.nets import predict_nets, predict_noise_nets
from mogul.lab.baselines.sparse_gps import NOISE_FLOOR as GP_FLOOR
from mogul.lab.baselines.sparse_gps import predict_sparse_gps


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
