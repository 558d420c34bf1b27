"""A model: inputs × prior × head."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.heads import Head
from mogul.inputs import Inputs
from mogul.marginals import Marginals
from mogul.priors import IndependentGPs, Prior


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

    def numbers_per_row(self, num_samples: int, *, drawn_inputs: bool) -> int:
        """How many numbers a prediction with so many draws holds for each row while it is made."""
        features, mixing = self.head.features, self.head.mixing
        at_work = self.prior.numbers_per_row(num_samples, drawn_inputs=drawn_inputs)
        return at_work + num_samples * (features.num_features + mixing.numbers_per_point)

    @property
    def jitter(self) -> float:
        """The largest jitter that any of its GPs last needed, relative to the diagonal."""
        return max(
            (float(module.jitter) for module in self.modules() if isinstance(module, IndependentGPs)), default=0.0
        )

    def kl(self) -> Float[Tensor, ""]:
        """KL of all global latent variables: q(u), q(b), q(M)."""
        return self.prior.kl() + self.head.kl()

    def log_prior(self) -> Float[Tensor, ""]:
        """Log prior density of what is estimated by MAP."""
        return self.prior.log_prior() + self.head.log_prior()
