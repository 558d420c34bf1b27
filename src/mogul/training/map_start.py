"""Start of a model with hidden units at a maximum of its posterior density, found by L-BFGS.

With all variances zero, the log density of outputs and parameters needs no moments of hidden units, and with fixed
kernels no factorisation: 300 steps on 1,000 rows take half a second of one core. Adam on the ELBO, from a random start,
often ends below what is found from here.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import minimize
from torch import Tensor

from mogul._typing import Array
from mogul.data import Batch
from mogul.heads import BayesianMixing, Neural
from mogul.models.model import Model
from mogul.priors import IndependentGPs, ScaledRBF
from mogul.training.part_starts import ExactSignal, adapt, start_kernel, start_mixing

# Lengthscale in units of √D, longer than that of a random start: hidden units make outputs of smooth functions rough,
# and smooth functions have the larger ELBO. With 2.3 and 4 peaks between rows become lower.
_LENGTHSCALE = 1.8
# L-BFGS ends early on purpose: later steps fit noise, and the ELBO begins lower.
_NUM_TRIES, _NUM_STEPS = 4, 300
# Initial scale of q(b); weights of unused functions and the first scale of q(u).
_BIAS_LOG_SCALE, _SMALL = -5.0, 0.01


def has_map_start(model: Model) -> bool:
    """Whether the model has hidden units on RBF GPs, one mixing matrix and noise that does not depend on x."""
    head, prior = model.head, model.prior
    return (
        isinstance(prior, IndependentGPs)
        and isinstance(prior.kernel, ScaledRBF)
        and isinstance(head.features, Neural)
        and isinstance(head.mixing, BayesianMixing)
        and not head.noise.varies
    )


@torch.no_grad()
def start_at_map(model: Model, batch: Batch, num_used: int, generator: torch.Generator) -> None:
    """Set the model to the best maximum of several tries that use the first `num_used` latent functions.

    Fewer functions fit training rows less well, and may have the larger ELBO: restarts differ in their number.
    """
    _set_kernel(model, _LENGTHSCALE * math.sqrt(batch.x.shape[1]), num_used)
    search = _MapSearch(model, batch, num_used)
    tries = [search.climbed(search.random(generator)) for _ in range(_NUM_TRIES)]
    best, _ = max(tries, key=lambda found: found[1])
    search.apply(best, generator)


def _set_kernel(model: Model, lengthscale: float, num_used: int) -> None:
    """Curvatures of order one, σ/ℓ² = ½, for used functions; unit variances for the others."""
    prior = model.prior
    assert isinstance(prior, IndependentGPs)
    lengthscales = torch.full((prior.num_latents, prior.inducing_points.shape[-1]), lengthscale)
    variances = torch.ones(prior.num_latents)
    variances[:num_used] = lengthscale**4 / 4
    start_kernel(prior.kernel, lengthscales, variances)


class _MapSearch:
    """Parameters θ = (v, M̃, b, M, log β) of a model without variances, and the log density of outputs and θ."""

    def __init__(self, model: Model, batch: Batch, num_used: int) -> None:
        prior, features, mixing = model.prior, model.head.features, model.head.mixing
        assert isinstance(prior, IndependentGPs)
        assert isinstance(features, Neural)
        assert isinstance(mixing, BayesianMixing)
        self.model, self.num_used = model, num_used
        self.prior, self.features, self.mixing = prior, features, mixing
        self.x, self.observed = batch.x.double(), batch.observed.double()
        self.y = torch.where(batch.observed, model.mean.residual(batch.y, batch.x), 0.0).double()
        num_hidden, num_outputs = features.num_features, mixing.num_outputs
        self.shapes = [(num_used, prior.variational_mean.shape[1]), (num_hidden, num_used), (num_hidden,)]
        self.shapes += [(num_outputs, num_hidden), (num_outputs,)]
        rows = self.x.to(prior.variational_mean)
        self.cross = prior.whitened_cross(rows).double()[:num_used]  # A = K_zz^{-1/2} K_zx
        self.offset = prior.mean(rows).double().T[:num_used]

    def random(self, generator: torch.Generator) -> Float[Array, "T"]:
        """A random start, with outputs near zero."""
        scales = (0.1, self.num_used**-0.5, 1.0, 0.1, 0.0)
        drawn = [torch.randn(shape, generator=generator) for shape in self.shapes]
        return _joined([scale * part for scale, part in zip(scales, drawn, strict=True)])

    def climbed(self, theta: Float[Array, "T"]) -> tuple[Float[Array, "T"], float]:
        """Where L-BFGS ends, and the log density there."""
        loss = _with_gradient(self._loss)
        found = minimize(loss, theta, jac=True, method="L-BFGS-B", options={"maxiter": _NUM_STEPS, "maxcor": 20})
        return found.x, -float(found.fun)

    def apply(self, theta: Float[Array, "T"], generator: torch.Generator) -> None:
        """Set the model to θ, with variances of q(u) and q(M) in closed form given the rest."""
        v, weights, biases, matrix, log_precision = self._parts(torch.as_tensor(theta))
        prior, features = self.prior, self.features
        prior.variational_mean.zero_()
        prior.variational_mean[: self.num_used] = v.to(prior.variational_mean)
        prior.variational_root.mul_(_SMALL)
        features.hidden_weights.copy_(_SMALL * torch.randn(features.hidden_weights.shape, generator=generator))
        features.hidden_weights[:, : self.num_used] = weights.to(features.hidden_weights)
        features.bias_mean.copy_(biases)
        features.bias_log_scale.fill_(_BIAS_LOG_SCALE)
        self.model.head.noise.log_precision.copy_(log_precision)
        self.mixing.mean.copy_(matrix)
        signal = self._signal(log_precision)
        for _ in range(2):
            q = prior(self.x.to(prior.variational_mean), 1, generator)
            start_mixing(self.mixing, signal, features.moments(q), matrix)
            adapt(prior, self.model.head, signal)

    def _signal(self, log_precision: Float[Tensor, "P"]) -> ExactSignal:
        """Outputs and noise as `part_starts` takes them; its kernels are not used here."""
        ones, eye = torch.ones_like(log_precision), torch.eye(len(log_precision)).double()
        weight = self.observed * log_precision.exp()
        noise_var, lengthscale = (-log_precision).exp(), torch.ones_like(self.x[:1]).expand(len(ones), -1)
        return ExactSignal(self.x, self.y, weight, noise_var, lengthscale, ones, None, eye)

    def _parts(self, theta: Float[Tensor, "T"]) -> list[Tensor]:
        sizes = [math.prod(shape) for shape in self.shapes]
        return [part.reshape(shape) for part, shape in zip(torch.split(theta, sizes), self.shapes, strict=True)]

    def _functions(self, v: Float[Tensor, "K M"]) -> Float[Tensor, "K N"]:
        return self.offset + (v.unsqueeze(-2) @ self.cross).squeeze(-2)

    def _loss(self, theta: Float[Tensor, "T"]) -> Float[Tensor, ""]:
        """−log p(y, v, M̃, b, M | β), up to a constant: unit Normal priors, as in the ELBO."""
        v, weights, biases, matrix, log_precision = self._parts(theta)
        hidden = self.features.nonlinearity(self._functions(v).T @ weights.T + biases)
        misfit = self.observed * (self.y - hidden @ matrix.T).square()
        fit = misfit.sum(0) @ log_precision.exp() - self.observed.sum(0) @ log_precision
        prior = v.square().sum() + biases.square().sum() + matrix.square().sum()
        return 0.5 * (fit + prior + (weights / self.features.weight_scale).square().sum())


def _joined(parts: list[Tensor]) -> Float[Array, "T"]:
    joined: Array = torch.cat([part.double().flatten() for part in parts]).numpy()
    return joined


def _with_gradient(
    loss: Callable[[Float[Tensor, "T"]], Float[Tensor, ""]],
) -> Callable[[Float[Array, "T"]], tuple[float, Float[Array, "T"]]]:
    """Value and gradient for SciPy; a value that is not finite counts as very bad."""

    def evaluated(theta: Float[Array, "T"]) -> tuple[float, Float[Array, "T"]]:
        with torch.enable_grad():
            point = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
            value = loss(point)
            (gradient,) = torch.autograd.grad(value, point)
        if not (math.isfinite(value.item()) and bool(gradient.isfinite().all())):
            return 1e100, np.zeros_like(theta)
        return value.item(), gradient.numpy()

    return evaluated
