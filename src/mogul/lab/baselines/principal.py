"""Probabilistic principal components: what a model with latent inputs must beat, for it is the linear one of them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from sklearn.decomposition import PCA

from mogul._typing import Array
from mogul.comparison.least_squares import SMALLEST_VAR
from mogul.data import Dataset, Scaling
from mogul.metrics import NUM_INNER
from mogul.models import LATENT_INPUTS
from mogul.prediction import Prediction

_NUM_STEPS, _TOLERANCE = 500, 1e-7


@dataclass(frozen=True)
class PrincipalComponents:
    """y = W z + level + ε with z ~ N(0, I) and ε ~ N(0, var I), by maximum likelihood.

    Example:
        >>> z = np.random.default_rng(0).standard_normal((50, 1))
        >>> found = PrincipalComponents.fit(z @ [[2.0, -1.0, 3.0]], 1)
        >>> bool(np.allclose(found.reconstruct(np.array([[2.0, np.nan, 3.0]])).mean, [[2.0, -1.0, 3.0]], atol=1e-3))
        True
    """

    loadings: Float[Array, "P Q"]
    level: Float[Array, "P"]
    var: float

    @staticmethod
    def fit(y: Float[Array, "N P"], num_components: int) -> "PrincipalComponents":
        """In closed form where every value is known; where some are missing (NaN), by expectation maximisation."""
        observed = ~np.isnan(y)
        found = PCA(num_components).fit(np.where(observed, y, np.nanmean(y, axis=0)))
        var = max(float(found.noise_variance_), SMALLEST_VAR)
        scale = np.sqrt(np.maximum(found.explained_variance_ - var, 0.0))
        start = PrincipalComponents(found.components_.T * scale, found.mean_, var)
        return start if observed.all() else start.improved(y)

    def improved(self, y: Float[Array, "N P"]) -> "PrincipalComponents":
        """Steps of expectation maximisation, until they hardly change the noise."""
        found = self
        for _ in range(_NUM_STEPS):
            before, found = found, found._step(y)
            if abs(found.var - before.var) <= _TOLERANCE * before.var:
                break
        return found

    def posterior(self, y: Float[Array, "N P"]) -> tuple[Float[Array, "N Q"], Float[Array, "N Q Q"]]:
        """p(z | y) of each row, from what is observed of it: (WᵀW + var I)⁻¹ Wᵀ(y − level), var (WᵀW + var I)⁻¹."""
        size, observed = self.loadings.shape[1], ~np.isnan(y)
        products = np.einsum("pq,pr->pqr", self.loadings, self.loadings).reshape(-1, size**2)
        inner = (observed @ products).reshape(-1, size, size) + self.var * np.eye(size)
        gap = np.where(observed, y - self.level, 0.0)
        mean: Array = np.linalg.solve(inner, (gap @ self.loadings)[..., None])[..., 0]
        return mean, self.var * np.linalg.inv(inner)

    def reconstruct(self, y: Float[Array, "N P"], seed: int = 0, num_draws: int = NUM_INNER) -> Prediction:
        """All outputs of each row, given z from those that it has: a mixture over draws of z, as models have it."""
        mean, cov = self.posterior(y)
        noise = np.random.default_rng(seed).standard_normal((num_draws, *mean.shape))
        draws = mean + np.einsum("nqr,snr->snq", np.linalg.cholesky(cov), noise)
        component_mean = draws @ self.loadings.T + self.level
        var = self.var + np.einsum("pq,nqr,pr->np", self.loadings, cov, self.loadings, optimize=True)
        component_var = np.broadcast_to(self.var, component_mean.shape)
        return Prediction(mean @ self.loadings.T + self.level, var, component_mean, component_var)

    def _step(self, y: Float[Array, "N P"]) -> "PrincipalComponents":
        """Loadings and level of each output by regression on the moments of (z, 1), over the rows that have it.

        Mean and covariance of z are learnt, too, and then taken up by level and loadings: little noise would make
        steps without that tiny.
        """
        observed = ~np.isnan(y)
        known = np.where(observed, y, 0.0)
        mean, cov = self.posterior(y)
        size = mean.shape[1] + 1
        first = np.concatenate([mean, np.ones((len(y), 1))], axis=1)
        second = first[:, :, None] * first[:, None]
        second[:, :-1, :-1] += cov
        grams = (observed.T @ second.reshape(len(y), -1)).reshape(-1, size, size)
        targets = known.T @ first
        weights = np.linalg.solve(grams, targets[..., None])[..., 0]
        misfit = np.square(known).sum() - (weights * targets).sum()
        loadings, centre = weights[:, :-1], mean.mean(0)
        spread = cov.mean(0) + (mean - centre).T @ (mean - centre) / len(y)
        return PrincipalComponents(
            loadings @ np.linalg.cholesky(spread),
            weights[:, -1] + loadings @ centre,
            max(float(misfit / observed.sum()), SMALLEST_VAR),
        )


def predict_principal(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """As many components as models have latent inputs, on standardised outputs; each test row is given its own values.

    That is how models with latent inputs are scored, too: z is found from the row that is then scored.
    """
    units = Scaling.of(train).outputs
    num_components = min(LATENT_INPUTS, train.num_outputs - 1, train.num_rows)
    found = PrincipalComponents.fit(units.apply(train.y), num_components)
    return found.reconstruct(units.apply(test.y), seed).rescaled(units)
