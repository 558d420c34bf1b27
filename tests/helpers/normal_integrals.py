"""Expectations under Normals by a very fine fixed rule: the oracle of the tests beside it.

Composite Gauss–Legendre on [−10, 10] standard deviations. Panels end at every kink, and are graded geometrically
around it, down to the width over which the integrand turns.
"""

from collections.abc import Callable

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]

_LIMIT = 10.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_GRID = np.linspace(-_LIMIT, _LIMIT, 11)


def expect(function: Function, mean: float, var: float) -> float:
    """E f(a) for a ~ N(mean, var) and an f that may have a kink, or a turn of width one, at zero."""
    scale = np.sqrt(var)
    z, weight = _rule(_edges(-mean / scale, 1 / scale))
    return float(np.sum(weight * function(mean + scale * z)))


def expect_product(first: Function, second: Function, mean: tuple, var: tuple, rho: float) -> float:
    """E f(a₁)g(a₂) for a bivariate Normal, by nested rules; one rule where |ρ| = 1."""
    scale = np.sqrt(var[0]), np.sqrt(var[1])
    rest = np.sqrt((1 - rho) * (1 + rho))
    sharp = [_edges(-mean[0] / scale[0], 1 / scale[0])]
    if rho:
        sharp.append(_edges(-mean[1] / (scale[1] * rho), max(rest, 1 / scale[1]) / abs(rho)))
        sharp.append(_edges(-mean[1] / (scale[1] * rho), rest / abs(rho)))
    z, weight = _rule(np.sort(np.concatenate(sharp)))
    center = mean[1] + scale[1] * rho * z
    if rest == 0:
        inner = second(center)
    else:
        spread = scale[1] * rest
        inner_z, inner_weight = _rule(_edges(-center / spread, 1 / spread))
        inner = np.sum(inner_weight * second(center[:, None] + spread * inner_z), axis=-1)
    return float(np.sum(weight * first(mean[0] + scale[0] * z) * inner))


def variance(function: Function, mean: float, var: float) -> float:
    """Var f(a), about f(mean) so that small variances do not cancel."""
    centered = _about(function, mean)
    return expect(lambda a: centered(a) ** 2, mean, var) - expect(centered, mean, var) ** 2


def covariance(function: Function, mean: tuple, var: tuple, rho: float) -> float:
    """Cov[f(a₁), f(a₂)], about f(mean) so that small covariances do not cancel."""
    first, second = _about(function, mean[0]), _about(function, mean[1])
    product = expect_product(first, second, mean, var, rho)
    return product - expect(first, mean[0], var[0]) * expect(second, mean[1], var[1])


def _about(function: Function, mean: float) -> Function:
    level = function(np.asarray(mean))
    return lambda a: function(a) - level


def _edges(center: np.ndarray | float, width: float) -> np.ndarray:
    """Panel ends, sorted along the last axis: a coarse grid, `center`, and ever larger steps away from it."""
    center = np.asarray(center)[..., None]
    smallest = min(max(width, 1e-8), 2.0) / 4
    steps = smallest * 2.0 ** np.arange(np.ceil(np.log2(2 * _LIMIT / smallest)))
    coarse = np.broadcast_to(_GRID, (*center.shape[:-1], len(_GRID)))
    return np.sort(np.clip(np.concatenate([coarse, center - steps, center, center + steps], -1), -_LIMIT, _LIMIT), -1)


def _rule(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for the integral against the standard Normal density."""
    low, high = edges[..., :-1, None], edges[..., 1:, None]
    z = 0.5 * (low + high) + 0.5 * (high - low) * _NODES
    weight = 0.5 * (high - low) * _WEIGHTS * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    shape = (*edges.shape[:-1], -1)
    return z.reshape(shape), weight.reshape(shape)
