"""Exact GPs, one for each output: hyperparameters by L-BFGS on the log evidence, from a wide grid of starts.

With few rows this is all the training a GP needs; with many, a subset of rows gives the start of training.
"""

import math
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits

from mogul._typing import Array, IntArray
from mogul.core.radial import RADIALS, Radial
from mogul.training.evidence import Evidence, ExactGP, theta_of

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
# A linear mean from the beginning would hide inputs with a nonlinear effect, so it is added to the optimum without it;
# another optimum must have a log evidence larger by this amount.
_PLANE_GAIN = 2.0
# Largest gap in log evidence at which two optima are compared by the posterior volumes around them.
_MOST_VOLUME, _SAME = 40.0, 0.02


def fit_exact_gp(
    x: Float[Array, "N D"],
    y: Float[Array, "N"],
    rng: np.random.Generator,
    relative_noise: Float[Array, "N"] | None = None,
    *,
    plane: bool = True,
    rough: bool = False,
    kernel: str = "rbf",
    near: ExactGP | None = None,
) -> ExactGP:
    """The exact GP of one output with the largest log evidence found.

    Args:
        x: standardised inputs.
        y: the standardised output.
        rng: draws the subsets.
        relative_noise: relative noise variance of each row; ones by default.
        plane: whether a linear mean is allowed.
        rough: whether to search with few rows.
        kernel: the name of a radial kernel.
        near: a GP to climb from, with this or another kernel, in place of a search.

    Example:
        >>> x = np.linspace(-1.7, 1.7, 100)[:, None]
        >>> gp = fit_exact_gp(x, np.sin(8 * x[:, 0]), np.random.default_rng(0))
        >>> bool(0.1 < gp.lengthscale[0] < 0.5)
        True
    """
    relative_noise = np.ones(len(y)) if relative_noise is None else relative_noise
    num_rows = _ROUGH_ROWS if rough else CLIMBED_ROWS
    search = _Search(x, y, relative_noise, rng.permutation(len(y)), num_rows, RADIALS[kernel])
    # One thread: for hundreds of products of small matrices, threads cost more than they save.
    with threadpool_limits(1, user_api="blas"):
        return search.result(search.best(plane=plane) if near is None else search.near(near, plane=plane), plane)


def climbed_evidence(
    gp: ExactGP,
    x: Float[Array, "N D"],
    y: Float[Array, "N"],
    relative_noise: Float[Array, "N"],
    kernel: str,
    num_steps: int,
) -> ExactGP:
    """A GP with another kernel near this one's optimum, by a short climb: to compare their log evidences.

    >>> x = np.linspace(-1.7, 1.7, 60)[:, None]
    >>> y, gp = np.abs(x[:, 0]) - 0.85, ExactGP(np.ones(1), 1.0, 0.0, 0.01, 0.0)
    >>> smooth, rough = (climbed_evidence(gp, x, y, np.ones(60), name, 20) for name in ("rbf", "matern32"))
    >>> rough.log_evidence > smooth.log_evidence
    True
    """
    evidence = Evidence(x, y, relative_noise, plane=bool(gp.plane_var), radial=RADIALS[kernel])
    with threadpool_limits(1, user_api="blas"):
        theta, value = evidence.climb(evidence.start_near(gp), num_steps)
    return evidence.gp(theta, value)


def leave_one_out(
    gp: ExactGP, x: Float[Array, "N D"], y: Float[Array, "N"], relative_noise: Float[Array, "N"] | None = None
) -> tuple[Float[Array, "N"], Float[Array, "N"]]:
    """Residual and variance of each row predicted from all others: y − m = α/d and 1/d for d the diagonal of V⁻¹.

    >>> x = np.linspace(-1.7, 1.7, 40)[:, None]
    >>> residual, var = leave_one_out(ExactGP(np.ones(1), 1.0, 0.0, 0.01, 0.0), x, np.sin(x[:, 0]))
    >>> bool(np.abs(residual).max() < 0.1)
    True
    """
    relative_noise = np.ones(len(y)) if relative_noise is None else relative_noise
    with threadpool_limits(1, user_api="blas"):
        return Evidence.of(gp, x, y, relative_noise).leave_one_out(theta_of(gp))


def hyperparameter_spread(
    gp: ExactGP,
    x: Float[Array, "N D"],
    y: Float[Array, "N"],
    relative_noise: Float[Array, "N"],
    at: Float[Array, "M D"],
    rng: np.random.Generator,
    times: float = 1.0,
) -> Float[Array, "M U"]:
    """C with C Cᵀ = J Σ Jᵀ: the covariance at these points due to uncertain hyperparameters θ.

    J is the Jacobian of the posterior mean, Σ the inverse Hessian of the log evidence at its maximum: the Laplace
    approximation of p(θ | y) (Kass & Steffey 1989). Without it intervals are too narrow with few rows or far from them.
    Each of the rows stands for several (`times`).

    >>> x = np.linspace(-1.7, 1.7, 40)[:, None]
    >>> y, at, rng = x[:, 0] ** 2 - 1, np.array([[0.0], [4.0]]), np.random.default_rng(0)
    >>> spread = hyperparameter_spread(fit_exact_gp(x, y, rng), x, y, np.ones(40), at, rng)
    >>> bool(np.linalg.norm(spread[1]) > 10 * np.linalg.norm(spread[0]))
    True
    """
    some = rng.permutation(len(y))[:CLIMBED_ROWS] if len(y) > CLIMBED_ROWS else np.arange(len(y))
    evidence = Evidence.of(gp, x[some], y[some], relative_noise[some])
    return evidence.spread(theta_of(gp), at, len(some) / (times * len(y)))


@dataclass
class _Search:
    """Starts on a grid, ranked on few rows, climbed on more, refined on most."""

    x: Float[Array, "N D"]
    y: Float[Array, "N"]
    relative_noise: Float[Array, "N"]
    order: Int[IntArray, "N"]
    climbed_rows: int
    radial: Radial

    def near(self, gp: ExactGP, *, plane: bool) -> Float[Array, "T"]:
        """The optimum next to this GP's, be its kernel another."""
        num_rows = max(self.climbed_rows, REFINED_ROWS) if len(self.y) > self.climbed_rows else self.climbed_rows
        evidence = self._evidence(num_rows, plane=plane)
        return evidence.climb(evidence.start_near(gp), _SHORT)[0]

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
    def _relevant(evidence: "Evidence", theta: Float[Array, "T"], place: int) -> tuple[float, int, Float[Array, "T"]]:
        """The best log evidence with this input relevant too, the input, and the start."""
        tried = [
            evidence.moved(evidence.moved(theta, place, math.log(length)), -1, math.log(noise))
            for length in _FORWARD_LENGTHSCALES
            for noise in _FORWARD_NOISES
        ]
        value, start = max(((evidence.value(start), start) for start in tried), key=itemgetter(0))
        return value, place, start

    @staticmethod
    def _rescanned(evidence: "Evidence", theta: Float[Array, "T"], value: float) -> tuple[Float[Array, "T"], float]:
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
        evidence: "Evidence", found: list[tuple[Float[Array, "T"], float]]
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

    def _evidence(self, num_rows: int, *, plane: bool, weak: bool = False) -> "Evidence":
        if len(self.y) <= num_rows:
            return Evidence(self.x, self.y, self.relative_noise, plane=plane, weak=weak, radial=self.radial)
        some = self.order[:num_rows]
        rows = self.x[some], self.y[some], self.relative_noise[some]
        return Evidence(*rows, plane=plane, weak=weak, radial=self.radial)

    def result(self, theta: Float[Array, "T"], plane: bool) -> ExactGP:
        """The GP, with its variance inflated by the uncertainty of the hyperparameters."""
        evidence = self._evidence(self.climbed_rows, plane=plane)
        gp = evidence.gp(theta, evidence.value(theta))
        return gp.inflated(evidence.inflation(theta, len(evidence.y) / len(self.y)))
