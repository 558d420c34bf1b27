"""A model: inputs × prior × head. Inputs are observed, or latent with a posterior per row."""

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.base_samples import FreshNormals, Normals
from mogul.core.moments import Marginals, normal_kl_each, standard_normal
from mogul.data.dataset import Batch
from mogul.heads import Head
from mogul.means.linear import OutputMean, ZeroMean
from mogul.priors import IndependentGPs, Prior


@runtime_checkable
class Inputs(Protocol):
    """Source of the inputs of rows."""

    def draw(self, batch: Batch, generator: torch.Generator) -> Float[Tensor, "N D"]:
        """Inputs of the rows of the batch: one draw of each."""
        ...

    def kl(self, batch: Batch) -> Float[Tensor, "N"]:
        """KL of the latent inputs of each row."""
        ...


class Observed(nn.Module):
    """Inputs that are given."""

    def draw(self, batch: Batch, generator: torch.Generator) -> Float[Tensor, "N D"]:
        """The inputs of the batch."""
        return batch.x

    def kl(self, batch: Batch) -> Float[Tensor, "N"]:
        """Zero: nothing is latent."""
        return batch.x.new_zeros(len(batch))


class Latent(nn.Module):
    """Inputs with a unit Normal prior and a diagonal Normal q(xᵢ) for each row: Eq. (mogplvm).

    Args:
        start: (N, D), where the means of q(X) start.
        scale: the standard deviations' start.

    Example:
        >>> latent = Latent(torch.zeros(4, 2))
        >>> latent.draw(Batch.of(torch.zeros(4, 0), torch.zeros(4, 3)), torch.Generator()).shape
        torch.Size([4, 2])
    """

    def __init__(self, start: Float[Tensor, "N D"], scale: float = 0.1) -> None:
        super().__init__()
        self.mean = nn.Parameter(start.detach().clone())
        self.log_scale = nn.Parameter(torch.full_like(start, math.log(scale)))

    def draw(self, batch: Batch, generator: torch.Generator) -> Float[Tensor, "N D"]:
        """One reparameterised draw of each row's latent input."""
        mean, log_scale = self.mean[batch.index], self.log_scale[batch.index]
        return mean + torch.exp(log_scale) * standard_normal(mean.shape, generator, like=mean)

    def kl(self, batch: Batch) -> Float[Tensor, "N"]:
        """KL(q(xᵢ) ‖ N(0, 1)) of each row."""
        return normal_kl_each(self.mean[batch.index], self.log_scale[batch.index]).sum(-1)

    def marginals(self) -> Marginals:
        """q(X) of all rows."""
        return Marginals(self.mean, torch.exp(2 * self.log_scale))


def principal_scores(y: Float[Tensor, "N P"], num_inputs: int) -> Float[Tensor, "N D"]:
    """Where latent inputs start: the leading principal components of y, each of unit variance.

    Components beyond the rank of y are zero; draws of q(X) break the symmetry of those axes.

    >>> principal_scores(torch.tensor([[1.0], [-1.0]]), 2).abs().round().tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    left, size, _ = torch.linalg.svd(y - y.mean(0), full_matrices=False)
    kept = int((size[:num_inputs] > size[0] * torch.finfo(y.dtype).eps * len(y)).sum())
    return torch.nn.functional.pad(left[:, :kept] * len(y) ** 0.5, (0, num_inputs - kept))


class Model(nn.Module):
    """y = mean(x) + scale ∘ (M(x) h(F(x)) + noise), for standardised x and y.

    The head works in units in which residuals have unit size; all results of a model are in units of y. A random output
    mean contributes to every variance, density and draw.

    Example:
        >>> from mogul.models import build
        >>> model = build("mogp", torch.randn(20, 3), num_outputs=2, generator=torch.Generator())
        >>> model.moments(torch.zeros(4, 3), 1, torch.Generator()).mean.shape
        torch.Size([4, 2])
    """

    def __init__(self, inputs: Inputs, prior: Prior, head: Head, mean: OutputMean | None = None) -> None:
        super().__init__()
        self.inputs = inputs
        self.prior = prior
        self.head = head
        self.mean = mean or ZeroMean(head.mixing.num_outputs).to(head.noise.log_precision)

    def moments(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        """Mean and variance of the signal at x: closed-form, except for draws of a deep prior's inner layers."""
        return self.outputs(self.prior(x, num_samples, generator), x, generator).pooled()

    def outputs(self, q: Marginals, x: Float[Tensor, "*S N D"], generator: torch.Generator) -> Marginals:
        """Mean and variance of the signal given marginals of F, for each of their draws."""
        return self.mean.restore(self.head.moments(q, x, generator), x)

    def components(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        """The predictive mixture of the signal: Normal given each draw of F and b, or for each site of a deep prior."""
        return self.components_given(self.prior(x, num_samples, generator), x, num_samples, generator)

    def components_given(
        self, q: Marginals, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator
    ) -> Marginals:
        """The predictive mixture of the signal given marginals of F."""
        if q.log_weight is not None and x.dim() == 2:
            return self.outputs(q, x, generator)  # the mixture that was trained; with draws of x, sites are drawn too
        return self.mean.restore(self.head.given_f(q.sample(num_samples, generator), x, generator), x)

    def noise_var(self, x: Float[Tensor, "*S N D"], generator: torch.Generator) -> Float[Tensor, "*T P"]:
        """The noise variance of each output, averaged over draws of x: at each x, or once if it is constant."""
        return self.mean.scale.square() * self.head.noise.forward(x, generator).pooled_var()

    def sample_joint(
        self, x: Float[Tensor, "*B N D"], num_samples: int, generator: torch.Generator
    ) -> Float[Tensor, "S *B N P"]:
        """Draws of the whole signal over all the points: one function, one b and one M for each."""
        return self.functions(x, FreshNormals(x, num_samples, generator))

    def functions(self, x: Float[Tensor, "*B N D"], normals: Normals) -> Float[Tensor, "S *C N P"]:
        """Function draws from given Normal numbers: differentiable in x, and deterministic."""
        f = self.prior.sample_joint(x, normals)
        h = self.head.features.sample_joint(f, normals)
        signal = self.head.mixing.sample_joint(h, x, normals)
        return self.mean.sample_joint(x, normals) + self.mean.scale * signal

    def numbers_per_row(self, num_samples: int, *, drawn_inputs: bool) -> int:
        """Numbers in memory for each row while a prediction with `num_samples` draws is computed."""
        features, mixing = self.head.features, self.head.mixing
        at_work = self.prior.numbers_per_row(num_samples, drawn_inputs=drawn_inputs)
        own = self.head.noise.numbers_per_point + self.mean.numbers_per_row
        own = own * num_samples if drawn_inputs else own
        return at_work + own + num_samples * (features.num_features + mixing.numbers_per_point)

    @property
    def jitter(self) -> float:
        """The largest jitter last used by any of the GPs, relative to the diagonal."""
        return max(
            (float(module.jitter) for module in self.modules() if isinstance(module, IndependentGPs)), default=0.0
        )

    def kl(self) -> Float[Tensor, ""]:
        """KL of all global latent variables: q(u), q(b), q(M)."""
        return self.prior.kl() + self.head.kl()

    def log_prior(self) -> Float[Tensor, ""]:
        """Log prior density of parameters estimated by MAP."""
        return self.prior.log_prior() + self.head.log_prior()
