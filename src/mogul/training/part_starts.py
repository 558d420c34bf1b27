"""Starts of a model's parts from the exact GPs' signal: prior, kernels, features, mixing.

Outputs are a linear map of a few latent functions. Features start nearly linear in these, and the mixing starts as
their inverse; q(u), in closed form given the rest, then corrects for the nonlinearity.
"""

import math
from dataclasses import dataclass
from functools import singledispatch

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Bool, Float
from torch import Tensor

from mogul.core.moments import FeatureMoments, Marginals
from mogul.heads import BayesianMixing, CorrelatedMixing, Features, GPMixing, Head, Identity, Mixing, NetMixing, Neural
from mogul.models.model import Model
from mogul.priors import ConstantMean, DeepGPs, DeepKernel, IndependentGPs, Prior, ScaledRadial, kmeans

# The largest M̃F in hidden units, and biases to cycle through, so that units of one latent function differ.
_ACTIVATION, _BIASES = 0.5, (0.0, 0.7, -0.7, 1.4, -1.4)
# Relative size of symmetry-breaking noise; loadings of unused latent functions.
_SPREAD, _UNUSED = 0.02, 0.05
# Initial deviation of nets and GPs (mixing, kernels) from a constant, as a share of their usual start.
_SMALL = 0.01
# Lengthscales of an outer layer over the spread of its inputs: long, so that it is nearly linear.
_LINEAR = 4.0
_NUM_ROUNDS, _NUM_SWEEPS = 5, 2
_STEP = 1e-2  # finite difference in a latent function
_SAME = 1e-4  # tolerance on changes of q(u)
# Rows at once in sums over all rows: the memory does not grow with their number.
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class ExactSignal:
    """The exact GPs' signal of P outputs, in the units of the head.

    Args:
        x: standardised inputs.
        y: the residuals to explain; 0 if not observed.
        weight: the precision of the noise; 0 if not observed.
        noise_var: the variance of the noise.
        lengthscale: lengthscales of each GP.
        outputscale: variance of each GP.
        shape: shape parameter of each GP's kernel, where it has one.
        components: loadings from unit functions to the signal: one function per output, or principal components.
    """

    x: Float[Tensor, "N D"]
    y: Float[Tensor, "N P"]
    weight: Float[Tensor, "N P"]
    noise_var: Float[Tensor, "P"]
    lengthscale: Float[Tensor, "P D"]
    outputscale: Float[Tensor, "P"]
    shape: Float[Tensor, "P"] | None
    components: Float[Tensor, "P R"]

    @staticmethod
    def of(
        x: Float[Tensor, "N D"],
        y: Float[Tensor, "N P"],
        observed: Bool[Tensor, "N P"],
        noise_var: Float[Tensor, "P"],
        relative_noise: Float[Tensor, "N P"],
        lengthscale: Float[Tensor, "P D"],
        outputscale: Float[Tensor, "P"],
        shape: Float[Tensor, "P"] | None,
        rank: int,
    ) -> "ExactSignal":
        """With at most `rank` components; the rest of the signal counts as noise."""
        seen = observed.to(y)
        y = torch.where(observed, y, 0.0)
        components = torch.eye(len(noise_var)).to(y)
        if rank < len(noise_var):
            cov = (y.T @ y) / (seen.T @ seen).clamp_min(1) - torch.diag(noise_var)
            components = _principal_components(cov, rank)
            noise_var = noise_var + (cov.diagonal() - components.square().sum(1)).clamp_min(0)
        weight = seen / (noise_var * relative_noise)
        return ExactSignal(x, y, weight, noise_var, lengthscale, outputscale, shape, components)


@dataclass(frozen=True)
class Latents:
    """L functions whose linear map is the signal: y ≈ target loadingsᵀ.

    Args:
        target: noisy values of the functions at the rows.
        weight: the precision of that noise; 0 for unused functions.
        loadings: linear map from functions to outputs.
        lengthscale: lengthscales of each function.
        outputscale: variance of each function.
        shape: shape parameter of each function's kernel, where it has one.
    """

    target: Float[Tensor, "N L"]
    weight: Float[Tensor, "N L"]
    loadings: Float[Tensor, "P L"]
    lengthscale: Float[Tensor, "L D"]
    outputscale: Float[Tensor, "L"]
    shape: Float[Tensor, "L"] | None

    @staticmethod
    def of(signal: ExactSignal, num_latents: int, generator: torch.Generator) -> "Latents":
        """The signal's components, and further, hardly used functions that cycle through the same kernels."""
        used = signal.components
        turns = torch.arange(num_latents - used.shape[1]) % used.shape[1]
        unused = _UNUSED * torch.randn(len(used), len(turns), generator=generator).to(used)
        loadings = torch.cat([used, unused], 1)
        kernels = torch.cat([used, used[:, turns]], 1).square()
        # Unused functions observe nothing: otherwise they would explain the signal a second time.
        weight = signal.weight @ torch.cat([used, torch.zeros_like(unused)], 1).square()
        outputscale = kernels.T @ signal.outputscale / kernels.sum(0).square()
        # With a long lengthscale the variance may be large, and unused functions would saturate hidden units.
        outputscale[used.shape[1] :].clamp_(max=1.0)
        return Latents(
            ((signal.weight * signal.y) @ loadings) / weight.clamp_min(1e-12),
            weight,
            loadings,
            (kernels.T @ signal.lengthscale.pow(-2) / kernels.sum(0).unsqueeze(1)).rsqrt(),
            outputscale,
            None if signal.shape is None else (kernels.T @ signal.shape.log() / kernels.sum(0)).exp(),
        )


@torch.no_grad()
def start_parts(model: Model, signal: ExactSignal, generator: torch.Generator) -> None:
    """Set prior, features and mixing so that they explain the signal."""
    head = model.head
    head.noise.log_precision.copy_(-signal.noise_var.log())
    top = start_prior(model.prior, signal, generator)
    q = _marginals(model.prior, signal.x)
    start_features(head.features, q.mean, generator)
    matrix = before = torch.zeros(0)
    for _ in range(_NUM_ROUNDS):
        moments = head.features.moments(q)
        before, matrix = matrix, matrix_of(head.features, top, signal, moments)
        start_mixing(head.mixing, signal, moments, matrix)
        if torch.equal(before, matrix):  # a linear head
            break
        adapt(model.prior, head, signal)
        q = _marginals(model.prior, signal.x)


@singledispatch
def start_prior(prior: Prior, signal: ExactSignal, generator: torch.Generator) -> Latents:
    """Set kernels and q(u) from the signal's latent functions; returns the last layer's functions.

    A prior of another type keeps its random start.
    """
    return Latents.of(signal, prior.num_latents, generator)


@start_prior.register
def _(prior: IndependentGPs, signal: ExactSignal, generator: torch.Generator) -> Latents:
    latents = Latents.of(signal, prior.num_latents, generator)
    start_kernel(prior.kernel, latents.lengthscale, latents.outputscale, latents.shape)
    if prior.log_white_noise is not None:
        weight = latents.weight.mean(0)
        prior.log_white_noise.copy_(-(torch.where(weight > 0, weight, weight.max()) / _SMALL).log())
    set_posterior(prior, signal.x, latents.target, latents.weight)
    return latents


@start_prior.register
def _(prior: DeepGPs, signal: ExactSignal, generator: torch.Generator) -> Latents:
    first, *others = _layers(prior)
    latents = start_prior(first, signal, generator)
    below = _marginals(first, signal.x).mean
    for layer in others:
        latents = Latents.of(signal, layer.num_latents, generator)
        _start_linear(layer, below, latents, signal, generator)
        below = _marginals(layer, below).mean
    return latents


def _start_linear(
    layer: IndependentGPs,
    below: Float[Tensor, "N E"],
    latents: Latents,
    signal: ExactSignal,
    generator: torch.Generator,
) -> None:
    """A layer with nearly linear functions of the layer below: lengthscales are long for its inputs."""
    spread = below.std(0).clamp_min(0.1)
    points = kmeans(below, layer.inducing_points.shape[-2], generator)
    missing = layer.inducing_points.shape[-2] - len(points)
    more = below.mean(0) + 2 * spread * torch.randn(missing, len(spread), generator=generator).to(below)
    layer.inducing_points.copy_(torch.cat([points, more]).expand_as(layer.inducing_points))
    # Slopes have variance s/ℓ², so that unit inputs give unit functions.
    lengthscale = (_LINEAR * spread).expand(layer.num_latents, -1)
    outputscale = torch.full_like(latents.outputscale, _LINEAR**2)
    start_kernel(layer.kernel, lengthscale, outputscale)
    set_posterior(layer, below, latents.target, latents.weight)


@singledispatch
def start_kernel(
    kernel: Kernel,
    lengthscale: Float[Tensor, "L D"],
    outputscale: Float[Tensor, "L"],
    shape: Float[Tensor, "L"] | None = None,
) -> None:
    """Set lengthscales, variances and shape parameters; a kernel without them is unchanged."""


@start_kernel.register
def _(
    kernel: ScaledRadial,
    lengthscale: Float[Tensor, "L D"],
    outputscale: Float[Tensor, "L"],
    shape: Float[Tensor, "L"] | None = None,
) -> None:
    base, like = kernel.base_kernel, kernel.base_kernel.raw_lengthscale
    if not kernel.batch_shape:  # shared by all GPs
        lengthscale, outputscale = lengthscale.pow(-2).mean(0).rsqrt(), outputscale.mean()
        shape = None if shape is None else shape.log().mean().exp()
    if like.shape[-1] == 1:  # one for all inputs
        lengthscale = lengthscale.pow(-2).mean(-1, keepdim=True).rsqrt()
    base.lengthscale = lengthscale.reshape(like.shape).to(like)
    kernel.outputscale = outputscale.to(like)
    if shape is not None and kernel.shape is not None:
        base.alpha = shape.reshape(kernel.shape.shape).to(like)


@start_kernel.register
def _(
    kernel: DeepKernel,
    lengthscale: Float[Tensor, "L D"],
    outputscale: Float[Tensor, "L"],
    shape: Float[Tensor, "L"] | None = None,
) -> None:
    kernel.net.weights[-1].mul_(_SMALL)
    start_kernel(kernel.kernel, lengthscale, outputscale, shape)


@singledispatch
def start_features(features: Features, f: Float[Tensor, "N L"], generator: torch.Generator) -> None:
    """Set features nearly linear in f and invertible."""


@start_features.register
def _(features: Neural, f: Float[Tensor, "N L"], generator: torch.Generator) -> None:
    """One unit per function, then one of the other sign, then further units with other biases."""
    num_hidden, num_latents = features.hidden_weights.shape
    unit = torch.arange(num_hidden)
    sign = 1.0 - 2.0 * ((unit // num_latents) % 2)
    scale = _ACTIVATION / f.abs().amax(0).clamp_min(0.1)
    weights = sign.unsqueeze(1) * torch.nn.functional.one_hot(unit % num_latents, num_latents) * scale.cpu()
    biases = torch.tensor(_BIASES)[(unit // (2 * num_latents)) % len(_BIASES)]
    features.hidden_weights.copy_(weights + _SPREAD * scale.cpu() * torch.randn(weights.shape, generator=generator))
    features.bias_mean.copy_(biases + _SPREAD * _ACTIVATION * torch.randn(num_hidden, generator=generator))
    features.bias_log_scale.fill_(-6.0)


@singledispatch
def matrix_of(
    features: Features, latents: Latents, signal: ExactSignal, moments: FeatureMoments
) -> Float[Tensor, "P H"]:
    """The matrix from features to the signal, by ridge regression: the mean of q(M) with a unit Normal prior."""
    h = moments.mean.double()
    gram = torch.einsum("np,nh,nk->phk", signal.weight, h, h)
    gram.diagonal(dim1=-2, dim2=-1).add_(1 + signal.weight.T @ moments.var.double())
    matrix: Tensor = torch.linalg.solve(gram, (signal.weight * signal.y).T @ h)
    return matrix


@matrix_of.register
def _(features: Identity, latents: Latents, signal: ExactSignal, moments: FeatureMoments) -> Float[Tensor, "P H"]:
    return latents.loadings


@singledispatch
def start_mixing(mixing: Mixing, signal: ExactSignal, moments: FeatureMoments, matrix: Float[Tensor, "P H"]) -> None:
    """Set M to this matrix for all x, with the posterior variance given the rows; other mixing types are unchanged."""


@start_mixing.register
def _(mixing: BayesianMixing, signal: ExactSignal, moments: FeatureMoments, matrix: Float[Tensor, "P H"]) -> None:
    """Var M_ph = 1 / (1 + Σ weight E h²): the optimum given features."""
    second = (moments.mean.square() + moments.var).double()
    mixing.mean.copy_(matrix)
    scale = torch.rsqrt(1 + signal.weight.T @ second)
    if isinstance(mixing, CorrelatedMixing):
        mixing.root.copy_(torch.diag_embed(scale))
    else:
        mixing.log_scale.copy_(scale.log())


@start_mixing.register
def _(mixing: NetMixing, signal: ExactSignal, moments: FeatureMoments, matrix: Float[Tensor, "P H"]) -> None:
    """The last layer's biases are the matrix; its weights are nearly zero."""
    mixing.net.biases[-1].copy_(matrix.flatten())
    last = mixing.net.weights[-1]
    last.mul_(_SMALL * last.shape[1] ** -0.5 / last.std().clamp_min(1e-12))


@start_mixing.register
def _(mixing: GPMixing, signal: ExactSignal, moments: FeatureMoments, matrix: Float[Tensor, "P H"]) -> None:
    """GPs with the matrix as means and the posterior variance given the rows, with E h² as squared features."""
    gps = mixing.gps
    assert isinstance(gps.mean, ConstantMean)
    gps.mean.constant.copy_(matrix.flatten())
    gps.kernel.outputscale = _SMALL
    second = (moments.mean.square() + moments.var).double()
    weight = signal.weight.unsqueeze(-1) * second.unsqueeze(-2)
    set_posterior(gps, signal.x, gps.mean(signal.x.to(gps.variational_mean)).double(), weight.flatten(1))


@singledispatch
def adapt(prior: Prior, head: Head, signal: ExactSignal) -> None:
    """Set q(u) of the latent GPs given the head; deep priors are unchanged."""


@adapt.register
def _(prior: IndependentGPs, head: Head, signal: ExactSignal) -> None:
    """Gauss–Newton steps for one latent GP after another; a linear head needs only one step.

    With J = ∂E[signal]/∂f, row n observes f + Σ_p w J (y − E[signal]) / W with the precision W = Σ_p w J².
    """
    rows = signal.x.to(prior.variational_mean)
    cross, offset, q = prior.whitened_cross(rows).double(), prior.mean(rows).double(), _marginals(prior, signal.x)
    for _ in range(_NUM_SWEEPS):
        before = prior.variational_mean.clone()
        for latent in range(prior.num_latents):
            expected, slope = _slope(head, q, signal.x, latent)
            weight = (signal.weight * slope.square()).sum(1)
            gap = (signal.weight * slope * (signal.y - expected)).sum(1)
            target = q.mean[:, latent] + gap / weight.clamp_min(1e-12)
            own = cross[latent if len(cross) > 1 else 0]
            mean, root = closed_form(own, target - offset[:, latent], weight)
            # Only this latent GP has changed: the others' posteriors need no update.
            old_root = prior.variational_root[latent].tril().double()
            q.mean[:, latent] = offset[:, latent] + mean @ own
            change = (root.mT @ own).square().sum(0) - (old_root.mT @ own).square().sum(0)
            q.var[:, latent] = (q.var[:, latent] + change).clamp_min(1e-12)
            prior.variational_mean[latent].copy_(mean)
            prior.variational_root[latent].copy_(root)
        if torch.allclose(before, prior.variational_mean, rtol=_SAME, atol=_SAME):
            break


def _slope(
    head: Head, q: Marginals, x: Float[Tensor, "N D"], latent: int
) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N P"]]:
    """E[signal] at q, and its derivative in the mean of one latent function, per row."""

    def expected(step: float) -> Float[Tensor, "N P"]:
        mean = q.mean.clone()
        mean[:, latent] += step
        return head.moments(Marginals(mean, q.var), x.to(mean), torch.Generator()).mean.double()

    return expected(0.0), (expected(_STEP) - expected(-_STEP)) / (2 * _STEP)


@torch.no_grad()
def set_posterior(
    prior: IndependentGPs,
    x: Float[Tensor, "N E"],
    target: Float[Tensor, "N L"],
    weight: Float[Tensor, "N L"],
) -> None:
    """Set q(v) of each latent GP to its optimum, if row n observes f + N(0, 1/weight): see `closed_form`."""
    rows, precision, information = x.to(prior.variational_mean), torch.zeros(()), torch.zeros(())
    for piece in torch.arange(len(rows)).tensor_split(math.ceil(len(rows) / _ROWS_AT_ONCE)):
        gap = (target[piece] - prior.mean(rows[piece])).T.double()
        sums = _sums(prior.whitened_cross(rows[piece]).double(), gap, weight[piece].T.double())
        precision, information = precision + sums[0], information + sums[1]
    mean, root = _posterior(precision, information)
    prior.variational_mean.copy_(mean)
    prior.variational_root.copy_(root)


@torch.no_grad()
def widen_posterior(prior: IndependentGPs, columns: Float[Tensor, "L M T"]) -> None:
    """Add C Cᵀ to the covariance of q(u) = q(K_zz^½ v), for the columns C of each latent GP."""
    added = prior.whitened(columns.to(prior.variational_root)).double()
    root = prior.variational_root.tril().double()
    prior.variational_root.copy_(torch.linalg.cholesky(root @ root.mT + added @ added.mT))


def closed_form(
    cross: Float[Tensor, "*K M N"], gap: Float[Tensor, "*L N"], weight: Float[Tensor, "*L N"]
) -> tuple[Float[Tensor, "*L M"], Float[Tensor, "*L M M"]]:
    """Mean and root of q(v), if row n observes Aᵀv + N(0, 1/weight) (Titsias 2009); A may be shared.

    With A = K_zz^{-1/2} K_zx and B = I + A W Aᵀ, q(v) = N(B⁻¹ A W gap, B⁻¹).
    """
    return _posterior(*_sums(cross, gap, weight))


def _sums(
    cross: Float[Tensor, "*K M N"], gap: Float[Tensor, "*L N"], weight: Float[Tensor, "*L N"]
) -> tuple[Float[Tensor, "*L M M"], Float[Tensor, "*L M"]]:
    """A W Aᵀ and A W gap, which add up over rows."""
    weighted = cross * weight.unsqueeze(-2)
    return weighted @ cross.mT, (weighted @ gap.unsqueeze(-1)).squeeze(-1)


def _posterior(
    precision: Float[Tensor, "*L M M"], information: Float[Tensor, "*L M"]
) -> tuple[Float[Tensor, "*L M"], Float[Tensor, "*L M M"]]:
    """Mean and root of q(v), given A W Aᵀ and A W gap."""
    precision.diagonal(dim1=-2, dim2=-1).add_(1.0)
    factor = torch.linalg.cholesky(precision)
    mean = torch.cholesky_solve(information.unsqueeze(-1), factor).squeeze(-1)
    return mean, torch.linalg.cholesky(torch.cholesky_inverse(factor))


def rank_of(model: Model) -> int:
    """The largest number of functions of x that reach the outputs."""
    latents = [layer.num_latents for layer in _layers(model.prior)] or [model.prior.num_latents]
    return min([model.head.features.num_features, *latents])


def _layers(prior: Prior) -> list[IndependentGPs]:
    layers = prior.layers if isinstance(prior, DeepGPs) else [prior]
    return [layer for layer in layers if isinstance(layer, IndependentGPs)]


def _marginals(prior: Prior, x: Float[Tensor, "N E"]) -> Marginals:
    """Marginals of q(F) at the rows; for a deep prior, at the means of its inner layers."""
    if not (layers := _layers(prior)):
        return prior(x, 1, torch.Generator()).pooled()
    *inner, last = layers
    x = x.to(last.variational_mean)
    for layer in inner:
        x = layer.forward(x, 1, torch.Generator()).mean
    return last.forward(x, 1, torch.Generator())


def _principal_components(cov: Float[Tensor, "P P"], number: int) -> Float[Tensor, "P R"]:
    """Leading directions times standard deviations."""
    sizes, directions = torch.linalg.eigh(cov)
    sizes = sizes.clamp_min(1e-3 * float(sizes[-1].clamp_min(1e-3)))
    components: Tensor = directions * sizes.sqrt()
    return components.flip(1)[:, :number]
