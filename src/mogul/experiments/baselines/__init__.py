"""What any model must be compared with, by name: each fits training rows and predicts test rows."""

from mogul.experiments.baselines.base import Baseline, normal_prediction
from mogul.experiments.baselines.constant import contains_state, predict_mean, predict_persistence
from mogul.experiments.baselines.fourier import predict_fourier
from mogul.experiments.baselines.linear import LeastSquares, predict_least_squares, predict_student
from mogul.experiments.baselines.neighbours import predict_neighbours
from mogul.experiments.baselines.nets import predict_nets, predict_noise_nets
from mogul.experiments.baselines.sparse_gps import predict_sparse_gps

BASELINES: dict[str, Baseline] = {
    "mean": Baseline("mean", predict_mean, applies=lambda train: True),
    "persistence": Baseline("persistence", predict_persistence, applies=contains_state),
    "least-squares": Baseline("least squares", predict_least_squares),
    "least-squares-t": Baseline("least squares, Student-t", predict_student),
    "neighbours": Baseline("k nearest neighbours", predict_neighbours),
    "fourier": Baseline("random Fourier features + ridge", predict_fourier),
    "nets": Baseline("MLP ensemble + linear, constant noise", predict_nets),
    "noise-nets": Baseline("MLP ensemble + linear, noise by the nets", predict_noise_nets),
    "sparse-gps": Baseline("independent sparse GPs + linear (GPyTorch)", predict_sparse_gps),
}

__all__ = ["BASELINES", "Baseline", "LeastSquares", "normal_prediction"]
