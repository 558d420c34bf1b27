"""A model: inputs × prior × head."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.heads import Head
from mogul.inputs import Inputs
from mogul.marginals import Marginals
from mogul.priors import Prior


class Model(nn.Module):
    """y = M(x) h(F(x)) + noise, for standardised x and y.

    Example:
        >>> from mogul.models import build
        >>> model = build("mogp", torch.randn(20, 3), num_outputs=2, generator=torch.Generator())
        >>> model.moments(torch.zeros(4, 3), 1, torch.Generator()).mean.shape
        torch.Size([4, 2])
    """

    def __init__(self, inputs: Inputs, prior: Prior, head: Head) -> None:
        super().__init__()
        self.inputs = inputs
        self.prior = prior
        self.head = head

    def moments(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        """Mean and variance of the signal at x: closed-form, but for the draws of a deep prior's inner layers."""
        return self.head.moments(self.prior(x, num_samples, generator), x, generator).pooled()

    def components(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        """The predictive mixture of the signal: Normal given each draw of F and b."""
        f = self.prior(x, num_samples, generator).sample(num_samples, generator)
        return self.head.given_f(f, x, generator)

    def sample_joint(
        self, x: Float[Tensor, "N D"], num_samples: int, generator: torch.Generator
    ) -> Float[Tensor, "S N P"]:
        """Draws of the whole signal over all the points: one function, one b and one M for each."""
        f = self.prior.sample_joint(x, num_samples, generator)
        h = self.head.features.sample(f, generator, joint=True)
        return self.head.mixing.sample_joint(h, x, generator)

    def kl(self) -> Float[Tensor, ""]:
        """KL of all global latent variables: q(u), q(b), q(M)."""
        return self.prior.kl() + self.head.kl()

    def log_prior(self) -> Float[Tensor, ""]:
        """Log prior density of what is estimated by MAP."""
        return self.prior.log_prior() + self.head.log_prior()
