"""Kernels by name: kernel="auto", and starts of kernels that exact GPs have no formulas for.

"auto" takes the radial kernel with the largest log evidence of exact GPs, summed over outputs. For periodic and linear
kernels, sums, products and a user's own, hyperparameters maximise the log evidence of one exact GP for each output, by
automatic differentiation on some rows, from periods at peaks of periodograms and from lengthscales over decades. Models
are trained from there by steps.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from scipy.optimize import minimize
from torch import Tensor

from mogul import registry
from mogul._typing import Array
from mogul.core.radial import RADIALS
from mogul.data import Batch
from mogul.models.families import AUTO
from mogul.models.model import Model
from mogul.priors import DeepGPs, DeepKernel, IndependentGPs, ScaledPeriodic, ScaledRadial, kernel_by_name
from mogul.training.evidence import ExactGP
from mogul.training.exact import CLIMBED_ROWS, climbed_evidence
from mogul.training.part_starts import ExactSignal, rank_of, start_parts

# What kernel="auto" tries, simplest first, and the steps of each climb from the RBF's optimum.
KERNELS: tuple[str, ...] = ("rbf", "matern52", "matern32")
_CHOICE_STEPS = 20
# A rougher kernel needs a log evidence larger by this amount: draws of an RBF may give a Matérn kernel 2 nats more.
_LEAST_GAIN = 3.0


def is_named(kernel: object) -> bool:
    """Whether few rows give the start of training with this kernel: not with a GPyTorch object; checks names.

    >>> is_named(None), is_named("rbf+periodic"), is_named(object())
    (True, True, False)
    """
    if isinstance(kernel, str) and kernel != AUTO:
        registry.kernel_terms(kernel)
    return kernel is None or isinstance(kernel, str)


def has_exact_gps(kernel: object) -> bool:
    """Whether training with this kernel may end at exact GPs.

    >>> has_exact_gps(None), has_exact_gps("matern32"), has_exact_gps("rbf+periodic")
    (True, True, False)
    """
    return kernel is None or (isinstance(kernel, str) and (kernel == AUTO or kernel.strip() in RADIALS))


@dataclass(frozen=True)
class FittedOutput:
    """An output's rows, their relative noise variances, and the exact GP with an RBF that was fitted to them."""

    x: Float[Array, "N D"]
    y: Float[Array, "N"]
    relative_noise: Float[Array, "N"]
    gp: ExactGP


@dataclass(frozen=True)
class KernelChoice:
    """The GPs of all outputs for each kernel tried: near the RBF's optimum, by a short climb on the same rows.

    Example:
        >>> x = np.linspace(-1.7, 1.7, 60)[:, None]
        >>> output = FittedOutput(x, np.abs(x[:, 0]) - 0.85, np.ones(60), ExactGP(np.ones(1), 1.0, 0.0, 0.01, 0.0))
        >>> KernelChoice.of([output], np.random.default_rng(0)).kernel
        'matern52'
    """

    gps: dict[str, tuple[ExactGP, ...]]

    @staticmethod
    def of(
        outputs: Sequence[FittedOutput], rng: np.random.Generator, kernels: Sequence[str] = KERNELS
    ) -> "KernelChoice":
        """Climb with each kernel for each output, until one is worse than the one before, which is smoother."""
        some = [np.sort(rng.permutation(len(output.y))[:CLIMBED_ROWS]) for output in outputs]
        found = KernelChoice({})
        for kernel in kernels:
            gps = tuple(
                climbed_evidence(each.gp, each.x[rows], each.y[rows], each.relative_noise[rows], kernel, _CHOICE_STEPS)
                for each, rows in zip(outputs, some, strict=True)
            )
            found = KernelChoice({**found.gps, kernel: gps})
            if max(found.evidence, key=found.evidence.__getitem__) != kernel:
                break
        return found

    @property
    def evidence(self) -> dict[str, float]:
        """Log evidence of each kernel, the log prior of its hyperparameters included, summed over outputs."""
        return {kernel: sum(gp.log_evidence for gp in gps) for kernel, gps in self.gps.items()}

    @property
    def kernel(self) -> str:
        """The first, and smoothest, unless another is clearly better."""
        evidence = self.evidence
        first, best = next(iter(evidence)), max(evidence, key=evidence.__getitem__)
        return best if evidence[best] > evidence[first] + _LEAST_GAIN else first


# Starts: factors of lengthscales, ranks of the peak that periods are at, and noise variances.
_LENGTHS, _RANKS, _NOISES = (3.0, 1.0, 0.3, 0.1), 5, (1e-3, 0.1)
# Rows of the evidence; starts that are climbed from, and steps of each climb.
_ROWS, _CLIMBED, _STEPS = 250, 6, 40
# Scale of the Normal prior of each parameter around its start, and the range of log noise variances.
_PRIOR_SCALE, _NOISE_BOUNDS = 2.0, (math.log(1e-6), math.log(4.0))
_JITTER = 1e-7
# Rows and frequencies of a periodogram, frequencies for each cycle over the range, and the fewest cycles.
_PERIODOGRAM_ROWS, _MOST_FREQUENCIES, _OVERSAMPLED, _FEWEST_CYCLES = 1000, 4000, 10, 0.8
# An input repeats where its largest power is at least this many times what noise has; else it starts with this many
# times its range as the period: nothing repeats there.
_CLEAR, _NO_PERIOD = 3.0, 4.0


@dataclass(frozen=True)
class NamedStart:
    """A kernel for each output, in units of the head, and the variances of their noise.

    Example:
        >>> x = torch.linspace(-1.7, 1.7, 60, dtype=torch.float64)[:, None]
        >>> batch = Batch(x, torch.sin(12 * x), torch.ones(60, 1, dtype=torch.bool), torch.arange(60))
        >>> start = NamedStart.of("periodic", batch)
        >>> bool(abs(start.kernels[0].base_kernel.period_length.item() - 2 * math.pi / 12) < 0.01)
        True
    """

    kernels: tuple[Kernel, ...]
    noise_var: Float[Tensor, "P"]

    @staticmethod
    def of(name: str, residual: Batch) -> "NamedStart":
        """Fit each output's kernel to what the mean leaves of it, in units of the head."""
        found = []
        for output in range(residual.y.shape[1]):
            seen = residual.observed[:, output].nonzero().squeeze(1)
            x, y = (part.double() for part in (residual.x[seen], residual.y[seen, output]))
            found.append(_TorchEvidence.of(name, x, y).best())
        return NamedStart(tuple(kernel for kernel, _ in found), torch.tensor([var for _, var in found]).double())

    @torch.no_grad()
    def apply(self, model: Model, residual: Batch, generator: torch.Generator, *, posterior: bool) -> None:
        """Set the latent GPs' kernels, those of the outputs in turn, and if wanted all else, given few rows."""
        first = model.prior.layers[0] if isinstance(model.prior, DeepGPs) else model.prior
        if not isinstance(first, IndependentGPs):
            return
        kernel = first.kernel.kernel if isinstance(first.kernel, DeepKernel) else first.kernel
        own = [dict(each.named_parameters()) for each in self.kernels]
        for name, parameter in kernel.named_parameters():
            rows = torch.stack([each[name].reshape(-1) for each in own])
            count = parameter.numel() // rows.shape[1]
            parameter.copy_(rows[torch.arange(count) % len(rows)].reshape(parameter.shape))
        if posterior:
            start_parts(model, self._signal(residual, rank_of(model)), generator)

    def _signal(self, residual: Batch, rank: int) -> ExactSignal:
        """What the latent GPs are to explain; lengthscales are read by kernels that are radial, of a user's name."""
        x, y = residual.x.double(), residual.y.double()
        radial = [kernel for kernel in self.kernels if isinstance(kernel, ScaledRadial)]
        lengthscale = torch.ones(len(self.kernels), x.shape[1]).to(x)
        outputscale = torch.ones(len(self.kernels)).to(x)
        if radial:
            lengthscale = torch.cat(
                [kernel.base_kernel.lengthscale.reshape(1, -1).expand(1, x.shape[1]) for kernel in radial]
            )
            outputscale = torch.cat([kernel.outputscale.reshape(1) for kernel in radial])
        scales = lengthscale, outputscale, None
        return ExactSignal.of(x, y, residual.observed, self.noise_var, torch.ones_like(y), *scales, rank)


@dataclass
class _TorchEvidence:
    """log p(y | θ) + log p(θ) of an exact GP with any GPyTorch kernel; θ are its raw parameters and the log noise."""

    kernel: Kernel
    x: Float[Tensor, "N D"]
    y: Float[Tensor, "N"]
    periods: Float[Array, "R D"]

    @staticmethod
    def of(name: str, x: Float[Tensor, "N D"], y: Float[Tensor, "N"]) -> "_TorchEvidence":
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
        some = order[:_PERIODOGRAM_ROWS]
        columns, values = x[some].numpy(), y[some].numpy()
        kernel = kernel_by_name(name, x.shape[1], 1).double()
        repeats = any(isinstance(part, ScaledPeriodic) for part in kernel.modules())
        ranks = range(_RANKS if repeats else 1)
        periods = [[peak_period(column, values, rank) if repeats else 1.0 for column in columns.T] for rank in ranks]
        return _TorchEvidence(kernel, x[order[:_ROWS]], y[order[:_ROWS]], np.array(periods))

    def best(self) -> tuple[Kernel, float]:
        """The kernel of the best optimum, and its noise variance."""
        starts = sorted(((self._value(theta)[0], place, theta) for place, theta in enumerate(self._starts())))
        best = min(
            (
                minimize(
                    self._value,
                    theta,
                    jac=True,
                    method="L-BFGS-B",
                    bounds=self._bounds(theta),
                    options={"maxiter": _STEPS},
                    args=(theta,),
                )
                for _, _, theta in starts[:_CLIMBED]
            ),
            key=lambda found: float(found.fun),
        )
        self._set(best.x)
        return self.kernel, math.exp(best.x[-1])

    def _starts(self) -> Iterator[Float[Array, "T"]]:
        """Lengthscales over decades, periods at each peak, little noise and more."""
        first = self._theta(0.0)
        parts = list(self.kernel.modules())
        for length, periods, noise in itertools.product(_LENGTHS, self.periods, _NOISES):
            self._set(first)
            for part in parts:
                if isinstance(part, ScaledRadial):
                    part.base_kernel.lengthscale = length * part.base_kernel.lengthscale.detach()
                if isinstance(part, ScaledPeriodic):
                    like = part.base_kernel.raw_period_length
                    part.base_kernel.period_length = torch.as_tensor(periods).reshape(like.shape).to(like)
            yield self._theta(math.log(noise))
        self._set(first)

    def _parameters(self) -> list[Tensor]:
        return [parameter for parameter in self.kernel.parameters() if parameter.requires_grad]

    def _theta(self, log_noise: float) -> Float[Array, "T"]:
        flat = [parameter.detach().reshape(-1).numpy() for parameter in self._parameters()]
        return np.concatenate([*flat, [log_noise]])

    @torch.no_grad()
    def _set(self, theta: Float[Array, "T"]) -> None:
        place = 0
        for parameter in self._parameters():
            size = parameter.numel()
            parameter.copy_(torch.as_tensor(theta[place : place + size]).reshape(parameter.shape))
            place += size

    @staticmethod
    def _bounds(theta: Float[Array, "T"]) -> list[tuple[float | None, float | None]]:
        return [*((value - 8.0, value + 8.0) for value in theta[:-1]), _NOISE_BOUNDS]

    def _value(
        self, theta: Float[Array, "T"], start: Float[Array, "T"] | None = None
    ) -> tuple[float, Float[Array, "T"]]:
        """Minus the log evidence and its gradient; the prior is around the start."""
        self._set(theta)
        parameters, log_noise = self._parameters(), torch.tensor(theta[-1], requires_grad=True)
        covariance = self.kernel(self.x).to_dense().reshape(len(self.x), len(self.x))
        jitter = _JITTER * covariance.detach().diagonal().mean()
        covariance = covariance + (log_noise.exp() + jitter) * torch.eye(len(self.x)).to(covariance)
        factor, failed = torch.linalg.cholesky_ex(covariance)
        if bool(failed):
            return 1e25, np.zeros_like(theta)
        alpha = torch.cholesky_solve(self.y[:, None], factor).squeeze(1)
        loss = 0.5 * self.y @ alpha + factor.diagonal().log().sum()
        for _, module, prior, closure, _ in self.kernel.named_priors():
            loss = loss - prior.log_prob(closure(module)).sum()
        gradients = torch.autograd.grad(loss, [*parameters, log_noise])
        slope = np.concatenate([gradient.reshape(-1).numpy() for gradient in gradients])
        away = np.zeros_like(theta) if start is None else (theta - start) / _PRIOR_SCALE
        away[-1] = 0.0
        return loss.detach().item() + 0.5 * float(away @ away), slope + away / _PRIOR_SCALE


def peak_period(x: Float[Array, "N"], y: Float[Array, "N"], rank: int = 0) -> float:
    """The period of the peak of this rank in the periodogram of y without its quadratic trend.

    >>> x = np.linspace(0, 10, 200)
    >>> round(peak_period(x, x + np.sin(2 * np.pi * x / 0.7)), 2)
    0.7
    """
    span = float(np.ptp(x)) if len(x) else 0.0
    if len(x) < 5 or not span:
        return _NO_PERIOD * (span or 1.0)
    unit = (x - x.min()) / span
    left = y - np.polyval(np.polyfit(unit, y, 2), unit)
    most = min(len(np.unique(x)) / 2, _MOST_FREQUENCIES / _OVERSAMPLED)
    cycles = np.arange(_FEWEST_CYCLES, max(most, 2 * _FEWEST_CYCLES), 1 / _OVERSAMPLED)
    angle = 2 * math.pi * np.outer(cycles, unit)
    power = np.square(np.cos(angle) @ left) + np.square(np.sin(angle) @ left)
    typical = float(np.square(left).sum()) or 1.0  # of noise at any frequency
    padded = np.concatenate([[-1.0], power, [-1.0]])
    peaks = np.flatnonzero((power >= padded[:-2]) & (power >= padded[2:]))
    ranked = peaks[np.argsort(-power[peaks], kind="stable")]
    if power[ranked[0]] < _CLEAR * typical * math.log(1 + len(cycles)):
        return _NO_PERIOD * span
    return float(span / cycles[ranked[min(rank, len(ranked) - 1)]])
