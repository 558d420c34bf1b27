"""The log evidence of an exact GP with a radial kernel, priors of hyperparameters included, and what follows from it.

Inputs and outputs are standardised: lengthscales, variances and their priors are in these units.
"""

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.optimize import minimize
from scipy.special import expit

from mogul._typing import Array, IntArray
from mogul.core.radial import RADIALS, Radial
from mogul.errors import NumericalError

_BIAS_VAR = 1.0
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
# Mode and scale of the Normal prior of a log shape parameter, and its bounds: far above, the kernel is an RBF.
_SHAPE, _SHAPE_BOUNDS = (0.7, 1.5), (0.05, 200.0)
# The same of the log variance of coefficients of other outputs.
_COEFFICIENTS = (-1.5, 1.5)
# Factors of lengthscales and of the noise at which a climb from another kernel's optimum may start: rough kernels have
# longer lengthscales, and explain what an RBF takes for noise.
_LONGER, _LESS_NOISE = (1.0, 2.0, 4.0), (1.0, 0.1)
_STEP = 0.05  # finite difference in a log hyperparameter
# With more inputs than this, only those are scanned, and have an uncertainty of their own, that matter most.
MOST_INPUTS = 24


@dataclass(frozen=True)
class ExactGP:
    """y = w·(x, 1) + f(x) + noise for one output: f has a radial ARD kernel, w ~ N(0, diag(plane_var, …, bias_var)).

    Args:
        lengthscale: one for each input.
        outputscale: the prior variance of f.
        plane_var: the prior variance of each slope; 0 without a linear mean.
        noise_var: the variance of the noise.
        log_evidence: log evidence of the rows, plus the log prior of the hyperparameters.
        family: the name of the kernel, one of `mogul.core.radial.RADIALS`.
        shape: its shape parameter, where it has one.
    """

    lengthscale: Float[Array, "D"]
    outputscale: float
    plane_var: float
    noise_var: float
    log_evidence: float
    family: str = "rbf"
    shape: float | None = None

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
        """s k(‖(x − x′)/ℓ‖²), without the linear mean."""
        scaled = x / self.lengthscale, other / self.lengthscale
        return _kernel(RADIALS[self.family], *scaled, self.outputscale, self.shape)


class Evidence:
    """log p(y | θ) + log p(θ) and its gradient, for θ = log (ℓ₁ … ℓ_D, s, a, σ²): V = s K + a X Xᵀ + b + σ² R.

    K is a radial kernel; θ has its shape parameter, where it has one, after the lengthscales. With other outputs Z of
    the same rows, V has a further term c Z Zᵀ, for coefficients that are N(0, c), and log c is before log s in θ.
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
        radial: Radial = RADIALS["rbf"],
        given: Float[Array, "N K"] | None = None,
    ) -> None:
        self.x, self.y, self.relative_noise, self.plane = np.ascontiguousarray(x), y, relative_noise, plane
        self.gram = x @ x.T if plane else np.zeros((0, 0))
        self.num_inputs = num_inputs = x.shape[1]
        self.own: slice | IntArray = slice(0, num_inputs)
        self.others: _OtherInputs | None = None
        self.radial, num_shapes = radial, int(radial.shape_slope is not None)
        self.given = given
        self.given_gram = np.zeros((0, 0)) if given is None else given @ given.T
        # A signal of any size, and a linear mean that varies at least as much as the output: with less, intervals far
        # from the data would not cover a truly linear function.
        lengthscale, noise_var = (_WEAK_LENGTHSCALE, _WEAK_NOISE) if weak else (_LENGTHSCALE, _NOISE)
        lengths, shapes = [lengthscale[0] + 0.5 * math.log(num_inputs)] * num_inputs, [_SHAPE[0]] * num_shapes
        self.prior_mean = np.array([*lengths, *shapes, 0.0, -math.log(num_inputs), noise_var[0]])
        self.prior_scale = np.array(
            [lengthscale[1]] * num_inputs + [_SHAPE[1]] * num_shapes + [10.0, 1.0, noise_var[1]]
        )
        self.tolerance = 1e-6 if weak else 1e-7
        self.weak = weak
        self.levelled = np.array([not weak] * num_inputs + [False] * (num_shapes + 3))
        self.heavy = np.array([False] * (num_inputs + num_shapes + 2) + [not weak])
        self.irrelevant = _IRRELEVANT_FROM + 0.5 * math.log(num_inputs)
        least, most = ([bound] * num_shapes for bound in _SHAPE_BOUNDS)
        low = [5e-3] * num_inputs + least + [1e-4, 1e-6, 1e-8]
        high = [_LONGEST * math.sqrt(num_inputs)] * num_inputs + most + [1e3, 1e2, 4.0]
        self.bounds = list(zip(np.log(low), np.log(high), strict=True))
        self.learnt = np.array([True] * (num_inputs + num_shapes + 1) + [plane, True])
        if given is not None:
            self._learn_coefficients()

    def _learn_coefficients(self) -> None:
        """Add log c to θ, before log s."""
        self.prior_mean = np.insert(self.prior_mean, -3, _COEFFICIENTS[0])
        self.prior_scale = np.insert(self.prior_scale, -3, _COEFFICIENTS[1])
        self.levelled, self.heavy = (np.insert(part, -3, False) for part in (self.levelled, self.heavy))
        self.learnt = np.insert(self.learnt, -3, True)
        self.bounds.insert(-3, (math.log(1e-8), math.log(1e2)))

    @staticmethod
    def of(gp: ExactGP, x: Float[Array, "N D"], y: Float[Array, "N"], relative_noise: Float[Array, "N"]) -> "Evidence":
        """With the kernel of this GP, and a linear mean where it has one."""
        return Evidence(x, y, relative_noise, plane=bool(gp.plane_var), radial=RADIALS[gp.family])

    def gp(self, theta: Float[Array, "T"], log_evidence: float) -> ExactGP:
        """The GP of these hyperparameters."""
        outputscale, plane_var, noise_var = np.exp(theta[-3:]).tolist()
        plane_var = plane_var if self.plane else 0.0
        scales = np.exp(theta[: self.num_inputs]), outputscale, plane_var, noise_var
        return ExactGP(*scales, log_evidence, self.radial.name, self._shape(theta))

    def _shape(self, theta: Float[Array, "T"]) -> float | None:
        return math.exp(theta[self.num_inputs]) if self.radial.shape_slope is not None else None

    def start(self, lengthscale: float, noise_var: float) -> Float[Array, "T"]:
        """A start with the same lengthscale for all inputs."""
        num_inputs = self.num_inputs
        theta = np.log([lengthscale] * num_inputs + [1.0, 1 / num_inputs, noise_var])
        return np.insert(theta, num_inputs, self.prior_mean[num_inputs:-3])

    def start_near(self, gp: ExactGP) -> Float[Array, "T"]:
        """The hyperparameters of this GP; for one of another kernel, the best of some that explain as much."""
        if gp.family == self.radial.name:
            return theta_of(gp)
        theta, tried = self.prior_mean.copy(), []
        theta[: self.num_inputs], theta[-3:] = np.log(gp.lengthscale), theta_of(gp)[-3:]
        for longer in _LONGER:
            for less in _LESS_NOISE:
                moved = self.moved(theta, -1, theta[-1] + math.log(less))
                moved[: self.num_inputs] += math.log(longer)
                moved = np.clip(moved, *np.transpose(self.bounds))
                tried.append((self.value(moved), moved))
        return max(tried, key=itemgetter(0))[1]

    def simple(self) -> Float[Array, "T"]:
        """The simplest start: the prior's lengthscales, with noise that explains the output's whole variance."""
        return self.start(math.exp(self.prior_mean[0]), 1.0)

    @staticmethod
    def moved(theta: Float[Array, "T"], place: int, value: float) -> Float[Array, "T"]:
        """A copy with `value` at index `place`."""
        result = theta.copy()
        result[place] = value
        return result

    @property
    def is_wide(self) -> bool:
        """Whether there are so many inputs that not all lengthscales are moved at once."""
        return bool(self.num_inputs > 2 * MOST_INPUTS)

    def promising(self, theta: Float[Array, "T"]) -> Int[IntArray, "K"]:
        """Inputs whose relevance ℓ⁻² would raise the log evidence most, by its slope there: all of them if few."""
        num_inputs = self.num_inputs
        if num_inputs <= MOST_INPUTS:
            return np.arange(num_inputs)
        _, slope = self._loss(theta)
        return np.argsort(-slope[:num_inputs] * np.exp(2 * theta[:num_inputs]))[:MOST_INPUTS]

    def climb(self, theta: Float[Array, "T"], num_steps: int) -> tuple[Float[Array, "T"], float]:
        """At most `num_steps` steps of L-BFGS; the point and value reached.

        Of many inputs, the lesser ones keep the ratios of their lengthscales, and their squared distances are computed
        once: steps are then as fast as with few inputs. Each climb chooses anew which inputs these are.
        """
        options: Any = {"maxiter": num_steps, "ftol": self.tolerance, "gtol": 1e-3}
        if not self.is_wide:
            found = minimize(self._loss, theta, jac=True, method="L-BFGS-B", bounds=self.bounds, options=options)
            return found.x, -float(found.fun)
        restricted, along = self._restricted(theta)

        def loss(step: Float[Array, "U"]) -> tuple[float, Float[Array, "U"]]:
            value, slope = restricted._loss(theta + along @ step)
            return value, slope @ along

        room = np.transpose(self.bounds) - theta
        bounds = [(room[0, moved].max(), room[1, moved].min()) for moved in along.T > 0]
        found = minimize(loss, np.zeros(along.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return theta + along @ found.x, -float(found.fun)

    def _restricted(self, theta: Float[Array, "T"]) -> tuple["Evidence", Float[Array, "T U"]]:
        """The same at θ + A t for this A, in which the lengthscales of lesser inputs have a common factor."""
        num_inputs, axes = self.num_inputs, np.eye(len(theta))
        shortest = np.argsort(theta[:num_inputs], kind="stable")[:MOST_INPUTS]
        own = np.union1d(shortest, self.promising(theta))
        others = np.setdiff1d(np.arange(num_inputs), own)
        scaled = self.x[:, others] / np.exp(theta[others])
        result = copy(self)
        result.own, result.others = own, _OtherInputs(others, _squares(scaled, scaled), theta[others[0]])
        along = np.column_stack([axes[:, own], axes[:, others].sum(1), axes[:, num_inputs:]])
        return result, along

    def value(self, theta: Float[Array, "T"]) -> float:
        """log p(y | θ) + log p(θ)."""
        solved = _Solved.of(self._covariance(theta)[0], self.y)
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
        beyond = theta[: self.num_inputs] - self.irrelevant
        irrelevant: Array = -np.logaddexp(0.0, -beyond / _EDGE) - _FALL * beyond + math.log(_FALL)
        return relevant + math.log(1 - _IRRELEVANT), irrelevant[None] + math.log(_IRRELEVANT)

    def _from_levels(self, theta: Float[Array, "T"]) -> Float[Array, "K D"]:
        num_inputs = self.num_inputs
        levels = np.array(_LEVELS) + 0.5 * math.log(num_inputs)
        result: Array = (theta[:num_inputs] - levels[:, None]) / self.prior_scale[:num_inputs]
        return result

    def _log_prior_slope(self, theta: Float[Array, "T"]) -> Float[Array, "T"]:
        distance, num_inputs = self._distance(theta), self.num_inputs
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
        covariance, kernel, weights = self._covariance(theta)
        solved = _Solved.of(covariance, self.y)
        if solved is None:
            return 1e25, np.zeros_like(theta)  # L-BFGS rejects this step
        value = solved.log_density(self.y) + self._log_prior(theta)
        gradient = self._gradient(theta, kernel, weights, solved) + self._log_prior_slope(theta)
        return -value, -gradient

    def _covariance(
        self, theta: Float[Array, "T"]
    ) -> tuple[Float[Array, "N N"], Float[Array, "N N"], Float[Array, "N N"]]:
        """V, its part s K, and s times the weights −2 ∂K/∂r²: for an RBF the same array."""
        scaled = self.x[:, self.own] / np.exp(theta[self.own])
        outputscale, plane_var, noise_var = np.exp(theta[-3:])
        if self.radial.name == "rbf":
            kernel = weights = _rbf(scaled, scaled, outputscale)
            if self.others is not None:
                kernel *= np.exp(-0.5 * self.others.squares(theta))
        else:
            square = self._squares(theta, scaled)
            square.flat[:: len(square) + 1] = 0.0
            kernel, weights = (outputscale * part for part in self.radial.parts(square, self._shape(theta)))
        covariance = plane_var * self.gram + kernel + _BIAS_VAR if self.plane else kernel.copy()
        if self.given is not None:
            covariance += math.exp(theta[-4]) * self.given_gram
        covariance.flat[:: len(covariance) + 1] += noise_var * self.relative_noise
        return covariance, kernel, weights

    def _gradient(
        self, theta: Float[Array, "T"], kernel: Float[Array, "N N"], weights: Float[Array, "N N"], solved: "_Solved"
    ) -> Float[Array, "T"]:
        """½ tr((ααᵀ − V⁻¹) ∂V/∂θ); V⁻¹ is stored as its lower triangle, so off-diagonal entries count twice."""
        alpha, lower = solved.alpha, solved.inverse()
        diagonal = lower.diagonal()
        outputscale, plane_var, noise_var = np.exp(theta[-3:])
        scaled = self.x[:, self.own] / np.exp(theta[self.own])
        gradient = np.zeros_like(theta)
        gradient[-1] = 0.5 * noise_var * ((alpha**2 - diagonal) @ self.relative_noise)
        if self.plane:
            traced = 2 * np.vdot(lower, self.gram) - diagonal @ self.gram.diagonal()
            gradient[-2] = 0.5 * plane_var * (np.square(alpha @ self.x).sum() - traced)
        if self.given is not None:
            traced = 2 * np.vdot(lower, self.given_gram) - diagonal @ self.given_gram.diagonal()
            gradient[-4] = 0.5 * math.exp(theta[-4]) * (np.square(alpha @ self.given).sum() - traced)
        if weights is not kernel:
            # Pairs of a row with itself have no part in what follows, and a Matérn 1/2 has an infinite weight there.
            weights.flat[:: len(weights) + 1] = 0.0
        product = lower * weights
        on_diagonal = outputscale * diagonal if weights is kernel else np.zeros(len(diagonal))
        rows = product.sum(0) + product.sum(1) - on_diagonal
        weighted = weights @ alpha
        if weights is kernel:
            gradient[-3] = 0.5 * (alpha @ weighted - rows.sum())
        else:
            gradient[-3] = _traced(alpha, lower, kernel)
        if self.radial.shape_slope is not None:
            slope = self.radial.shape_slope(self._squares(theta, scaled), self._shape(theta))
            gradient[self.num_inputs] = outputscale * _traced(alpha, lower, slope)
        # Σ_ij G_ij (z_i − z_j)²/2 = Σ_i z_i² Σ_j G_ij − zᵀ G z for G = (ααᵀ − V⁻¹) ∘ weights.
        turned = alpha[:, None] * scaled
        quadratic = (turned * (weights @ turned)).sum(0) - 2 * (scaled * (product @ scaled)).sum(0)
        quadratic += on_diagonal @ scaled**2
        gradient[self.own] = (alpha * weighted - rows) @ scaled**2 - quadratic
        if self.others is not None:  # the slope of their common factor, in equal parts
            slope = _traced(alpha, lower, weights * self.others.squares(theta))
            gradient[self.others.places] = slope / len(self.others.places)
        return gradient

    def _squares(self, theta: Float[Array, "T"], scaled: Float[Array, "N K"]) -> Float[Array, "N N"]:
        """Squared distances, for own inputs that are scaled already."""
        square = _squares(scaled, scaled)
        return square if self.others is None else square + self.others.squares(theta)

    def leave_one_out(self, theta: Float[Array, "T"]) -> tuple[Float[Array, "N"], Float[Array, "N"]]:
        """y − m and the variance of each row given all others."""
        solved = self._solved(theta)
        diagonal = solved.inverse().diagonal()
        return solved.alpha / diagonal, 1 / diagonal

    def coefficients(self, theta: Float[Array, "T"]) -> Float[Array, "K"]:
        """The posterior mean of the coefficients of other outputs, c Zᵀ V⁻¹ y."""
        assert self.given is not None
        result: Array = math.exp(theta[-4]) * (self._solved(theta).alpha @ self.given)
        return result

    def mean(self, theta: Float[Array, "T"], at: Float[Array, "M D"]) -> Float[Array, "M"]:
        """The posterior mean of the linear mean plus f."""
        solved = self._solved(theta)
        lengthscale, (outputscale, plane_var, _) = np.exp(theta[: self.num_inputs]), np.exp(theta[-3:])
        scaled = at / lengthscale, self.x / lengthscale
        cross = _kernel(self.radial, *scaled, outputscale, self._shape(theta))
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
        restricted = self._restricted(theta)[0] if self.is_wide else self
        hessian = self._derivative(lambda moved: restricted._loss(moved)[1] @ along, theta)
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
        num_inputs, axes = self.num_inputs, np.eye(len(theta))
        if num_inputs <= MOST_INPUTS:
            return axes[:, self.learnt]
        order = np.argsort(theta[:num_inputs], kind="stable")
        others = axes[:, order[MOST_INPUTS:]].sum(1) / math.sqrt(num_inputs - MOST_INPUTS)
        own = np.concatenate([order[:MOST_INPUTS], np.flatnonzero(self.learnt[num_inputs:]) + num_inputs])
        return np.column_stack([axes[:, own], others])

    def _solved(self, theta: Float[Array, "T"]) -> "_Solved":
        solved = _Solved.of(self._covariance(theta)[0], self.y)
        if solved is None:
            raise NumericalError(
                "The covariance of the rows must be positive definite; it is not. Remove copies of rows."
            )
        return solved


@dataclass(frozen=True)
class _OtherInputs:
    """Inputs whose lengthscales have fixed ratios: squared distances for one of them, and the first log lengthscale."""

    places: Int[IntArray, "L"]
    unit: Float[Array, "N N"]
    log_length: float

    def squares(self, theta: Float[Array, "T"]) -> Float[Array, "N N"]:
        """Squared distances at these hyperparameters."""
        result: Array = math.exp(2 * (self.log_length - theta[self.places[0]])) * self.unit
        return result


@dataclass
class _Solved:
    """V = L Lᵀ with α = V⁻¹y."""

    factor: Float[Array, "N N"]
    alpha: Float[Array, "N"]

    @staticmethod
    def of(covariance: Float[Array, "N N"], y: Float[Array, "N"]) -> "_Solved | None":
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


def _kernel(
    radial: Radial, z: Float[Array, "N D"], other: Float[Array, "M D"], outputscale: float, shape: float | None
) -> Float[Array, "N M"]:
    """s k(‖z − z′‖²)."""
    if radial.name == "rbf":
        return _rbf(z, other, outputscale)
    result: Array = outputscale * radial.value(_squares(z, other), shape)
    return result


def _squares(z: Float[Array, "N D"], other: Float[Array, "M D"]) -> Float[Array, "N M"]:
    """‖z − z′‖²."""
    result: Array = -2 * (z @ other.T)
    result += np.square(z).sum(1)[:, None]
    result += np.square(other).sum(1)
    return np.maximum(result, 0.0, out=result)


def _traced(alpha: Float[Array, "N"], lower: Float[Array, "N N"], slope: Float[Array, "N N"]) -> float:
    """½ tr((ααᵀ − V⁻¹) S) for a symmetric S and the lower triangle of V⁻¹."""
    traced = 2 * np.vdot(lower, slope) - lower.diagonal() @ slope.diagonal()
    return 0.5 * float(alpha @ (slope @ alpha) - traced)


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


def theta_of(gp: ExactGP) -> Float[Array, "T"]:
    plane_var = gp.plane_var or 1.0  # unused without a linear mean
    shape = [] if gp.shape is None else [gp.shape]
    return np.log([*gp.lengthscale, *shape, gp.outputscale, plane_var, gp.noise_var])
