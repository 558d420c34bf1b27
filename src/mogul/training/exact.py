"""Exact GPs, one for each output: hyperparameters by L-BFGS on the log evidence, from a wide grid of starts.

With few rows this is all the training a GP needs; with many, a subset of rows gives the start of training.
Inputs and outputs are standardised: lengthscales, variances and their priors are in these units.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.optimize import minimize
from scipy.special import expit
from threadpoolctl import threadpool_limits

from mogul._typing import Array, IntArray
from mogul.errors import NumericalError

# Rows used to rank starts, to climb, and to refine.
RANKED_ROWS, CLIMBED_ROWS, REFINED_ROWS = 150, 400, 1000
_ROUGH_ROWS = 200  # rows used by a rough fit
# Grid of starts: lengthscales, in units of √D, and noise variances.
_LENGTHSCALES, _NOISES = (0.05, 0.12, 0.3, 0.7, 1.6, 4.0), (1e-4, 1e-2, 0.3)
# Two more starts explain all variance by noise: the evidence is smooth there, and inputs become relevant one by one.
_SMOOTH_LENGTHSCALES, _SMOOTH_NOISE = (1.0, 3.0), 1.0
_NUM_RANKED, _SHORT, _LONG, _REFINING = 2, 20, 60, 15
# One more start selects inputs forward, on fewer rows: it finds functions of a few inputs among many.
# After the first, only the inputs that alone did best are tried.
_FORWARD_ROWS, _FORWARD_LENGTHSCALES, _FORWARD_NOISES = 100, (0.2, 0.6, 2.0), (1e-4, 1e-2, 0.2)
_MOST_SELECTED, _MOST_TRIED = 8, 16
# Log lengthscales at which each input is tried again at the end, and the least gain for another climb.
_SCANNED, _SCAN_GAIN, _RESCANS = (math.log(0.4), math.log(1.2), math.log(3.0)), 0.5, 3
# With more inputs than this, only those are scanned, and have an uncertainty of their own, that matter most.
_MOST_INPUTS = 24
_BIAS_VAR = 1.0
# A linear mean from the beginning would hide inputs with a nonlinear effect, so it is added to the optimum without it;
# another optimum must have a log evidence larger by this amount.
_PLANE_GAIN = 2.0
# Modes and scales of the priors of log ℓ, in units of √D, and of log σ². Both are hyperbolic secant laws: log densities
# are quadratic near the mode and linear far from it. For ℓ this is a half-Cauchy law of a power of 1/ℓ: an input that
# differs from the others is penalised, but hardly more if it differs more. All lengthscales share one of some levels,
# so that functions that vary with all inputs are penalised once.
_LENGTHSCALE, _NOISE = (2.0, 0.8), (-2.0, 2.0)
_LEVELS = (2.0, 1.0, 0.0, -1.0)
# An input may also be irrelevant, with this probability. The density of log ℓ is then a logistic function of this
# width, the edge, times one that falls at this rate, so slowly that it hardly matters but makes the optimum unique.
_IRRELEVANT, _IRRELEVANT_FROM, _EDGE, _FALL = 0.5, 2.0, 0.3, 0.2
# The largest lengthscale in units of √D: where noise is small, a shorter one would not hide an irrelevant input.
_LONGEST = 1e4
# Starts climb with weak Normal priors: the priors above would hide optima in which several inputs matter together.
_WEAK_LENGTHSCALE, _WEAK_NOISE = (0.7, 2.0), (-4.0, 4.0)
# Largest gap in log evidence at which two optima are compared by the posterior volumes around them.
_MOST_VOLUME, _SAME = 40.0, 0.02
_STEP = 0.05  # finite difference in a log hyperparameter


@dataclass(frozen=True)
class ExactGP:
    """y = w·(x, 1) + f(x) + noise for one output: f has an ARD RBF kernel, w ~ N(0, diag(plane_var, …, bias_var)).

    Args:
        lengthscale: one for each input.
        outputscale: the prior variance of f.
        plane_var: the prior variance of each slope; 0 without a linear mean.
        noise_var: the variance of the noise.
        log_evidence: log evidence of the rows, plus the log prior of the hyperparameters.
    """

    lengthscale: Float[Array, "D"]
    outputscale: float
    plane_var: float
    noise_var: float
    log_evidence: float

    @property
    def bias_var(self) -> float:
        """Prior variance of the constant; outputs are centred, so only a linear mean needs one."""
        return _BIAS_VAR if self.plane_var else 0.0

    def inflated(self, factor: float) -> "ExactGP":
        """The same predictive mean with `factor` times the variance."""
        return replace(
            self,
            outputscale=factor * self.outputscale,
            plane_var=factor * self.plane_var,
            noise_var=factor * self.noise_var,
        )

    def kernel(self, x: Float[Array, "N D"], other: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """s exp(−½ ‖(x − x′)/ℓ‖²), without the linear mean."""
        return _rbf(x / self.lengthscale, other / self.lengthscale, self.outputscale)


def fit_exact_gp(
    x: Float[Array, "N D"],
    y: Float[Array, "N"],
    rng: np.random.Generator,
    relative_noise: Float[Array, "N"] | None = None,
    *,
    plane: bool = True,
    rough: bool = False,
    near: ExactGP | None = None,
) -> ExactGP:
    """The exact GP of one output with the largest log evidence found.

    Args:
        x: standardised inputs.
        y: the standardised output.
        rng: draws the subsets.
        relative_noise: relative noise variance of each row; ones by default.
        plane: whether a linear mean is allowed.
        rough: whether hyperparameters from few rows are enough.
        near: where to climb from, in place of a search.

    Example:
        >>> x = np.linspace(-1.7, 1.7, 100)[:, None]
        >>> gp = fit_exact_gp(x, np.sin(8 * x[:, 0]), np.random.default_rng(0))
        >>> bool(0.1 < gp.lengthscale[0] < 0.5)
        True
    """
    relative_noise = np.ones(len(y)) if relative_noise is None else relative_noise
    search = _Search(x, y, relative_noise, rng.permutation(len(y)), _ROUGH_ROWS if rough else CLIMBED_ROWS)
    # One thread: for hundreds of products of small matrices, threads cost more than they save.
    with threadpool_limits(1, user_api="blas"):
        theta = search.best(plane=plane) if near is None else search.climbed(_theta(near), plane=plane)
        return search.result(theta, plane)


def leave_one_out(
    gp: ExactGP, x: Float[Array, "N D"], y: Float[Array, "N"], relative_noise: Float[Array, "N"] | None = None
) -> tuple[Float[Array, "N"], Float[Array, "N"]]:
    """Residual and variance of each row predicted from all others: y − m = α/d and 1/d for d the diagonal of V⁻¹.

    >>> x = np.linspace(-1.7, 1.7, 40)[:, None]
    >>> residual, var = leave_one_out(ExactGP(np.ones(1), 1.0, 0.0, 0.01, 0.0), x, np.sin(x[:, 0]))
    >>> bool(np.abs(residual).max() < 0.1)
    True
    """
    evidence = _Evidence(x, y, np.ones(len(y)) if relative_noise is None else relative_noise, plane=bool(gp.plane_var))
    return evidence.leave_one_out(_theta(gp))


def hyperparameter_spread(
    gp: ExactGP,
    x: Float[Array, "N D"],
    y: Float[Array, "N"],
    relative_noise: Float[Array, "N"],
    at: Float[Array, "M D"],
    rng: np.random.Generator,
) -> Float[Array, "M U"]:
    """C with C Cᵀ = J Σ Jᵀ: the covariance at these points due to uncertain hyperparameters θ.

    J is the Jacobian of the posterior mean, Σ the inverse Hessian of the log evidence at its maximum: the Laplace
    approximation of p(θ | y) (Kass & Steffey 1989). Without it intervals are too narrow with few rows or far from them.

    >>> x = np.linspace(-1.7, 1.7, 40)[:, None]
    >>> y, at, rng = x[:, 0] ** 2 - 1, np.array([[0.0], [4.0]]), np.random.default_rng(0)
    >>> spread = hyperparameter_spread(fit_exact_gp(x, y, rng), x, y, np.ones(40), at, rng)
    >>> bool(np.linalg.norm(spread[1]) > 10 * np.linalg.norm(spread[0]))
    True
    """
    some = rng.permutation(len(y))[:CLIMBED_ROWS] if len(y) > CLIMBED_ROWS else np.arange(len(y))
    evidence = _Evidence(x[some], y[some], relative_noise[some], plane=bool(gp.plane_var))
    return evidence.spread(_theta(gp), at, len(some) / len(y))


@dataclass
class _Search:
    """Starts on a grid, ranked on few rows, climbed on more, refined on most."""

    x: Float[Array, "N D"]
    y: Float[Array, "N"]
    relative_noise: Float[Array, "N"]
    order: Int[IntArray, "N"]
    climbed_rows: int

    def best(self, *, plane: bool) -> Float[Array, "T"]:
        """The best log hyperparameters, with or without a linear mean."""
        weak = self._evidence(self.climbed_rows, plane=False, weak=True)
        theta, _ = max((weak.climb(start, _SHORT) for start in self._starts()), key=lambda found: found[1])
        theta, _ = self._rescanned(weak, *weak.climb(theta, _SHORT))
        middle = self._evidence(self.climbed_rows, plane=False)
        theta, value = self._likelier(middle, [middle.climb(start, _LONG) for start in (theta, middle.simple())])
        if plane:
            theta = self._with_plane(theta, value)
        if len(self.y) > self.climbed_rows:
            theta, _ = self._evidence(REFINED_ROWS, plane=plane).climb(theta, _REFINING)
        return theta

    def climbed(self, theta: Float[Array, "T"], *, plane: bool) -> Float[Array, "T"]:
        """The optimum next to a point."""
        num_rows = max(self.climbed_rows, REFINED_ROWS) if len(self.y) > self.climbed_rows else self.climbed_rows
        return self._evidence(num_rows, plane=plane).climb(theta, _SHORT)[0]

    def _starts(self) -> list[Float[Array, "T"]]:
        small, root = self._evidence(RANKED_ROWS, plane=False, weak=True), math.sqrt(self.x.shape[1])
        grid = [[small.start(length * root, noise) for noise in _NOISES] for length in _LENGTHSCALES]
        best = [max(((small.value(start), start) for start in column), key=lambda pair: pair[0]) for column in grid]
        ranked = [start for _, start in sorted(best, key=lambda pair: -pair[0])]
        smooth = [small.start(length, _SMOOTH_NOISE) for length in _SMOOTH_LENGTHSCALES]
        return ranked[:_NUM_RANKED] + smooth + [self._selected()]

    def _selected(self) -> Float[Array, "T"]:
        """Forward selection: at first no input is relevant, then the one that raises the evidence most, and so on."""
        evidence, num_inputs = self._evidence(_FORWARD_ROWS, plane=False, weak=True), self.x.shape[1]
        theta, value = evidence.start(math.exp(evidence.bounds[0][1]), _SMOOTH_NOISE), -math.inf
        left = list(range(num_inputs))
        for _ in range(min(num_inputs, _MOST_SELECTED)):
            found = sorted((self._relevant(evidence, theta, place) for place in left), key=itemgetter(0), reverse=True)
            best, _, start = found[0]
            if best < value + _SCAN_GAIN:
                break
            theta, value = start, best
            left = [other for _, other, _ in found[1:_MOST_TRIED]]
        return theta

    @staticmethod
    def _relevant(evidence: "_Evidence", theta: Float[Array, "T"], place: int) -> tuple[float, int, Float[Array, "T"]]:
        """The best log evidence with this input relevant too, the input, and the start."""
        tried = [
            evidence.moved(evidence.moved(theta, place, math.log(length)), -1, math.log(noise))
            for length in _FORWARD_LENGTHSCALES
            for noise in _FORWARD_NOISES
        ]
        value, start = max(((evidence.value(start), start) for start in tried), key=itemgetter(0))
        return value, place, start

    @staticmethod
    def _rescanned(evidence: "_Evidence", theta: Float[Array, "T"], value: float) -> tuple[Float[Array, "T"], float]:
        """Climb again from another lengthscale of one input if that is better: an input may look linear at first."""
        for _ in range(_RESCANS):
            moved = [
                evidence.moved(theta, place, log_length)
                for place in evidence.promising(theta).tolist()
                for log_length in _SCANNED
            ]
            best_value, best = max(((evidence.value(start), start) for start in moved), key=lambda pair: pair[0])
            if best_value < value + _SCAN_GAIN:
                break
            theta, value = evidence.climb(best, _SHORT)
        return theta, value

    @staticmethod
    def _likelier(
        evidence: "_Evidence", found: list[tuple[Float[Array, "T"], float]]
    ) -> tuple[Float[Array, "T"], float]:
        """The optimum with the most posterior mass around it; a chance fit has a narrow optimum."""
        (theta, value), (other, other_value) = found
        if abs(value - other_value) > _MOST_VOLUME or np.abs(theta - other).max() < _SAME:
            return max(found, key=lambda each: each[1])
        return max(found, key=lambda each: each[1] + evidence.log_volume(each[0]))

    def _with_plane(self, theta: Float[Array, "T"], value: float) -> Float[Array, "T"]:
        """Climb with a linear mean, from the optimum without one and from a fresh start."""
        evidence = self._evidence(self.climbed_rows, plane=True)
        weak = self._evidence(self.climbed_rows, plane=True, weak=True)
        joined, first = theta, weak.climb(weak.start(0.7 * math.sqrt(self.x.shape[1]), 0.1), _SHORT)[0]
        theta, _ = max((evidence.climb(start, _SHORT) for start in (joined, first)), key=lambda found: found[1])
        theta, reached = evidence.climb(theta, _LONG)
        return theta if reached > value + _PLANE_GAIN else evidence.climb(joined, _SHORT)[0]

    def _evidence(self, num_rows: int, *, plane: bool, weak: bool = False) -> "_Evidence":
        if len(self.y) <= num_rows:
            return _Evidence(self.x, self.y, self.relative_noise, plane=plane, weak=weak)
        some = self.order[:num_rows]
        return _Evidence(self.x[some], self.y[some], self.relative_noise[some], plane=plane, weak=weak)

    def result(self, theta: Float[Array, "T"], plane: bool) -> ExactGP:
        """The GP, with its variance inflated by the uncertainty of the hyperparameters."""
        evidence = self._evidence(self.climbed_rows, plane=plane)
        outputscale, plane_var, noise_var = np.exp(theta[-3:]).tolist()
        plane_var = plane_var if plane else 0.0
        gp = ExactGP(np.exp(theta[:-3]), outputscale, plane_var, noise_var, evidence.value(theta))
        return gp.inflated(evidence.inflation(theta, len(evidence.y) / len(self.y)))


class _Evidence:
    """log p(y | θ) + log p(θ) and its gradient, for θ = log (ℓ₁ … ℓ_D, s, a, σ²): V = s RBF + a X Xᵀ + b + σ² R.

    Gradients ½ tr((ααᵀ − V⁻¹) ∂V) take products of N × N with N × D matrices, never an N × N × D array.
    """

    def __init__(
        self,
        x: Float[Array, "N D"],
        y: Float[Array, "N"],
        relative_noise: Float[Array, "N"],
        *,
        plane: bool,
        weak: bool = False,
    ) -> None:
        self.x, self.y, self.relative_noise, self.plane = np.ascontiguousarray(x), y, relative_noise, plane
        self.gram = x @ x.T if plane else np.zeros((0, 0))
        num_inputs = x.shape[1]
        # A signal of any size, and a linear mean that varies at least as much as the output: with less, intervals far
        # from the data would not cover a truly linear function.
        lengthscale, noise_var = (_WEAK_LENGTHSCALE, _WEAK_NOISE) if weak else (_LENGTHSCALE, _NOISE)
        self.prior_mean = np.array(
            [lengthscale[0] + 0.5 * math.log(num_inputs)] * num_inputs + [0.0, -math.log(num_inputs), noise_var[0]]
        )
        self.prior_scale = np.array([lengthscale[1]] * num_inputs + [10.0, 1.0, noise_var[1]])
        self.tolerance = 1e-6 if weak else 1e-7
        self.weak = weak
        self.levelled = np.array([not weak] * num_inputs + [False] * 3)
        self.heavy = np.array([False] * (num_inputs + 2) + [not weak])
        self.irrelevant = _IRRELEVANT_FROM + 0.5 * math.log(num_inputs)
        low = [5e-3] * num_inputs + [1e-4, 1e-6, 1e-8]
        high = [_LONGEST * math.sqrt(num_inputs)] * num_inputs + [1e3, 1e2, 4.0]
        self.bounds = list(zip(np.log(low), np.log(high), strict=True))
        self.learnt = np.array([True] * (num_inputs + 1) + [plane, True])

    def start(self, lengthscale: float, noise_var: float) -> Float[Array, "T"]:
        """A start with the same lengthscale for all inputs."""
        num_inputs = self.x.shape[1]
        return np.log([lengthscale] * num_inputs + [1.0, 1 / num_inputs, noise_var])

    def simple(self) -> Float[Array, "T"]:
        """The simplest start: the prior's lengthscales, with noise that explains the output's whole variance."""
        return self.start(math.exp(self.prior_mean[0]), _SMOOTH_NOISE)

    @staticmethod
    def moved(theta: Float[Array, "T"], place: int, value: float) -> Float[Array, "T"]:
        """A copy with `value` at index `place`."""
        result = theta.copy()
        result[place] = value
        return result

    def promising(self, theta: Float[Array, "T"]) -> Int[IntArray, "K"]:
        """Inputs whose relevance ℓ⁻² would raise the log evidence most, by its slope there: all of them if few."""
        num_inputs = self.x.shape[1]
        if num_inputs <= _MOST_INPUTS:
            return np.arange(num_inputs)
        _, slope = self._loss(theta)
        return np.argsort(-slope[:num_inputs] * np.exp(2 * theta[:num_inputs]))[:_MOST_INPUTS]

    def climb(self, theta: Float[Array, "T"], num_steps: int) -> tuple[Float[Array, "T"], float]:
        """At most `num_steps` steps of L-BFGS; the point and value reached."""
        options: Any = {"maxiter": num_steps, "ftol": self.tolerance, "gtol": 1e-3}
        found = minimize(self._loss, theta, jac=True, method="L-BFGS-B", bounds=self.bounds, options=options)
        return found.x, -float(found.fun)

    def value(self, theta: Float[Array, "T"]) -> float:
        """log p(y | θ) + log p(θ)."""
        solved = _Solved.of(*self._covariance(theta), self.y)
        return -math.inf if solved is None else solved.log_density(self.y) + self._log_prior(theta)

    def _log_prior(self, theta: Float[Array, "T"]) -> float:
        distance, levels = self._distance(theta), self._log_levels(theta)
        normal = -0.5 * float(np.square(distance[~self.heavy]).sum())
        return normal - float(_log_cosh(distance[self.heavy]).sum()) + float(np.logaddexp.reduce(levels))

    def _log_levels(self, theta: Float[Array, "T"]) -> Float[Array, "K"]:
        """log of 1/K ∏_d sech((log ℓ_d − m_k)/w) for each common level m_k of the lengthscales."""
        if self.weak:
            return np.zeros(1)
        relevant, irrelevant = self._log_relevance(theta)
        result: Array = np.logaddexp(relevant, irrelevant).sum(1) - math.log(len(_LEVELS))
        return result

    def _log_relevance(self, theta: Float[Array, "T"]) -> tuple[Float[Array, "K D"], Float[Array, "1 D"]]:
        """Log densities of both parts of the mixture: a relevant input near each level, and an irrelevant one."""
        relevant: Array = -_log_cosh(self._from_levels(theta)) - np.log(math.pi * self.prior_scale[0])
        beyond = theta[: self.x.shape[1]] - self.irrelevant
        irrelevant: Array = -np.logaddexp(0.0, -beyond / _EDGE) - _FALL * beyond + math.log(_FALL)
        return relevant + math.log(1 - _IRRELEVANT), irrelevant[None] + math.log(_IRRELEVANT)

    def _from_levels(self, theta: Float[Array, "T"]) -> Float[Array, "K D"]:
        num_inputs = self.x.shape[1]
        levels = np.array(_LEVELS) + 0.5 * math.log(num_inputs)
        result: Array = (theta[:num_inputs] - levels[:, None]) / self.prior_scale[:num_inputs]
        return result

    def _log_prior_slope(self, theta: Float[Array, "T"]) -> Float[Array, "T"]:
        distance, num_inputs = self._distance(theta), self.x.shape[1]
        slope: Array = -np.where(self.heavy, np.tanh(distance), distance) / self.prior_scale
        if not self.weak:
            levels = self._log_levels(theta)
            share = np.exp(levels - np.logaddexp.reduce(levels))
            relevant, irrelevant = self._log_relevance(theta)
            chance = np.exp(relevant - np.logaddexp(relevant, irrelevant))
            edge = expit(-(theta[:num_inputs] - self.irrelevant) / _EDGE) / _EDGE - _FALL
            each = -chance * np.tanh(self._from_levels(theta)) / self.prior_scale[0] + (1 - chance) * edge
            slope[:num_inputs] = share @ each
        return slope

    def _distance(self, theta: Float[Array, "T"]) -> Float[Array, "T"]:
        """Distance from the prior's mode in its scales; 0 for fixed parameters and lengthscales with a common level."""
        own = self.learnt & ~self.levelled
        return np.where(own, (theta - self.prior_mean) / self.prior_scale, 0.0)

    def _loss(self, theta: Float[Array, "T"]) -> tuple[float, Float[Array, "T"]]:
        covariance, kernel = self._covariance(theta)
        solved = _Solved.of(covariance, kernel, self.y)
        if solved is None:
            return 1e25, np.zeros_like(theta)  # L-BFGS rejects this step
        value = solved.log_density(self.y) + self._log_prior(theta)
        gradient = self._gradient(theta, kernel, solved) + self._log_prior_slope(theta)
        return -value, -gradient

    def _covariance(self, theta: Float[Array, "T"]) -> tuple[Float[Array, "N N"], Float[Array, "N N"]]:
        """V, and its part s RBF."""
        scaled = self.x / np.exp(theta[:-3])
        outputscale, plane_var, noise_var = np.exp(theta[-3:])
        kernel = _rbf(scaled, scaled, outputscale)
        covariance = plane_var * self.gram + kernel + _BIAS_VAR if self.plane else kernel.copy()
        covariance.flat[:: len(covariance) + 1] += noise_var * self.relative_noise
        return covariance, kernel

    def _gradient(self, theta: Float[Array, "T"], kernel: Float[Array, "N N"], solved: "_Solved") -> Float[Array, "T"]:
        """½ tr((ααᵀ − V⁻¹) ∂V/∂θ); V⁻¹ is stored as its lower triangle, so off-diagonal entries count twice."""
        alpha, lower = solved.alpha, solved.inverse()
        diagonal = lower.diagonal()
        outputscale, plane_var, noise_var = np.exp(theta[-3:])
        scaled = self.x / np.exp(theta[:-3])
        gradient = np.zeros_like(theta)
        gradient[-1] = 0.5 * noise_var * ((alpha**2 - diagonal) @ self.relative_noise)
        if self.plane:
            traced = 2 * np.vdot(lower, self.gram) - diagonal @ self.gram.diagonal()
            gradient[-2] = 0.5 * plane_var * (np.square(alpha @ self.x).sum() - traced)
        product = lower * kernel
        on_diagonal = outputscale * diagonal
        rows = product.sum(0) + product.sum(1) - on_diagonal
        weighted = kernel @ alpha
        gradient[-3] = 0.5 * (alpha @ weighted - rows.sum())
        # Σ_ij G_ij (z_i − z_j)²/2 = Σ_i z_i² Σ_j G_ij − zᵀ G z for G = (ααᵀ − V⁻¹) ∘ s RBF.
        turned = alpha[:, None] * scaled
        quadratic = (turned * (kernel @ turned)).sum(0) - 2 * (scaled * (product @ scaled)).sum(0)
        quadratic += on_diagonal @ scaled**2
        gradient[:-3] = (alpha * weighted - rows) @ scaled**2 - quadratic
        return gradient

    def leave_one_out(self, theta: Float[Array, "T"]) -> tuple[Float[Array, "N"], Float[Array, "N"]]:
        """y − m and the variance of each row given all others."""
        solved = self._solved(theta)
        diagonal = solved.inverse().diagonal()
        return solved.alpha / diagonal, 1 / diagonal

    def mean(self, theta: Float[Array, "T"], at: Float[Array, "M D"]) -> Float[Array, "M"]:
        """The posterior mean of the linear mean plus f."""
        solved = self._solved(theta)
        lengthscale, (outputscale, plane_var, _) = np.exp(theta[:-3]), np.exp(theta[-3:])
        cross = _rbf(at / lengthscale, self.x / lengthscale, outputscale)
        result: Array = cross @ solved.alpha
        if self.plane:
            result = result + plane_var * at @ (self.x.T @ solved.alpha) + _BIAS_VAR * solved.alpha.sum()
        return result

    def spread(self, theta: Float[Array, "T"], at: Float[Array, "M D"], share: float) -> Float[Array, "M U"]:
        """J Σ^½ for J = ∂mean/∂θ and Σ = Cov θ given all rows; `share` is these rows' share of all."""
        result: Array = self._derivative(lambda moved: self.mean(moved, at), theta) @ self._root_cov(theta, share)
        return result

    def inflation(self, theta: Float[Array, "T"], share: float) -> float:
        """1 + mean(J Σ Jᵀ)/mean(v), for the Jacobian J of leave-one-out means, and their variances v."""
        _, var = self.leave_one_out(theta)
        jacobian = self._derivative(lambda moved: self.leave_one_out(moved)[0], theta)
        return 1 + float(np.square(jacobian @ self._root_cov(theta, share)).sum(1).mean() / var.mean())

    def log_volume(self, theta: Float[Array, "T"]) -> float:
        """½ log det Σ: the Laplace approximation's correction to the maximum log evidence, up to a constant."""
        return float(np.linalg.slogdet(self._root_cov(theta, 1.0))[1])

    def _root_cov(self, theta: Float[Array, "T"], share: float) -> Float[Array, "U U"]:
        """R with R Rᵀ = Σ, the inverse Hessian of the log evidence: the Laplace approximation of p(θ | y)."""
        along = self._directions(theta)
        hessian = self._derivative(lambda moved: self._loss(moved)[1] @ along, theta)
        scale = self.prior_scale @ along / along.sum(0)
        sizes, directions = np.linalg.eigh(0.5 * (hessian + hessian.T) * np.outer(scale, scale))
        # The curvature is at least the prior's.
        result: Array = scale[:, None] * directions / np.sqrt(np.maximum(sizes / share, 1.0))
        return result

    def _derivative(
        self, function: Callable[[Float[Array, "T"]], Float[Array, "K"]], theta: Float[Array, "T"]
    ) -> Float[Array, "K U"]:
        """Finite differences along `_directions`, away from bounds."""
        here, columns, top = function(theta), [], np.array([high for _, high in self.bounds])
        for direction in self._directions(theta).T:
            step = _STEP if (theta + _STEP * direction < top).all() else -_STEP
            columns.append((function(theta + step * direction) - here) / step)
        return np.stack(columns, axis=1)

    def _directions(self, theta: Float[Array, "T"]) -> Float[Array, "T U"]:
        """Unit vectors, one for each learnt hyperparameter; lengthscales of many lesser inputs share one."""
        num_inputs, axes = self.x.shape[1], np.eye(len(theta))
        if num_inputs <= _MOST_INPUTS:
            return axes[:, self.learnt]
        order = np.argsort(theta[:num_inputs], kind="stable")
        others = axes[:, order[_MOST_INPUTS:]].sum(1) / math.sqrt(num_inputs - _MOST_INPUTS)
        own = np.concatenate([order[:_MOST_INPUTS], np.flatnonzero(self.learnt[num_inputs:]) + num_inputs])
        return np.column_stack([axes[:, own], others])

    def _solved(self, theta: Float[Array, "T"]) -> "_Solved":
        solved = _Solved.of(*self._covariance(theta), self.y)
        if solved is None:
            raise NumericalError(
                "The covariance of the rows must be positive definite; it is not. Remove copies of rows."
            )
        return solved


@dataclass
class _Solved:
    """V = L Lᵀ with α = V⁻¹y."""

    factor: Float[Array, "N N"]
    alpha: Float[Array, "N"]

    @staticmethod
    def of(covariance: Float[Array, "N N"], kernel: Float[Array, "N N"], y: Float[Array, "N"]) -> "_Solved | None":
        """None if V is not numerically positive definite."""
        factor, failed = dpotrf(covariance.T, lower=1, overwrite_a=1, clean=1)  # V is symmetric: no copy to transpose
        if failed:
            return None
        alpha, _ = dpotrs(factor, y, lower=1)
        return _Solved(factor, alpha)

    def log_density(self, y: Float[Array, "N"]) -> float:
        """−½ yᵀα − Σ log Lᵢᵢ − N/2 log 2π."""
        log_det = np.log(self.factor.diagonal()).sum()
        return float(-0.5 * (y @ self.alpha) - log_det - 0.5 * len(y) * math.log(2 * math.pi))

    def inverse(self) -> Float[Array, "N N"]:
        """The lower triangle of V⁻¹."""
        lower: Array = dpotri(self.factor, lower=1)[0]
        return lower


def _rbf(z: Float[Array, "N D"], other: Float[Array, "M D"], outputscale: float) -> Float[Array, "N M"]:
    """s exp(−½ ‖z − z′‖²)."""
    result: Array = z @ other.T
    result -= 0.5 * np.square(z).sum(1)[:, None]
    result -= 0.5 * np.square(other).sum(1)
    np.exp(np.minimum(result, 0.0, out=result), out=result)
    result *= outputscale
    return result


def _log_cosh(value: Float[Array, "..."]) -> Float[Array, "..."]:
    result: Array = np.logaddexp(value, -value) - math.log(2)
    return result


def _theta(gp: ExactGP) -> Float[Array, "T"]:
    plane_var = gp.plane_var or 1.0  # unused without a linear mean
    return np.log([*gp.lengthscale, gp.outputscale, plane_var, gp.noise_var])
