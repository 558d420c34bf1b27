"""Exact GPs that are robust to outliers: leave-one-out residuals show heavy tails, and noise that depends on x."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize
from scipy.special import gammaln

from mogul._typing import Array
from mogul.training.evidence import MOST_INPUTS, ExactGP
from mogul.training.exact import REFINED_ROWS, fit_exact_gp, leave_one_out

# Least gain in log likelihood of Student's t over the Normal, for one more parameter: by chance it is 0 to 1.
_HEAVY_GAIN = 4.0
# Significance threshold, in standard deviations of the statistic over permutations of the residuals.
_DEPENDENT = 5.0
_NUM_ORDERS, _MOST_ROWS = 50, 1000
_LEAST_DOF, _MOST_DOF = 3.0, 200.0  # with fewer, the variance is far larger than typical squared residuals
REWEIGHTED = 3  # times that outliers have less weight, and the GP is fitted anew


@dataclass(frozen=True)
class StudentT:
    """Student's t fitted to residuals, and its gain in log likelihood over the Normal, in nats."""

    dof: float
    scale: float
    gain: float

    @property
    def is_heavy(self) -> bool:
        """Whether the tails are heavy: the gain is more than chance."""
        return self.gain > _HEAVY_GAIN

    def weight(self, residual: Float[Array, "N"]) -> Float[Array, "N"]:
        """E λ = (ν + 1)/(ν + (r/s)²): the weight of each row, for Normal noise of variance s²/λ."""
        return (self.dof + 1) / (self.dof + np.square(residual / self.scale))


def fit_student_t(residual: Float[Array, "N"]) -> StudentT:
    """Degrees of freedom and scale by maximum likelihood.

    >>> fit_student_t(np.random.default_rng(0).standard_normal(300)).is_heavy
    False
    >>> fit_student_t(np.random.default_rng(0).standard_t(3, 300)).is_heavy
    True
    """
    spread = float(np.median(np.abs(residual))) / 0.6745 or float(residual.std()) or 1.0

    def loss(theta: Float[Array, "2"]) -> float:
        return -_log_t(residual, math.exp(theta[0]), math.exp(theta[1]))

    bounds = [(math.log(_LEAST_DOF), math.log(_MOST_DOF)), (math.log(1e-6 * spread), math.log(1e6 * spread))]
    found = minimize(loss, [math.log(5.0), math.log(spread)], method="L-BFGS-B", bounds=bounds)
    dof, scale = np.exp(found.x).tolist()
    var = max(float(np.mean(residual**2)), np.finfo(np.float64).tiny)
    normal = -0.5 * len(residual) * (math.log(2 * math.pi * var) + 1)
    return StudentT(dof, scale, -float(found.fun) - normal)


def depends_on_input(residual: Float[Array, "N"], x: Float[Array, "N D"], rng: np.random.Generator) -> bool:
    """Whether the size of standardised residuals varies smoothly with x, more than their permutations do.

    The statistic is uᵀ K u for u = log(r² + ¼), centred, and K a smooth kernel of all inputs plus one of each: the
    score test of a GP in the log variance, with permutations of u as null distribution.

    >>> rng = np.random.default_rng(0)
    >>> x, r = rng.uniform(-1.7, 1.7, (200, 2)), rng.standard_normal(200)
    >>> depends_on_input(r, x, rng), depends_on_input(r * np.exp(x[:, 0]), x, rng)
    (False, True)
    """
    some = rng.permutation(len(residual))[:_MOST_ROWS]
    x = x[some]
    size = np.log(np.square(residual[some]) + 0.25)
    size -= size.mean()
    orders = np.stack([size, *(rng.permutation(size) for _ in range(_NUM_ORDERS))], axis=1)
    statistic = np.zeros(orders.shape[1])
    for columns, lengthscale in [(x, math.sqrt(x.shape[1])), *((column[:, None], 0.7) for column in x.T)]:
        squares = np.square(columns).sum(1)
        kernel = np.exp(np.minimum(columns @ columns.T - 0.5 * squares - 0.5 * squares[:, None], 0) / lengthscale**2)
        statistic += (orders * (kernel @ orders)).sum(0)
    null = statistic[1:]
    return bool(statistic[0] > null.mean() + _DEPENDENT * null.std())


@dataclass(frozen=True)
class RobustGP:
    """An exact GP with row weights.

    Args:
        gp: the GP; its noise variance is for a row of weight 1.
        relative_noise: one over the weight of each row.
        dof: degrees of freedom of Student-t noise; None if Normal noise is as good.
        varies: whether the size of residuals depends on the input.
    """

    gp: ExactGP
    relative_noise: Float[Array, "N"]
    dof: float | None
    varies: bool


def fit_robust_gp(
    x: Float[Array, "N D"],
    y: Float[Array, "N"],
    rng: np.random.Generator,
    known: Float[Array, "N"] | float = 1.0,
    *,
    plane: bool,
    rough: bool = False,
    reweighted: int = REWEIGHTED,
    kernel: str = "rbf",
    near: ExactGP | None = None,
) -> RobustGP:
    """An exact GP; with heavy-tailed residuals one with Student-t noise, by iterated reweighting.

    `known` is the known relative noise variance of each row; `kernel` and `near` are those of `fit_exact_gp`.

    >>> rng = np.random.default_rng(0)
    >>> x = np.linspace(-1.7, 1.7, 100)[:, None]
    >>> y = np.sin(3 * x[:, 0]) + 0.1 * rng.standard_normal(100)
    >>> y[50] = 100.0
    >>> robust = fit_robust_gp(x, y, rng, plane=False)
    >>> bool(robust.relative_noise[50] > 1000 * np.median(robust.relative_noise)), bool(robust.gp.noise_var < 0.02)
    (True, True)
    """
    relative = np.ones(len(y))
    gp = fit_exact_gp(x, y, rng, known * relative, plane=plane, rough=rough, kernel=kernel, near=near)
    residual = _residuals(gp, x, y, known * relative, rng)
    tails = fit_student_t(residual)
    heavy = tails.is_heavy
    for repeat in range(reweighted if heavy else 0):
        relative = 1 / tails.weight(residual)
        # Without the first outliers another signal may show, but with many inputs a search takes long; after that,
        # weights change little.
        last = None if near is None and not (repeat or rough) and x.shape[1] <= MOST_INPUTS else gp
        gp = fit_exact_gp(x, y, rng, known * relative, plane=plane, kernel=kernel, near=last)
        residual = _residuals(gp, x, y, known * relative, rng)
        tails = fit_student_t(residual)
    return RobustGP(gp, relative, tails.dof if heavy else None, depends_on_input(residual / tails.scale, x, rng))


def fit_normal_gp(
    x: Float[Array, "N D"],
    y: Float[Array, "N"],
    rng: np.random.Generator,
    known: Float[Array, "N"] | float = 1.0,
    *,
    plane: bool,
    kernel: str = "rbf",
    near: ExactGP | None = None,
) -> RobustGP:
    """An exact GP with Normal noise of one variance: outliers have the same weight as other rows.

    >>> rng = np.random.default_rng(0)
    >>> x, y = np.linspace(-1.7, 1.7, 100)[:, None], rng.standard_t(3, 100)
    >>> bool(np.isclose(fit_normal_gp(x, y / y.std(), rng, plane=False).gp.noise_var, 1, rtol=0.1))
    True
    """
    ones = np.ones(len(y))
    gp = fit_exact_gp(x, y, rng, known * ones, plane=plane, kernel=kernel, near=near)
    return RobustGP(gp, ones, None, varies=False)


def _residuals(
    gp: ExactGP, x: Float[Array, "N D"], y: Float[Array, "N"], relative: Float[Array, "N"], rng: np.random.Generator
) -> Float[Array, "N"]:
    """Leave-one-out residuals over their standard deviations for weight 1; in parts for many rows."""
    result = np.empty(len(y))
    least = np.finfo(np.float64).tiny
    for part in np.array_split(rng.permutation(len(y)), math.ceil(len(y) / REFINED_ROWS)):
        gap, var = leave_one_out(gp, x[part], y[part], relative[part])
        result[part] = gap / np.sqrt(np.maximum(var + gp.noise_var * (1 - relative[part]), least))
    return result


def _log_t(residual: Float[Array, "N"], dof: float, scale: float) -> float:
    constant = gammaln(0.5 * (dof + 1)) - gammaln(0.5 * dof) - 0.5 * math.log(math.pi * dof) - math.log(scale)
    tails = np.log1p(np.square(residual / scale) / dof).sum()
    return float(len(residual) * constant - 0.5 * (dof + 1) * tails)
