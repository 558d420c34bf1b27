"""Start of a model from exact GPs: linear mean, inducing points, kernels, posteriors and noise."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mogul._typing import Array, IntArray
from mogul.data import Batch
from mogul.heads import BayesianMixing, Identity
from mogul.means.linear import SMALLEST_RESIDUAL, LinearOutputMean
from mogul.means.plane import PlaneUncertainty, generalised_least_squares
from mogul.models.families import AUTO
from mogul.models.model import Model
from mogul.priors import IndependentGPs
from mogul.terminal import Bar, counted
from mogul.training.evidence import ExactGP
from mogul.training.exact import REFINED_ROWS, climbed_evidence, hyperparameter_spread, leave_one_out
from mogul.training.kernel_choice import FittedOutput, KernelChoice
from mogul.training.part_starts import ExactSignal, rank_of, start_parts, widen_posterior
from mogul.training.residuals import REWEIGHTED, RobustGP, fit_normal_gp, fit_robust_gp

# Reference rows for the uncertainty of the linear mean; more rows hardly change it.
_PLANE_ROWS = 400
# Inducing points are added until the unexplained variance lowers each output's bound by less than this, in nats.
_BOUND_LOSS = 0.05
_CANDIDATES = 5000  # rows that may become inducing points
_RESIDUAL_STEPS = 60  # of L-BFGS, for GPs of what a linear mean leaves


@dataclass(frozen=True)
class ExactStart:
    """An exact GP for each output, fitted to the rows (or some of them) where it is observed.

    Args:
        gps: one for each output.
        batch: the standardised rows, in double precision.
        mean: their linear means with uncertainty; None if not allowed.
        relative_noise: noise variance of each row relative to its output's: above 1 for outliers.
        dof: degrees of freedom of each output's noise; None if Normal.
        varies: whether the noise of each output depends on the input.
        seed: seed of random subsets.
        choice: what kernel="auto" tried; None where the kernel was given.
        times: how many rows each of these stands for.
    """

    gps: tuple[ExactGP, ...]
    batch: Batch
    mean: LinearOutputMean | None
    relative_noise: Float[Tensor, "N P"]
    dof: tuple[float | None, ...]
    varies: tuple[bool, ...]
    seed: int
    choice: KernelChoice | None = None
    times: float = 1.0

    @staticmethod
    def of(
        batch: Batch,
        seed: int,
        *,
        plane: bool,
        robust: bool = True,
        rough: bool = False,
        reweighted: int = REWEIGHTED,
        kernel: str = "rbf",
        known: Sequence["ExactStart"] = (),
        near: "ExactStart | None" = None,
        times: float = 1.0,
        bar: Bar | None = None,
    ) -> "ExactStart":
        """Fit them.

        Args:
            batch: standardised rows.
            seed: seed of random subsets.
            plane: whether a linear mean is allowed.
            robust: whether outliers may have less weight; else noise is Normal.
            rough: whether to search with few rows.
            reweighted: how often GPs are fitted anew with less weight for outliers.
            kernel: the name of a radial kernel, the same for all outputs, or "auto".
            known: exact GPs of the same inputs, fitted before; those of outputs with the same values are taken over,
                and so is what "auto" chose.
            near: exact GPs of nearly the same rows, to climb from in place of a search.
            times: how many rows each of these stands for.
            bar: shows how far it is.
        """
        # Copies: rounding of products depends on memory alignment, which NumPy does not fix.
        precise = [part.to(torch.float64, copy=True) for part in (batch.x, batch.y)]
        rows = Batch(precise[0], precise[1], batch.observed, batch.index)
        rng = np.random.default_rng(seed)
        fit = partial(fit_robust_gp, rough=rough, reweighted=reweighted) if robust else fit_normal_gp
        outputs = [_Output.of(rows, output) for output in range(rows.y.shape[1])]
        bar = bar or Bar(0)
        choice = next((other.choice for other in (*known, near) if other is not None), None)
        first = ("rbf" if choice is None else choice.kernel) if kernel == AUTO else kernel
        found = [
            _taken_over(known, rows, place, each)
            or fit(
                each.x,
                each.y,
                rng,
                each.known,
                plane=plane,
                kernel=first,
                near=None if near is None else near.gps[place],
            )
            for place, each in counted(bar, "exact GP", outputs)
        ]
        if kernel == AUTO and choice is None:
            bar.stage("choice of the kernel")
            tried = [each.fitted(one) for each, one in zip(outputs, found, strict=True)]
            choice = KernelChoice.of(tried, np.random.default_rng([seed, 1]))
            if choice.kernel != first:
                climbed = list(zip(outputs, choice.gps[choice.kernel], strict=True))
                found = [
                    fit(each.x, each.y, rng, each.known, plane=plane, kernel=choice.kernel, near=gp)
                    for _, (each, gp) in counted(bar, f"exact GP ({choice.kernel})", climbed)
                ]
        relative_noise = torch.ones_like(rows.y)
        for output, (each, one) in enumerate(zip(outputs, found, strict=True)):
            relative_noise[rows.observed[:, output], output] = torch.as_tensor(one.relative_noise[each.copies])
        gps, dof, varies = (tuple(getattr(one, part) for one in found) for part in ("gp", "dof", "varies"))
        mean = _plane(gps, rows, relative_noise, rng, times) if plane else None
        return ExactStart(gps, rows, mean, relative_noise, dof, varies, seed, choice, times)

    def left_out_residuals(self) -> Float[Array, "N P"]:
        """y − m of each row predicted from the others, in parts for many rows; 0 where y is missing."""
        rng, result = np.random.default_rng(self.seed), np.zeros(self.batch.y.shape)
        x, y, relative = self.batch.x.numpy(), self.batch.y.numpy(), self.relative_noise.numpy()
        for output, (gp, seen) in enumerate(zip(self.gps, self.batch.observed.numpy().T, strict=True)):
            order = rng.permutation(np.flatnonzero(seen))
            for part in np.array_split(order, math.ceil(len(order) / REFINED_ROWS)):
                result[part, output], _ = leave_one_out(gp, x[part], y[part, output], relative[part, output])
        return result

    @property
    def kernel(self) -> str:
        """The name of the kernel of all GPs."""
        return self.gps[0].family

    @property
    def noises(self) -> tuple[str, ...]:
        """The kinds of noise suggested by leave-one-out residuals, simplest first."""
        simple = "student-t" if self._is_heavy else "constant"
        return (simple, self.varying_noise) if any(self.varies) else (simple,)

    @property
    def varying_noise(self) -> str:
        """The kind of noise that depends on x, with heavy tails if residuals have them."""
        return "gp-student-t" if self._is_heavy else "gp"

    @property
    def _is_heavy(self) -> bool:
        return any(dof is not None for dof in self.dof)

    @property
    def scale(self) -> Float[Tensor, "P"]:
        """The head's unit for each output."""
        return torch.ones(len(self.gps), dtype=torch.float64) if self.mean is None else self.mean.scale.double()

    def inducing_points(self, x: Float[Tensor, "N D"], most: int) -> Float[Tensor, "M D"]:
        """Rows of x that explain all outputs, at most `most`: see `spread_out`."""
        some = x.double()
        if len(some) > _CANDIDATES:
            some = some[np.random.default_rng(self.seed).permutation(len(some))[:_CANDIDATES]]
        return some[torch.as_tensor(spread_out(self.gps, some.numpy(), most))]

    def plane_of(self, mean: LinearOutputMean, num_rows: int) -> LinearOutputMean:
        """The least-squares linear mean of all rows, with its uncertainty from these exact GPs."""
        gps = self._of_residuals(mean)
        # Each of these rows represents several. Where a GP hides the linear mean, more rows add little information, and
        # this is overconfident far away (two fifths of the standard deviation at worst). Less noise per row instead
        # saturates correctly, but these few rows leave gaps that all rows do not have: on Kuka it costs 3.7 nats of
        # held-out LL.
        mean.uncertainty = PlaneUncertainty.of(
            self.batch.x,
            self.batch.observed,
            *_hyperparameters(gps),
            self.relative_noise * _tensor(gp.noise_var for gp in gps),
            torch.ones(len(gps), self.batch.x.shape[1] + 1),
            times=num_rows / len(self.batch),
            shape=_shapes(gps),
            kernel=self.kernel,
        )
        return mean

    def _of_residuals(self, mean: LinearOutputMean) -> list[ExactGP]:
        """GPs of what a linear mean leaves, by a climb from these.

        Fitted to the outputs themselves, a GP with long lengthscales and a large variance may be a second linear mean.
        Then R(x) of `PlaneUncertainty` is a difference of large numbers: in single precision, on outputs that are
        linear to 1e-3, the variance was 1e5 times too large.
        """
        residual = replace(self.batch, y=(self.batch.y - mean.forward(self.batch.x)) / mean.scale)
        found = []
        for output, (gp, unit) in enumerate(zip(self.gps, mean.scale.tolist(), strict=True)):
            each = _Output.of(residual, output)
            start = replace(gp, outputscale=0.5, plane_var=0.0, noise_var=0.5)
            left = climbed_evidence(start, each.x, each.y, each.known, gp.family, _RESIDUAL_STEPS)
            left = replace(left, outputscale=unit**2 * left.outputscale, noise_var=unit**2 * left.noise_var)
            found.append(left)
        return found

    def solves(self, model: Model) -> bool:
        """Whether the model starts at its optimum: one GP per output, and independent noise."""
        features, mixing, noise = model.head.features, model.head.mixing, model.head.noise
        independent = isinstance(features, Identity) and isinstance(mixing, BayesianMixing)
        one_each = isinstance(model.prior, IndependentGPs) and model.prior.num_latents == len(self.gps)
        return independent and one_each and noise.solved_by_exact_gps

    def apply(self, model: Model, generator: torch.Generator) -> None:
        """Set the parameters of a model from the exact GPs, part by part: see `part_starts`."""
        model.head.noise.start_tails(self.dof)
        start_parts(model, self._signal(rank_of(model)), generator)

    def widen(self, model: Model) -> None:
        """Add the uncertainty of the hyperparameters to q(u) of a solved model."""
        assert isinstance(model.prior, IndependentGPs)
        points = model.prior.inducing_points.detach().double().numpy()
        rng = np.random.default_rng(self.seed)
        columns = []
        for gp, seen, y, relative in zip(
            self.gps, self.batch.observed.T, self.batch.y.T, self.relative_noise.T, strict=True
        ):
            x, own = self.batch.x[seen].numpy(), y[seen].numpy()
            places, known, _ = distinct_rows(x, own)
            relative_noise = known * relative[seen].numpy()[places]
            spread = hyperparameter_spread(gp, x[places], own[places], relative_noise, points, rng, self.times)
            columns.append(spread)
        widen_posterior(model.prior, torch.as_tensor(np.stack(columns)) / self.scale.reshape(-1, 1, 1))

    def _signal(self, rank: int) -> ExactSignal:
        """The signal in the units of the head."""
        x, observed = self.batch.x, self.batch.observed
        target = self.batch.y if self.mean is None else self.mean.residual(self.batch.y, x)
        lengthscale, outputscale = _hyperparameters(self.gps)
        unit = self.scale.square()
        noise_var = _tensor(gp.noise_var for gp in self.gps) / unit
        scales = lengthscale, outputscale / unit, _shapes(self.gps)
        return ExactSignal.of(x, target, observed, noise_var, self.relative_noise, *scales, rank)


@dataclass(frozen=True)
class _Output:
    """The distinct rows where an output is observed, their relative noise variances, and the row of each copy."""

    x: Float[Array, "K D"]
    y: Float[Array, "K"]
    known: Float[Array, "K"]
    copies: Int[IntArray, "N"]

    @staticmethod
    def of(rows: Batch, output: int) -> "_Output":
        seen = rows.observed[:, output]
        x, y = rows.x[seen].numpy(), rows.y[seen, output].numpy()
        places, known, copies = distinct_rows(x, y)
        return _Output(x[places], y[places], known, copies)

    def fitted(self, found: RobustGP) -> FittedOutput:
        return FittedOutput(self.x, self.y, self.known * found.relative_noise, found.gp)


def _hyperparameters(gps: Sequence[ExactGP]) -> tuple[Float[Tensor, "P D"], Float[Tensor, "P"]]:
    lengthscale = torch.as_tensor(np.stack([gp.lengthscale for gp in gps]))
    return lengthscale, _tensor(gp.outputscale for gp in gps)


def _taken_over(known: Sequence[ExactStart], rows: Batch, output: int, own: _Output) -> RobustGP | None:
    """The GP of the same output, if it was fitted before."""
    for other in known:
        if torch.equal(other.batch.y[:, output], rows.y[:, output]):
            seen = rows.observed[:, output]
            relative = np.ones(len(own.y))
            relative[own.copies] = other.relative_noise[seen, output].numpy()
            return RobustGP(other.gps[output], relative, other.dof[output], other.varies[output])
    return None


def distinct_rows(
    x: Float[Array, "N D"], y: Float[Array, "N"]
) -> tuple[Int[IntArray, "K"], Float[Array, "K"], Int[IntArray, "N"]]:
    """Indices of distinct rows, their relative noise variances, and the distinct row of each row.

    Copies count as weight: c copies have 1/c of the noise variance. They are no evidence of small noise.

    >>> places, relative_noise, copies = distinct_rows(np.array([[1.0], [0.0], [1.0]]), np.array([5.0, 3.0, 5.0]))
    >>> places.tolist(), relative_noise.tolist(), copies.tolist()
    ([0, 1], [0.75, 1.5], [0, 1, 0])
    """
    _, first, inverse, counts = np.unique(
        np.column_stack([x, y]), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    return first[order], counts.mean() / counts[order], np.argsort(order)[inverse.ravel()]


def spread_out(gps: Sequence[ExactGP], x: Float[Array, "N D"], most: int) -> Int[IntArray, "M"]:
    """Rows as inducing points: the row least explained by those chosen so far, cycling over outputs.

    This is pivoted Cholesky of each kernel matrix (Burt et al. 2020). It ends when the remaining trace lowers every
    output's bound by less than a twentieth of a nat, or at `most` rows.

    >>> gp = ExactGP(np.array([10.0]), 1.0, 0.0, 0.1, 0.0)
    >>> len(spread_out([gp], np.linspace(-1, 1, 200)[:, None], most=100)) < 10
    True
    """
    pivoted = [_Pivoted.of(gp, x, most) for gp in gps]
    chosen: list[int] = []
    while len(chosen) < min(most, len(x)):
        worst = max(pivoted, key=lambda one: one.loss)
        place = int(worst.left.argmax())
        if worst.loss < _BOUND_LOSS or worst.left[place] <= 1e-10 * worst.gp.outputscale:
            break
        chosen.append(place)
        for one in pivoted:
            one.add(place)
    return np.sort(np.array(chosen or [0]))


@dataclass
class _Pivoted:
    """Partial Cholesky factor of an output's kernel matrix, for the rows chosen so far."""

    gp: ExactGP
    x: Float[Array, "N D"]
    columns: Float[Array, "M N"]
    left: Float[Array, "N"]  # unexplained part of the diagonal
    size: int = 0

    @staticmethod
    def of(gp: ExactGP, x: Float[Array, "N D"], most: int) -> "_Pivoted":
        return _Pivoted(gp, x, np.zeros((min(most, len(x)), len(x))), np.full(len(x), gp.outputscale))

    @property
    def loss(self) -> float:
        """Loss of the bound: the remaining trace over twice the noise variance."""
        return float(self.left.sum()) / (2 * self.gp.noise_var)

    def add(self, place: int) -> None:
        """Add one row to the factor, unless it is already explained."""
        pivot = self.left[place]
        if pivot > 1e-10 * self.gp.outputscale:
            known = self.columns[: self.size]
            column = self.gp.kernel(self.x, self.x[place : place + 1])[:, 0] - known[:, place] @ known
            self.columns[self.size] = column / math.sqrt(pivot)
            self.left = np.maximum(self.left - self.columns[self.size] ** 2, 0.0)
            self.size += 1
        self.left[place] = 0.0


def _plane(
    gps: Sequence[ExactGP],
    rows: Batch,
    relative_noise: Float[Tensor, "N P"],
    rng: np.random.Generator,
    times: float,
) -> LinearOutputMean:
    """Posterior of all linear means by generalised least squares; the head's unit is the residuals' scale."""
    # Rows with rarely observed outputs come first, so that those outputs' linear means have enough rows.
    rarest = torch.where(rows.observed, rows.observed.sum(0), len(rows.x)).amin(1).numpy()
    order = rng.permutation(len(rows.x))
    some = torch.as_tensor(order[np.argsort(rarest[order], kind="stable")][:_PLANE_ROWS])
    prior_var = [[gp.plane_var] * rows.x.shape[1] + [gp.bias_var] for gp in gps]
    weights, bias, uncertainty = generalised_least_squares(
        rows.x[some],
        rows.y[some],
        rows.observed[some],
        torch.as_tensor(np.stack([gp.lengthscale for gp in gps])),
        _tensor(gp.outputscale for gp in gps),
        _tensor(gp.noise_var for gp in gps) * relative_noise[some],
        torch.tensor(prior_var, dtype=torch.float64),
        shape=_shapes(gps),
        kernel=gps[0].family,
        times=1.0 if times == 1.0 else times * len(rows.x) / len(some),
    )
    left = torch.where(rows.observed, rows.y - rows.x @ weights - bias, 0.0)
    scale = (left.square().sum(0) / rows.observed.sum(0).clamp_min(1)).sqrt().clamp_min(SMALLEST_RESIDUAL)
    return LinearOutputMean(weights, bias, scale, uncertainty)


def _shapes(gps: Sequence[ExactGP]) -> Float[Tensor, "P"] | None:
    shapes = [gp.shape for gp in gps if gp.shape is not None]
    return _tensor(shapes) if shapes else None


def _tensor(values: Iterable[float]) -> Float[Tensor, "P"]:
    return torch.tensor(list(values), dtype=torch.float64)
