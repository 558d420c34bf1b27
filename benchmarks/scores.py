"""Test scores during training, by one estimator for both sides: the paper's, with fewer outer averages."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.peer import PeerLMC, peer_latent_moments
from mogul.metrics import NUM_INNER, mrmse, nested_log_density
from mogul.models.model import Model
from mogul.prediction import Prediction, predict

# The mean over outer groups is unbiased whatever their number; test rows average out the rest.
NUM_GROUPS = 2


@dataclass(frozen=True)
class TestScore:
    """LL per datapoint and MRMSE, in standardised units."""

    ll: float
    mrmse: float


def score_ours(model: Model, x: Float[Tensor, "N D"], y: Float[Tensor, "N P"], seed: int = 0) -> TestScore:
    """Scores of a model in training, which stays in training."""
    was_training = model.training
    model.eval()
    prediction = predict(model, x, NUM_GROUPS * NUM_INNER, torch.Generator().manual_seed(seed))
    model.train(was_training)
    return _score(prediction, y)


@torch.no_grad()
def score_peer(peer: PeerLMC, x: Float[Tensor, "N D"], y: Float[Tensor, "N P"], seed: int = 0) -> TestScore:
    """Scores of the peer in training, which stays in training: given a draw of its GPs, its outputs are independent."""
    mean, var = peer_latent_moments(peer, x)
    noise = torch.randn(NUM_GROUPS * NUM_INNER, *mean.shape, generator=torch.Generator().manual_seed(seed))
    mixing = peer.variational_strategy.lmc_coefficients
    components = (mean + var.sqrt() * noise.to(mean)) @ mixing
    component_var = peer.noise_var.expand_as(components)
    signal_var = var @ mixing.square()
    parts = mean @ mixing, signal_var + peer.noise_var, components, component_var
    prediction = Prediction(*(part.double().numpy() for part in parts))
    peer.train()
    return _score(prediction, y)


def _score(prediction: Prediction, y: Float[Tensor, "N P"]) -> TestScore:
    truth = y.double().numpy()
    ll = nested_log_density(prediction, truth, num_outer=NUM_GROUPS).mean()
    return TestScore(ll=float(ll), mrmse=mrmse(prediction.mean, truth))
