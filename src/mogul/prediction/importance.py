"""log p(y) of rows whose outputs share latent variables, by importance sampling around the latents that explain y.

    p(y) = ∫ p(y | z) N(z | 0, I) dz

p(y | z) is negligible for most z: a plain average over draws of z would need millions of draws when several outputs
with little noise share a few latents. Draws come instead from

    r(z) = N(z) (a + b N(y | m + J z, R)/N(y | m, C) + c N(y | m + J z, kR)/N(y | m, C′)),     C = J Jᵀ + R

The second part is the exact posterior of z for a signal linearised at its most likely z, with Normal noise of
covariance R. The third has k times the noise. The first, draws of z itself, bounds the weights p(y | z) N(z)/r(z).
For a linear Normal model all draws of the second part have the same weight.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mogul.core.moments import Marginals, standard_normal
from mogul.heads import NoiseLaw, NormalLaw

# Shares of draws from the prior of z and from the widened linear posterior, and the widening k of the noise.
_OF_PRIOR, _OF_WIDE, _WIDENING = 0.125, 0.375, 4.0
_MOST_STEPS, _SETTLED = 12, 0.01
# Least residual, in standard deviations, for the effective variance residual/slope, which is 0/0 at residual 0.
_SMALL = 0.1
# Least share of noise in the effective variance, where factors of correlated noise are drawn.
_LEAST_NOISE = 0.1
_TRIED = 64


@runtime_checkable
class SignalLaw(Protocol):
    """The noise-free signal behind the outputs: T components at each of N points."""

    @property
    def num_components(self) -> int:
        """The number T."""
        ...

    @property
    def num_random(self) -> int:
        """The size E of z."""
        ...

    def at(self, z: Float[Tensor, "*K T N E"]) -> Marginals:
        """Mean and variance of the signal for given standard Normal z."""
        ...

    def jacobian(self, z: Float[Tensor, "T N E"]) -> Float[Tensor, "T N P E"]:
        """Jacobian of the signal's mean in z."""
        ...

    def rows(self, index: Int[Tensor, "B"]) -> "SignalLaw":
        """At some of the points."""
        ...


@dataclass(frozen=True)
class RowOutputs:
    """N rows of outputs in the units of the signal; missing ones are zero.

    `cross` is the off-diagonal part of the noise covariance. Where noises are correlated given their scales, `loadings`
    is the matrix U of `mogul.heads.NoiseCorrelation`, and its R factors ξ are the last entries of z: given these,
    noises are independent.
    """

    y: Float[Tensor, "N P"]
    observed: Bool[Tensor, "N P"]
    law: NoiseLaw
    cross: Float[Tensor, "P P"] | None
    loadings: Float[Tensor, "P R"] | None = None

    @property
    def num_factors(self) -> int:
        """The number R of factors that the noises share."""
        return 0 if self.loadings is None else self.loadings.shape[1]

    def log_density(self, signal: SignalLaw, z: Float[Tensor, "*K T N E"]) -> Float[Tensor, "*K T N"]:
        """log p(y | z)."""
        own, factors = self.parts(z)
        here = signal.at(own)
        if self.loadings is None:
            return self.law.log_density(self.y, self.observed, here)
        assert isinstance(self.law, NormalLaw)  # other laws define their own joint distribution
        shared, own_share = factors @ self.loadings.T, 1 - self.loadings.square().sum(-1)
        return self.law.log_density_given(self.y, self.observed, here, shared, own_share)

    def parts(self, z: Float[Tensor, "*K T N E"]) -> tuple[Float[Tensor, "*K T N _"], Float[Tensor, "*K T N _"]]:
        """The signal's part of z, and the factors of the noise."""
        first = z.shape[-1] - self.num_factors
        return z[..., :first], z[..., first:]

    def rows(self, index: Int[Tensor, "B"]) -> "RowOutputs":
        """Some of them."""
        return RowOutputs(self.y[index], self.observed[index], self.law.rows(index), self.cross, self.loadings)

    def noise(self, signal: Marginals) -> tuple[Float[Tensor, "T N P _"], Float[Tensor, "T N P P"]]:
        """The slopes of y in the noise factors, and R, the covariance of the remaining noise."""
        if self.loadings is None:
            return signal.mean.new_zeros((*signal.mean.shape, 0)), self.noise_cov(signal)
        var = self._effective_var(signal)
        noise_var = (var - signal.var).maximum(_LEAST_NOISE * var) * self.observed
        left = var - noise_var * self.loadings.square().sum(-1)
        return noise_var.sqrt().unsqueeze(-1) * self.loadings, torch.diag_embed(torch.where(self.observed, left, 1.0))

    def noise_cov(self, signal: Marginals) -> Float[Tensor, "T N P P"]:
        """R: covariance of the Normal noise with the same gradient at y as this noise; I for missing outputs."""
        both = self.observed.unsqueeze(-1) & self.observed.unsqueeze(-2)
        var = signal.var + self.law.var if self.cross is not None else self._effective_var(signal)
        diagonal = torch.diag_embed(torch.where(self.observed, var, 1.0))
        return diagonal if self.cross is None else diagonal + both * self.cross

    def _effective_var(self, signal: Marginals) -> Float[Tensor, "T N P"]:
        """(y − m)/(∂ log p/∂m): the variance for Normal noise, or at the likeliest scale for a scale mixture."""
        scale = (signal.var + self.law.var).sqrt()
        gap = (self.y - signal.mean).abs().maximum(_SMALL * scale)
        with torch.enable_grad():
            mean = (self.y - gap).detach().requires_grad_()
            total = self.law.log_density(self.y, self.observed, Marginals(mean, signal.var)).sum()
            (slope,) = torch.autograd.grad(total, mean)
        return torch.where(slope > 0, gap / slope, scale.square())


@dataclass(frozen=True)
class _Linear:
    """y = m + J z + noise: `gap` is y − m, zero for missing outputs."""

    jacobian: Float[Tensor, "T N P E"]
    gap: Float[Tensor, "T N P"]
    noise_root: Float[Tensor, "T N P P"]
    root: Float[Tensor, "T N P P"]

    @staticmethod
    def around(z: Float[Tensor, "T N E"], signal: SignalLaw, rows: RowOutputs) -> "_Linear":
        """Linearised at this z."""
        own, _ = rows.parts(z)
        here = signal.at(own)
        jacobian = signal.jacobian(own) * rows.observed.unsqueeze(-1)
        gap = (rows.y - here.mean) * rows.observed + _times(jacobian, own)
        of_factors, noise_cov = rows.noise(here)
        return _Linear.of(torch.cat([jacobian, of_factors], -1), gap, noise_cov)

    @staticmethod
    def of(jacobian: Tensor, gap: Tensor, noise_cov: Tensor) -> "_Linear":
        """From these, with the Cholesky factors of both covariances."""
        cov = jacobian @ jacobian.transpose(-1, -2) + noise_cov
        return _Linear(jacobian, gap, _cholesky(noise_cov), _cholesky(cov))

    def widened(self, factor: float) -> "_Linear":
        """With `factor` times the noise covariance."""
        return _Linear.of(self.jacobian, self.gap, factor * self.noise_root @ self.noise_root.transpose(-1, -2))

    def update(self, rest: Float[Tensor, "*K T N P"]) -> Float[Tensor, "*K T N E"]:
        """Jᵀ C⁻¹ rest."""
        columns = rest.reshape(-1, *rest.shape[-3:]).permute(1, 2, 3, 0)
        solved = self.jacobian.transpose(-1, -2) @ torch.cholesky_solve(columns, self.root)
        return solved.permute(3, 0, 1, 2).reshape(*rest.shape[:-1], -1)

    def draw(self, z: Float[Tensor, "K T N E"], noise: Float[Tensor, "K T N P"]) -> Float[Tensor, "K T N E"]:
        """Posterior draws from standard Normal z and noise, by Matheron's rule."""
        return z + self.update(self.gap - _times(self.jacobian, z) - _times(self.noise_root, noise))

    def posterior(self, slopes: Float[Tensor, "T N Q E"]) -> tuple[Float[Tensor, "T N Q"], Float[Tensor, "T N Q"]]:
        """Mean and variance of `slopes` @ z given y."""
        explained = torch.linalg.solve_triangular(self.root, self.jacobian, upper=False)
        var = slopes.square().sum(-1) - (slopes @ explained.transpose(-1, -2)).square().sum(-1)
        return _times(slopes, self.update(self.gap)), var.clamp_min(0)

    def log_ratio(self, z: Float[Tensor, "K T N E"]) -> Float[Tensor, "K T N"]:
        """log p(z | y)/p(z) of this linear model: log N(y | m + J z, R) − log N(y | m, C)."""
        return _log_normal(self.gap - _times(self.jacobian, z), self.noise_root) - _log_normal(self.gap, self.root)


@dataclass(frozen=True)
class LatentDraws:
    """K draws of z given y, with the weights p(y | z) N(z)/r(z) that make them draws of the exact posterior.

    `log_control` is log of p_lin(z | y)/r(z) for the linear model about `center`: its mean over r is 1.
    """

    z: Float[Tensor, "K T N E"]
    log_weight: Float[Tensor, "K T N"]
    log_control: Float[Tensor, "K T N"]
    center: Float[Tensor, "T N E"]
    linear: _Linear

    @property
    def effective(self) -> Float[Tensor, "T N"]:
        """The effective number of draws."""
        return torch.exp(2 * torch.logsumexp(self.log_weight, 0) - torch.logsumexp(2 * self.log_weight, 0))

    @property
    def log_density(self) -> Float[Tensor, "T N"]:
        """The log of the mean weight, log p(y), corrected by a control whose mean is 1: for many draws the same.

        The control is the share of the linear model's own draws; where that model is exact, weights are proportional
        to it and the correction leaves no error at all (Owen and Zhou 2000, Safe and Effective Importance Sampling).
        """
        level, weight, control, slope = self.controlled()
        mean, offset = weight.mean(0), control.mean(0) - 1
        return level + (mean - slope * offset).clamp(0.5 * mean, 2 * mean).log()

    def controlled(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The largest log weight, weights relative to it, the control, and the slope of the first in the second."""
        level = self.log_weight.amax(0)
        weight, control = torch.exp(self.log_weight - level), torch.exp(self.log_control)
        deviation = control - control.mean(0)
        slope = (deviation * weight).sum(0) / deviation.square().sum(0).clamp_min(torch.finfo(weight.dtype).tiny)
        return level, weight, control, slope.clamp_min(0)


def draw(
    signal: SignalLaw, rows: RowOutputs, num_draws: int, generator: torch.Generator, num_starts: int = 1
) -> LatentDraws:
    """Weighted draws of z given the observed outputs of each row.

    Args:
        signal: of the rows.
        rows: their outputs.
        num_draws: draws for each component and row.
        generator: draws them.
        num_starts: starts of the search for z: first 0, then the best of some draws for each further start.
    """
    shape = (signal.num_components, len(rows.y), signal.num_random + rows.num_factors)
    starts = [rows.y.new_zeros(shape)]
    starts += [_best_draw(shape, signal, rows, generator) for _ in range(num_starts - 1)]
    centers = [_likeliest(start, signal, rows) for start in starts]
    narrow = [_Linear.around(center, signal, rows) for center in centers]
    proposals = [each for linear in narrow for each in (linear, linear.widened(_WIDENING))]
    shares = [(1 - _OF_PRIOR - _OF_WIDE) / num_starts, _OF_WIDE / num_starts] * num_starts
    counts = [max(1, round(share * num_draws)) for share in (*shares, _OF_PRIOR)]
    draws = [standard_normal((count, *shape), generator, like=rows.y) for count in counts]
    for place, proposal in enumerate(proposals):
        noise = standard_normal((counts[place], *proposal.gap.shape), generator, like=rows.y)
        draws[place] = proposal.draw(draws[place], noise)
    z = torch.cat(draws)
    ratios = torch.stack([*(proposal.log_ratio(z) for proposal in proposals), z.new_zeros(z.shape[:-1])], -1)
    log_mixture = torch.logsumexp(ratios + (torch.tensor(counts).to(z) / len(z)).log(), -1)
    log_weight = rows.log_density(signal, z) - log_mixture
    return LatentDraws(z, log_weight, ratios[..., 0] - log_mixture, centers[0], narrow[0])


def log_density(
    signal: SignalLaw, rows: RowOutputs, num_draws: int, generator: torch.Generator, num_starts: int = 1
) -> tuple[Float[Tensor, "T N"], Float[Tensor, "T N"]]:
    """log p(y) per component and row over its observed outputs, and the effective number of draws behind it."""
    draws = draw(signal, rows, num_draws, generator, num_starts)
    return draws.log_density, draws.effective


def _best_draw(
    shape: tuple[int, ...], signal: SignalLaw, rows: RowOutputs, generator: torch.Generator
) -> Float[Tensor, "T N E"]:
    """The draw of z with the highest likelihood of y among some draws."""
    draws = standard_normal((_TRIED, *shape), generator, like=rows.y)
    best = rows.log_density(signal, draws).argmax(0)
    return draws.gather(0, best[None, ..., None].expand(1, *shape))[0]


def _likeliest(
    z: Float[Tensor, "T N E"],
    signal: SignalLaw,
    rows: RowOutputs,
    step: Float[Tensor, "T N"] | None = None,
    num_steps: int = _MOST_STEPS,
) -> Float[Tensor, "T N E"]:
    """Where log p(y | z) − ½‖z‖² is largest, by damped Gauss–Newton steps from this z.

    Once half of the rows have converged, iterations continue for the others only.
    """
    best = _log_joint(z, signal, rows)
    step = torch.ones_like(best) if step is None else step
    for number in range(1, num_steps + 1):
        linear = _Linear.around(z, signal, rows)
        trial = z + step.unsqueeze(-1) * (linear.update(linear.gap) - z)
        reached = _log_joint(trial, signal, rows)
        better = reached > best
        gain = torch.where(better, reached - best, 0.0)
        # A step that does not improve is retried at a third of its length.
        missed = ~better & (step > 0.05) & ((trial - z).abs().amax(-1) > 0.01)
        z = torch.where(better.unsqueeze(-1), trial, z)
        best = torch.where(better, reached, best)
        step = torch.where(better, (2 * step).clamp_max(1.0), step / 3)
        left = torch.nonzero(((gain > _SETTLED) | missed).any(0))[:, 0]
        if 2 * len(left) <= z.shape[1]:
            if len(left) and number < num_steps:
                others = signal.rows(left), rows.rows(left), step[:, left], num_steps - number
                z = z.index_copy(1, left, _likeliest(z[:, left], *others))
            break
    return z


def _log_joint(z: Tensor, signal: SignalLaw, rows: RowOutputs) -> Tensor:
    return rows.log_density(signal, z) - 0.5 * z.square().sum(-1)


def _times(matrix: Float[Tensor, "T N P E"], vector: Float[Tensor, "*K T N E"]) -> Float[Tensor, "*K T N P"]:
    return torch.einsum("tnpe,...tne->...tnp", matrix, vector)


def _cholesky(cov: Float[Tensor, "T N P P"]) -> Float[Tensor, "T N P P"]:
    # `cholesky_ex` does not raise: a NaN prediction gives a NaN density.
    root: Tensor = torch.linalg.cholesky_ex(cov).L
    return root


def _log_normal(gap: Float[Tensor, "*K T N P"], root: Float[Tensor, "T N P P"]) -> Float[Tensor, "*K T N"]:
    """log N(gap | 0, root rootᵀ) without its constant, which cancels."""
    columns = gap.reshape(-1, *gap.shape[-3:]).permute(1, 2, 3, 0)
    whitened = torch.linalg.solve_triangular(root, columns, upper=False)
    log_density: Tensor = -0.5 * whitened.square().sum(-2) - root.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
    result: Tensor = log_density.permute(2, 0, 1).reshape(gap.shape[:-1])
    return result
