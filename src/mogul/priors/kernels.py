"""Kernels: by name, sums and products of these, or any GPyTorch kernel; the paper's RBF by default."""

import math
from copy import deepcopy
from typing import Any

import gpytorch
import torch
from gpytorch.kernels import AdditiveKernel, Kernel, ProductKernel, ScaleKernel
from torch import Tensor

from mogul import registry
from mogul.core.nets import TanhNet
from mogul.core.radial import RADIALS
from mogul.errors import ConfigError
from mogul.priors._fused import scaled_radial, scaled_rbf, squared_distances
from mogul.registry import register_kernel

# The start of a periodic kernel's periods, in standard deviations of an input, where no data say otherwise.
_PERIOD = 1.0


@register_kernel("rbf", "Squared exponential, a lengthscale per input: the default.")
def rbf(num_inputs: int, num_latents: int | None = None, *, ard: bool = True) -> Kernel:
    """L scaled RBF kernels, or one, with a lengthscale per input, or a single one for latent inputs.

    Lengthscales start at √D, the order of the distance between two points of standardised inputs.

    >>> rbf(3, 2)(torch.zeros(5, 3)).to_dense().shape
    torch.Size([2, 5, 5])
    """
    base = gpytorch.kernels.RBFKernel(
        ard_num_dims=num_inputs if ard else None, batch_shape=_batch(num_latents), lengthscale_constraint=_positive()
    )
    return _scaled_radial("rbf", base, num_inputs)


@register_kernel("matern12", "Matérn 1/2, the exponential kernel: continuous functions without slopes.")
def matern12(num_inputs: int, num_latents: int | None = None) -> Kernel:
    """L scaled Matérn kernels of smoothness 1/2, exp(−r), with a lengthscale per input."""
    return _matern("matern12", 0.5, num_inputs, num_latents)


@register_kernel("matern32", "Matérn 3/2: functions with a slope everywhere.")
def matern32(num_inputs: int, num_latents: int | None = None) -> Kernel:
    """L scaled Matérn kernels of smoothness 3/2, with a lengthscale per input."""
    return _matern("matern32", 1.5, num_inputs, num_latents)


@register_kernel("matern52", "Matérn 5/2: functions with a curvature everywhere.")
def matern52(num_inputs: int, num_latents: int | None = None) -> Kernel:
    """L scaled Matérn kernels of smoothness 5/2, with a lengthscale per input."""
    return _matern("matern52", 2.5, num_inputs, num_latents)


@register_kernel("rq", "Rational quadratic: a mixture of RBFs over lengthscales, with a shape parameter per GP.")
def rq(num_inputs: int, num_latents: int | None = None) -> Kernel:
    """L scaled kernels (1 + r²/(2α))^−α, with a lengthscale per input and a shape parameter α."""
    base = gpytorch.kernels.RQKernel(
        ard_num_dims=num_inputs,
        batch_shape=_batch(num_latents),
        lengthscale_constraint=_positive(),
        alpha_constraint=_positive(),
    )
    base.alpha = 2.0
    return _scaled_radial("rq", base, num_inputs)


@register_kernel("periodic", "Functions that repeat: a period and a lengthscale per input.")
def periodic(num_inputs: int, num_latents: int | None = None) -> Kernel:
    """L scaled kernels exp(−2 Σ_d sin²(π (x_d − x′_d)/p_d)/ℓ_d), with periods p and lengthscales ℓ (GPyTorch's)."""
    base = gpytorch.kernels.PeriodicKernel(
        ard_num_dims=num_inputs,
        batch_shape=_batch(num_latents),
        lengthscale_constraint=_positive(),
        period_length_constraint=_positive(),
    )
    base.period_length, base.lengthscale = _PERIOD, float(num_inputs)
    return _scaled(ScaledPeriodic(base, batch_shape=base.batch_shape, outputscale_constraint=_positive()))


@register_kernel(
    "linear", "Linear functions of standardised inputs, with a variance per slope and one of the constant."
)
def linear(num_inputs: int, num_latents: int | None = None) -> Kernel:
    """L kernels s (Σ_d v_d x_d x′_d + c)."""
    batch = _batch(num_latents)
    slopes = gpytorch.kernels.LinearKernel(ard_num_dims=num_inputs, batch_shape=batch, variance_constraint=_positive())
    slopes.variance = 1.0 / num_inputs
    constant = gpytorch.kernels.ConstantKernel(batch_shape=batch, constant_constraint=_positive())
    constant.constant = torch.ones(*batch, 1)
    return _scaled(ScaleKernel(slopes + constant, batch_shape=batch, outputscale_constraint=_positive()))


def _matern(name: str, smoothness: float, num_inputs: int, num_latents: int | None) -> Kernel:
    base = gpytorch.kernels.MaternKernel(
        nu=smoothness,
        ard_num_dims=num_inputs,
        batch_shape=_batch(num_latents),
        lengthscale_constraint=_positive(),
    )
    return _scaled_radial(name, base, num_inputs)


def _scaled_radial(name: str, base: Kernel, num_inputs: int) -> Kernel:
    base.lengthscale = math.sqrt(num_inputs)
    kind = ScaledRBF if name == "rbf" else ScaledRadial
    return _scaled(kind(base, batch_shape=base.batch_shape, outputscale_constraint=_positive(), family=name))


def _scaled(kernel: Kernel) -> Kernel:
    kernel.outputscale = 1.0
    return kernel


def _batch(num_latents: int | None) -> torch.Size:
    return torch.Size([] if num_latents is None else [num_latents])


def _positive() -> gpytorch.constraints.Positive:
    """Positive constraint by the logarithm: a step of Adam then changes a scale by a factor.

    With GPyTorch's default softplus, lengthscales far above one move so slowly that they prolong training.
    """
    return gpytorch.constraints.Positive(transform=torch.exp, inv_transform=torch.log)


def kernel_by_name(name: str, num_inputs: int, num_latents: int) -> Kernel:
    """The registered kernel of this name, or a sum of products of such, for L GPs.

    >>> kernel_by_name("rbf", 3, 2).batch_shape, type(kernel_by_name("rbf+periodic*linear", 3, 2)).__name__
    (torch.Size([2]), 'AdditiveKernel')
    """
    products = [
        [registry.get("kernel", factor).make(num_inputs, num_latents) for factor in term]
        for term in registry.kernel_terms(name)
    ]
    for _, *others in products:
        for kernel in others:  # one variance for each product
            if isinstance(kernel, ScaleKernel):
                kernel.raw_outputscale.requires_grad_(False)
    terms = [term[0] if len(term) == 1 else ProductKernel(*term) for term in products]
    return terms[0] if len(terms) == 1 else AdditiveKernel(*terms)


def own_kernel(kernel: object, x: Tensor) -> Kernel:
    """A copy of a GPyTorch kernel in the precision of x, after checking that it accepts such inputs.

    >>> own_kernel(gpytorch.kernels.MaternKernel(), torch.zeros(5, 3).double()).lengthscale.dtype
    torch.float64
    """
    if not isinstance(kernel, Kernel):
        raise ConfigError(f"kernel must be a gpytorch.kernels.Kernel; got {kernel!r}. Build one, or leave it out.")
    copy: Kernel = deepcopy(kernel).to(x)
    try:
        copy(x[:1]).to_dense()
    except (RuntimeError, IndexError) as error:
        raise ConfigError(
            f"kernel must take inputs of {x.shape[1]} columns; {type(kernel).__name__} does not: {error} "
            "Look at its ard_num_dims and active_dims."
        ) from error
    return copy


class ScaledRadial(ScaleKernel):  # type: ignore[misc]  # GPyTorch has no types
    """A scaled GPyTorch kernel of `mogul.core.radial`, with the same parameters, priors and constraints.

    Matérn kernels are one fused Function: a training step takes 1.09 to 1.15 times that of an RBF, where GPyTorch's
    take 1.15 to 1.38 (docs/howto/kernels.md).

    Args:
        base_kernel: with a lengthscale, and for `rq` with α.
        family: the name of the radial function.
        options: of GPyTorch's `ScaleKernel`.
    """

    def __init__(self, base_kernel: Kernel, family: str, **options: Any) -> None:
        super().__init__(base_kernel, **options)
        self.family = family

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **options: Any) -> Any:
        """s k(‖(x₁ − x₂)/ℓ‖²)."""
        if options.get("last_dim_is_batch"):
            return super().forward(x1, x2, diag=diag, **options)
        radial, lengthscale = RADIALS[self.family], self.base_kernel.lengthscale
        if diag:
            return self._diagonal(x1, x2, lengthscale)
        if self.shape is None:
            return scaled_radial(radial, x1, x2, lengthscale, self.outputscale)
        square, _, _ = squared_distances(x1, x2, lengthscale)
        return self.outputscale[..., None, None] * radial.value(square, self.shape.unsqueeze(-1))

    @property
    def shape(self) -> Tensor | None:
        """The shape parameter (L, 1), where the kernel has one."""
        return self.base_kernel.alpha if RADIALS[self.family].shape_slope is not None else None

    def _diagonal(self, x1: Tensor, x2: Tensor, lengthscale: Tensor) -> Tensor:
        square = ((x1 - x2) / lengthscale).square().sum(-1)
        value: Tensor = self.outputscale.unsqueeze(-1) * RADIALS[self.family].value(square, self.shape)
        return value


class ScaledRBF(ScaledRadial):
    """GPyTorch's scaled RBF with the same parameters, priors and constraints, by one fused Function."""

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **options: Any) -> Any:
        """s exp(−½ ‖(x₁ − x₂)/ℓ‖²)."""
        if diag or options.get("last_dim_is_batch"):
            return ScaleKernel.forward(self, x1, x2, diag=diag, **options)
        return scaled_rbf(x1, x2, self.base_kernel.lengthscale, self.outputscale)


class ScaledPeriodic(ScaleKernel):  # type: ignore[misc]  # GPyTorch has no types
    """GPyTorch's scaled periodic kernel with the same parameters, as an RBF on the circle (MacKay 1998).

    With u = 2πx/p, ½ ‖(cos u, sin u) − (cos u′, sin u′)‖² = 2 sin²(π(x − x′)/p): no array of N × M × D numbers, and a
    training step at 21 inputs takes a thirtieth of the time.
    """

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **options: Any) -> Any:
        """s exp(−2 Σ sin²(π (x₁ − x₂)/p)/ℓ)."""
        if options.get("last_dim_is_batch"):
            return super().forward(x1, x2, diag=diag, **options)
        root = self.base_kernel.lengthscale.sqrt()
        lengthscale = torch.cat([root, root], dim=-1)
        first, second = self._on_circle(x1), self._on_circle(x2)
        if not diag:
            return scaled_rbf(first, second, lengthscale, self.outputscale)
        square = ((first - second) / lengthscale).square().sum(-1)
        return self.outputscale.unsqueeze(-1) * torch.exp(-0.5 * square)

    def _on_circle(self, x: Tensor) -> Tensor:
        angle = x * (2 * math.pi / self.base_kernel.period_length)
        return torch.cat([angle.cos(), angle.sin()], dim=-1)


class DeepKernel(Kernel):  # type: ignore[misc]  # GPyTorch has no types
    """A kernel on warped inputs x ⊙ (1 + net(x)): the paper's multiplicative form, near the identity at the start.

    Example:
        >>> kernel = DeepKernel(rbf(3, 2), num_inputs=3, generator=torch.Generator())
        >>> kernel(torch.zeros(5, 3)).to_dense().shape
        torch.Size([2, 5, 5])
    """

    def __init__(self, kernel: Kernel, num_inputs: int, generator: torch.Generator) -> None:
        super().__init__(batch_shape=kernel.batch_shape)
        self.kernel = kernel
        self.net = TanhNet(num_inputs, num_inputs, generator, output_scale=0.1)

    def warp(self, x: Tensor) -> Tensor:
        """x ⊙ (1 + net(x))."""
        warped: Tensor = x * (1 + self.net(x))
        return warped

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **options: Any) -> Any:
        """The inner kernel between warped inputs."""
        # By __call__, which respects the inner kernel's active_dims.
        covariance = self.kernel(self.warp(x1), self.warp(x2), diag=diag, **options)
        return covariance if diag else covariance.to_dense()
