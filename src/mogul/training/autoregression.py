"""Autoregressive outputs: which outputs are modelled less a linear function of others, by the evidence of exact GPs.

Outputs come in an order, those observed more often first. The log evidence of an output's exact GP is compared with
that of the same GP plus a linear function of the outputs before it, whose coefficients are N(0, c) with c learnt:

    log p(y_k | x)        log p(y_k | x, y_1 … y_{k−1})

Both integrate over functions and coefficients, and are densities of the same values. The posterior mean of the
coefficients makes the chain. It is the linear form of GPAR (Requeima et al. 2019). With a chain, noise is independent.

By default only outputs that are missing where others are known are looked at, as someone wants those given these; what
they are related to is known where they are missing.
"""

import logging
import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from threadpoolctl import threadpool_limits

from mogul._typing import Array, BoolArray, IntArray
from mogul.core.radial import RADIALS
from mogul.core.transforms import Chain
from mogul.data import Scaling
from mogul.training.evidence import Evidence, theta_of
from mogul.training.exact import CLIMBED_ROWS, REFINED_ROWS
from mogul.training.exact_start import ExactStart

# The least gain in log evidence. Outputs without relation lose 2 to 9 nats.
_LEAST_GAIN = 5.0
# An output is incomplete if it is missing in so many rows with other outputs, and in this share of all rows.
_FEWEST_GAPS, _LEAST_GAPS = 5, 0.02
# An output keeps at least this share of its rows: others of the chain may be missing there. By default these are known
# in nearly all rows where it is known, and in nearly all where it is missing.
_KEPT_ROWS, _NEARLY_ALL = 0.75, 0.9
_FEWEST_ROWS = 20
_STEPS, _MORE_STEPS = 20, 40
# Variance of coefficients at the start of a climb; shares of what least squares leaves, for the signal and the noise.
_START, _SHARE = 0.2, 0.5
# What is left of an output, in its own units; with less, joint densities would be singular.
_LEAST_LEFT = 1e-3

_log = logging.getLogger(__name__)


def find_chain(exact: ExactStart, scaling: Scaling, *, always: bool) -> Chain | None:
    """The chain of outputs of these rows; None if no output has a relation to others.

    Args:
        exact: exact GPs of the outputs.
        scaling: of their rows.
        always: whether all outputs are in the chain, even if the evidence is against it.
    """
    y, observed = exact.batch.y.numpy(), exact.batch.observed.numpy()
    weights = np.zeros((y.shape[1], y.shape[1]))
    order = np.argsort(-observed.sum(0), kind="stable")
    wanted = incomplete_outputs(observed) | always
    for place, output in enumerate(order.tolist()):
        if not wanted[output]:
            continue
        others, rows = _usable(order[:place], output, y, observed, always=always)
        if len(others) and len(rows) >= _FEWEST_ROWS:
            found = _Related.of(exact, output, others, rows)
            _log.info("output %d given %s: log evidence %+.1f", output, others, found.gain)
            if always or found.gain > _LEAST_GAIN:
                weights[output, others] = found.coefficients
    scale = scaling.modelled.scale
    return Chain(weights * scale[:, None] / scale) if weights.any() else None


def incomplete_outputs(observed: Bool[BoolArray, "N P"]) -> Bool[BoolArray, "P"]:
    """Outputs that are missing in enough rows where others are known.

    >>> observed = np.ones((100, 3), dtype=bool)
    >>> observed[:4, 0] = observed[:5, 1] = False
    >>> incomplete_outputs(observed)
    array([False,  True, False])
    """
    result: BoolArray = _gaps(observed).sum(0) >= max(_FEWEST_GAPS, _LEAST_GAPS * len(observed))
    return result


def _gaps(observed: Bool[BoolArray, "N P"]) -> Bool[BoolArray, "N P"]:
    result: BoolArray = ~observed & observed.any(1, keepdims=True)
    return result


def _usable(
    before: Int[IntArray, "_"],
    output: int,
    y: Float[Array, "N P"],
    observed: Bool[BoolArray, "N P"],
    *,
    always: bool,
) -> tuple[Int[IntArray, "K"], Int[IntArray, "R"]]:
    """Outputs that are observed in most rows of this one, the most correlated first to be taken, and these rows.

    Unless all outputs are asked for, they are observed where this one is missing, too.
    """
    rows, gaps, kept = observed[:, output], _gaps(observed)[:, output], list[int]()
    least, least_gaps = (
        (_KEPT_ROWS * rows.sum(), 0.0) if always else (_NEARLY_ALL * rows.sum(), _NEARLY_ALL * gaps.sum())
    )
    for other in sorted(before.tolist(), key=lambda other: -_correlation(y, observed, output, other)):
        both, left = (part & observed[:, other] for part in (rows, gaps))
        if both.sum() >= least and left.sum() >= least_gaps and y[both, other].std() > 0:
            rows, gaps, kept = both, left, [*kept, other]
    _, first = np.unique(np.column_stack([y[:, [output, *kept]], rows]), axis=0, return_index=True)
    distinct = np.zeros(len(rows), dtype=bool)
    distinct[first] = True
    return np.array(sorted(kept), dtype=np.int64), np.flatnonzero(rows & distinct)


def _correlation(y: Float[Array, "N P"], observed: Bool[BoolArray, "N P"], output: int, other: int) -> float:
    both = observed[:, output] & observed[:, other]
    scale = math.sqrt(float(np.square(y[both, output]).sum() * np.square(y[both, other]).sum()))
    return abs(float(y[both, output] @ y[both, other])) / scale if scale else 0.0


@dataclass(frozen=True)
class _Related:
    """Coefficients of other outputs, and the gain in log evidence."""

    coefficients: Float[Array, "K"]
    gain: float

    @staticmethod
    def of(exact: ExactStart, output: int, others: Int[IntArray, "K"], rows: Int[IntArray, "R"]) -> "_Related":
        """From two climbs, near the GP of the output alone and near what least squares leaves."""
        gp, x, y = exact.gps[output], exact.batch.x.numpy(), exact.batch.y.numpy()
        relative = exact.relative_noise.numpy()[:, output]
        order = np.random.default_rng([exact.seed, output]).permutation(rows)
        some, more = np.sort(order[:CLIMBED_ROWS]), np.sort(order[:REFINED_ROWS])

        def evidence(rows: Int[IntArray, "_"], columns: Float[Array, "_ K"] | None) -> Evidence:
            own, plane, radial = y[rows, output], bool(gp.plane_var), RADIALS[gp.family]
            return Evidence(x[rows], own, relative[rows], plane=plane, radial=radial, given=columns)

        with threadpool_limits(1, user_api="blas"):
            theta, alone = evidence(some, None).climb(theta_of(gp), _STEPS)
            together = evidence(some, y[some][:, others])
            starts = _starts(theta, y[some, output], y[some][:, others])
            found, value = max((together.climb(start, _MORE_STEPS) for start in starts), key=lambda pair: pair[1])
            coefficients = evidence(more, y[more][:, others]).coefficients(found)
        left = (y[more, output] - y[more][:, others] @ coefficients).std()
        shrunk = 1.0 if left >= _LEAST_LEFT * y[more, output].std() else 1 - _LEAST_LEFT
        return _Related(shrunk * coefficients, value - alone)


def _starts(theta: Float[Array, "T"], y: Float[Array, "R"], others: Float[Array, "R K"]) -> list[Float[Array, "_"]]:
    """Log hyperparameters of the GP alone with those of the coefficients; and those of what least squares leaves."""
    near = np.insert(theta, -3, math.log(_START))
    left = y - others @ np.linalg.lstsq(others, y, rcond=None)[0]
    var = max(_SHARE * float(np.mean(np.square(left))), 1e-6)
    fresh = near.copy()
    fresh[-3], fresh[-1] = math.log(max(var, 1e-4)), math.log(var)
    return [near, fresh]
