"""kernel="auto": the radial kernel with the largest log evidence of exact GPs, summed over outputs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from mogul import registry
from mogul._typing import Array
from mogul.core.radial import RADIALS
from mogul.models.families import AUTO
from mogul.training.evidence import ExactGP
from mogul.training.exact import CLIMBED_ROWS, climbed_evidence

# What kernel="auto" tries, simplest first, and the steps of each climb from the RBF's optimum.
KERNELS: tuple[str, ...] = ("rbf", "matern52", "matern32")
_STEPS = 20
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
                climbed_evidence(each.gp, each.x[rows], each.y[rows], each.relative_noise[rows], kernel, _STEPS)
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
