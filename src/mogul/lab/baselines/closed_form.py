"""Baselines without gradient steps: mean, persistence, least squares, neighbours, random features, PCA."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar
from scipy.special import gammaincinv, gammaln
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from mogul._typing import Array, IntArray
from mogul.comparison.rivals import SMALLEST_VAR, LeastSquares, mean_square, normal_prediction
from mogul.data import Dataset, Scaling, Standardiser
from mogul.errors import DataError
from mogul.metrics import NUM_INNER
from mogul.models import LATENT_INPUTS
from mogul.prediction import Prediction

# How the name of an output says that it is an input at a later time, or its change: as the catalogue's columns do.
_NEXT, _AHEAD, _CHANGE = "next_", "_48H", "_change"


def predict_mean(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """The mean and variance of each output; inputs are ignored."""
    mean = np.nanmean(train.y, axis=0)
    return normal_prediction(np.tile(mean, (test.num_rows, 1)), mean_square(train.y - mean))


def predict_persistence(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """The next state is this state, and a change is zero; the noise is the mean square change in training."""
    return normal_prediction(_unchanged(test), mean_square(train.y - _unchanged(train)))


def contains_state(train: Dataset) -> bool:
    """Whether the inputs contain the current value of each output, by the names of columns.

    >>> import pandas as pd
    >>> contains_state(Dataset(pd.DataFrame({"q1": [0.0]}), pd.DataFrame({"next_q1": [0.1]})))
    True
    """
    return train.num_inputs > 0 and all(_state(name) in train.input_names for name in train.output_names)


def _unchanged(data: Dataset) -> Float[Array, "N P"]:
    if not contains_state(data):
        raise DataError(
            "Persistence needs inputs that hold the state, such as q1 for next_q1 or v for v_change; the outputs are "
            f"{', '.join(data.output_names)}. Use another baseline."
        )
    state = data.x[:, [data.input_names.index(_state(name)) for name in data.output_names]]
    return np.where([name.endswith(_CHANGE) for name in data.output_names], 0.0, state)


def _state(output: str) -> str:
    """The input whose future or change this output is, by its name; empty if the name does not tell."""
    if output.endswith(_CHANGE):
        return output.removesuffix(_CHANGE)
    if output.startswith(_NEXT):
        return output.removeprefix(_NEXT)
    return output.replace(_AHEAD, "") if _AHEAD in output else ""


# Not a multiple of 50: the paper's estimator would take the log of the mean over 50 components at a time.
NUM_COMPONENTS = 128
# Below 2 there is no variance, and near 1 no CRPS.
DEGREES = (2.1, 200.0)


@dataclass(frozen=True)
class StudentNoise:
    """y = mean + √(scale²/g) ∘ ε with g ~ Gamma(ν/2, ν/2) for the row, ε Normal: a multivariate Student-t.

    Each output is a Student-t with ν degrees of freedom, and a row that is off in one output may be off in others.

    Example:
        >>> from scipy.stats import t
        >>> found = StudentNoise(3.0, np.array([4.0])).around(np.zeros((1, 1))).log_density(np.array([[1.0]]))
        >>> bool(abs(found[0] - t.logpdf(1.0, 3.0, scale=2.0)) < 0.01)
        True
    """

    degrees: float
    scale_var: Float[Array, "P"]

    @staticmethod
    def fit(residual: Float[Array, "N P"]) -> "StudentNoise":
        """Maximum likelihood, alternating between scales and ν; NaN is missing."""
        scale_var, degrees = mean_square(residual), 5.0
        count = (~np.isnan(residual)).sum(1)
        for _ in range(100):
            distance = np.nansum(np.square(residual) / scale_var, axis=1)
            before, degrees = degrees, _likeliest_degrees(distance, count)
            weight = (degrees + count) / (degrees + distance)
            scale_var = np.maximum(np.nanmean(weight[:, None] * np.square(residual), axis=0), SMALLEST_VAR)
            if abs(degrees - before) < 1e-4 * before:
                break
        return StudentNoise(degrees, scale_var)

    def around(self, mean: Float[Array, "N P"], num_components: int = NUM_COMPONENTS) -> Prediction:
        """This noise around these means, with g at midpoints of bins of equal probability: tails are slightly light."""
        levels = (np.arange(num_components) + 0.5) / num_components
        shares = gammaincinv(self.degrees / 2, levels) * 2 / self.degrees
        each = self.scale_var / shares[:, None]
        shape = (num_components, *mean.shape)
        return Prediction(
            mean,
            np.broadcast_to(self.scale_var * self.degrees / (self.degrees - 2), mean.shape),
            np.broadcast_to(mean, shape),
            np.broadcast_to(each[:, None], shape),
        )


def _likeliest_degrees(distance: Float[Array, "N"], count: Int[IntArray, "N"]) -> float:
    """ν of the highest likelihood, given Σ r²/s² and the number of observed outputs of each row."""

    def loss(log_degrees: float) -> float:
        degrees = float(np.exp(log_degrees))
        half = 0.5 * (degrees + count)
        each = gammaln(half) - gammaln(0.5 * degrees) - 0.5 * count * np.log(degrees)
        return -float((each - half * np.log1p(distance / degrees)).sum())

    low, high = np.log(DEGREES)
    return float(np.exp(minimize_scalar(loss, bounds=(low, high), method="bounded").x))


def predict_least_squares(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """The least-squares plane with Normal residuals."""
    return LeastSquares.fit(train).predict(test.x)


def predict_student(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """The same plane with Student-t residuals, whose scale the outputs of a row share."""
    plane = LeastSquares.fit(train)
    noise = StudentNoise.fit(train.y - plane.predict(train.x).mean)
    return noise.around(plane.predict(test.x).mean)


NUMBERS = (1, 2, 3, 5, 8, 12, 20, 32)
# Rows left out one at a time to choose k and the noise, at most.
MAX_LEFT_OUT = 5000


def predict_neighbours(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """The mean of the k nearest rows in standardised inputs; k and the noise by leave-one-out, one k per output."""
    units = Standardiser.of(train.x)
    x = units.apply(train.x)
    most = min(NUMBERS[-1], max(1, train.num_rows - 1))
    search = NearestNeighbors(n_neighbors=most).fit(x)
    left_out = np.random.default_rng(seed).permutation(train.num_rows)[:MAX_LEFT_OUT]
    # With equal inputs the first neighbour need not be the row itself, but one row must be dropped.
    near = search.kneighbors(x[left_out], n_neighbors=min(most + 1, train.num_rows), return_distance=False)
    others = np.stack([_without(row, places) for row, places in zip(left_out.tolist(), near, strict=True)])
    numbers = [number for number in NUMBERS if number <= max(1, others.shape[1])]
    residuals = np.stack([train.y[left_out] - _means(train.y, others, number) for number in numbers])
    variances = np.stack([mean_square(residual) for residual in residuals])
    best, outputs = variances.argmin(0), np.arange(train.num_outputs)
    near = search.kneighbors(units.apply(test.x), return_distance=False)
    means = np.stack([_means(train.y, near, number) for number in numbers])
    return normal_prediction(means[best, :, outputs].T, variances[best, outputs])


def _without(row: int, places: Int[IntArray, "K"]) -> Int[IntArray, "J"]:
    """All neighbours except the row itself, or except the last if the row is not among them."""
    kept: Int[IntArray, J] = places[places != row][: len(places) - 1]
    return kept


def _means(y: Float[Array, "N P"], near: Int[IntArray, "B K"], number: int) -> Float[Array, "B P"]:
    """The mean of each output over the nearest rows where it is observed; its overall mean if there is none."""
    values = y[near[:, :number]]
    observed = ~np.isnan(values)
    count = observed.sum(1)
    total = np.where(observed, values, 0.0).sum(1)
    means: Float[Array, "B P"] = np.where(count > 0, total / np.maximum(count, 1), np.nanmean(y, axis=0))
    return means


Features = Callable[[Float[Array, "B D"]], Float[Array, "B F"]]
# Penalties per row to choose from, in units of the features' variance.
PENALTIES: Float[Array, "K"] = np.logspace(-10, 2, 25)
_ROWS_AT_ONCE = 5000


@dataclass(frozen=True)
class Ridge:
    """Weights and a constant per output, and the mean squared leave-one-out error.

    Example:
        >>> x = np.arange(8.0)[:, None]
        >>> line = Ridge.fit(lambda x: x, x, 2 * x + 1)
        >>> line.predict(lambda x: x, np.array([[10.0]])).round(3)
        array([[21.]])
    """

    weights: Float[Array, "F P"]
    bias: Float[Array, "P"]
    left_out: Float[Array, "P"]

    @staticmethod
    def fit(features: Features, x: Float[Array, "N D"], y: Float[Array, "N P"]) -> "Ridge":
        """Fit each output to its observed rows (NaN is missing), with its own penalty."""
        num_features = features(x[:1]).shape[1]
        weights, bias = np.zeros((num_features, y.shape[1])), np.nanmean(y, axis=0)
        left_out = np.maximum(np.nanvar(y, axis=0), SMALLEST_VAR)
        observed = ~np.isnan(y)
        # Outputs that are observed in the same rows share one decomposition.
        patterns, group = np.unique(observed, axis=1, return_inverse=True)
        for number, rows in enumerate(patterns.T):
            if rows.sum() >= 3:
                columns = np.flatnonzero(group == number)
                part = _fit_whole(features, x[rows], y[np.ix_(rows, columns)])
                weights[:, columns], bias[columns], left_out[columns] = part.weights, part.bias, part.left_out
        return Ridge(weights, bias, left_out)

    def predict(self, features: Features, x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        """Features times weights plus the constant."""
        return np.concatenate([features(part) @ self.weights + self.bias for part in _parts(x)])


def _fit_whole(features: Features, x: Float[Array, "N D"], y: Float[Array, "N P"]) -> Ridge:
    """All rows observed. With Φ centred and ΦᵀΦ = V Λ Vᵀ, the hat matrix of penalty α is 1/N + ΦV (Λ + α)⁻¹ (ΦV)ᵀ."""
    num_rows = len(x)
    centre, level = sum(features(part).sum(0) for part in _parts(x)) / num_rows, y.mean(0)
    gram, cross = 0.0, 0.0
    for some, target in zip(_parts(x), _parts(y), strict=True):
        centred = features(some) - centre
        gram, cross = gram + centred.T @ centred, cross + centred.T @ (target - level)
    sizes, directions = np.linalg.eigh(gram)
    shrunk = 1 / (np.maximum(sizes, 0.0)[:, None] + num_rows * PENALTIES)  # (F, K)
    coefficients = (directions.T @ cross)[:, :, None] * shrunk[:, None]  # (F, P, K)
    squares = np.zeros(coefficients.shape[1:])
    for some, target in zip(_parts(x), _parts(y), strict=True):
        rotated = (features(some) - centre) @ directions
        residual = (target - level)[:, :, None] - np.tensordot(rotated, coefficients, axes=1)
        leverage = np.square(rotated) @ shrunk + 1 / num_rows
        squares += np.square(residual / np.maximum(1 - leverage, SMALLEST_VAR)[:, None]).sum(0)
    best = squares.argmin(-1)
    outputs = np.arange(y.shape[1])
    weights = directions @ coefficients[:, outputs, best]
    left_out = np.maximum(squares[outputs, best] / num_rows, SMALLEST_VAR)
    return Ridge(weights, level - centre @ weights, left_out)


def _parts(rows: Float[Array, "N K"]) -> Iterator[Float[Array, "B K"]]:
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        yield rows[first : first + _ROWS_AT_ONCE]


NUM_WAVES = 800
# In units of √D: the distance of two standardised rows is about √(2D).
LENGTHSCALES = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class FourierFeatures:
    """The inputs themselves, and √(2/F) cos(xΩ + φ) with Normal frequencies Ω and uniform phases φ."""

    units: Standardiser
    frequencies: Float[Array, "D F"]
    phases: Float[Array, "F"]

    @staticmethod
    def draw(x: Float[Array, "N D"], lengthscale: float, seed: int, num_waves: int = NUM_WAVES) -> "FourierFeatures":
        """Frequencies of the RBF kernel of this lengthscale, in units of √D, on standardised inputs."""
        rng = np.random.default_rng(seed)
        num_inputs = x.shape[1]
        frequencies = rng.standard_normal((num_inputs, num_waves)) / (lengthscale * np.sqrt(num_inputs))
        return FourierFeatures(Standardiser.of(x), frequencies, rng.uniform(0, 2 * np.pi, num_waves))

    def __call__(self, x: Float[Array, "N D"]) -> Float[Array, "N E"]:
        """The features of these rows."""
        inputs = self.units.apply(x)
        waves = np.sqrt(2 / len(self.phases)) * np.cos(inputs @ self.frequencies + self.phases)
        return np.concatenate([inputs, waves], axis=1)


def predict_fourier(train: Dataset, test: Dataset, seed: int) -> Prediction:
    """The lengthscale and penalties with the least leave-one-out error, which is also the noise."""
    candidates = [FourierFeatures.draw(train.x, lengthscale, seed) for lengthscale in LENGTHSCALES]
    fits = [Ridge.fit(features, train.x, train.y) for features in candidates]
    best = min(range(len(fits)), key=lambda number: float(np.log(fits[number].left_out).sum()))
    return normal_prediction(fits[best].predict(candidates[best], test.x), fits[best].left_out)


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
        """In closed form; by expectation maximisation if values are missing (NaN)."""
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
        """All outputs of each row given its observed ones: a mixture over draws of z, as models have it."""
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
    """Principal components of standardised outputs, one for each latent input of the models.

    Models with latent inputs are scored in the same way: z is inferred from the test row that is scored.
    """
    units = Scaling.of(train).outputs
    num_components = min(LATENT_INPUTS, train.num_outputs - 1, train.num_rows)
    found = PrincipalComponents.fit(units.apply(train.y), num_components)
    return found.reconstruct(units.apply(test.y), seed).rescaled(units)
