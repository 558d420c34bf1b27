"""The head: features, mixing and noise, from latent functions to outputs."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.joint import Independent
from mogul.core.moments import FeatureMoments, Marginals
from mogul.errors import ShapeError
from mogul.heads.features import Features
from mogul.heads.mixing import Mixing
from mogul.heads.noise import Noise
from mogul.heads.noise.correlation import NoiseCorrelation
from mogul.heads.noise.laws import NoiseLaw


class Head(nn.Module):
    """y = M(x) h(F) + noise. Moments below are of the noise-free signal M(x) h(F).

    `noise` is the noise of each output. `correlation` is the correlation of noises between outputs; with None, only
    `noise` itself may correlate them.
    """

    correlation: NoiseCorrelation | None

    def __init__(self, features: Features, mixing: Mixing, noise: Noise) -> None:
        super().__init__()
        if noise.num_outputs != mixing.num_outputs:
            raise ShapeError(
                f"mixing and noise must have the same number of outputs; got {mixing.num_outputs} and "
                f"{noise.num_outputs}. Build both with the same num_outputs."
            )
        if features.num_features != mixing.num_features:
            raise ShapeError(
                f"features and mixing must have the same number of features; got {features.num_features} and "
                f"{mixing.num_features}. Build the mixing with num_features=features.num_features."
            )
        self.features = features
        self.mixing = mixing
        self.noise = noise
        self.correlation = None

    def given_f(self, f: Float[Tensor, "S N L"], x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """Moments given latents, with M integrated out; the result is exactly Normal, as q(M) is."""
        return self.mixing.given(self.features.sample(f, generator), x, generator)

    def moments(self, q: Marginals, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """Moments with F integrated out too, in closed form."""
        signal = self.mixing.moments(self.features.moments(q), x, generator)
        return Marginals(signal.mean, signal.var, log_weight=q.log_weight)

    def sampled_moments(
        self, f: Float[Tensor, "S N L"], x: Float[Tensor, "*T N D"], generator: torch.Generator
    ) -> Marginals:
        """Moments with F replaced by the empirical distribution of its draws."""
        return self.mixing.moments(FeatureMoments.of_samples(self.features.sample(f, generator)), x, generator)

    def joint(
        self,
        law: NoiseLaw,
        signal_var: Float[Tensor, "S N P"],
        noise_var: Float[Tensor, "*S P"],
        scale: Float[Tensor, "P"],
    ) -> Independent:
        """Joint distribution of the outputs given a component, for a noise law and draws of its variance.

        Both variances are in units of y = scale × the head's outputs.
        """
        if self.correlation is None:
            return law.joint(signal_var, scale)
        return self.correlation.joint(law, signal_var, noise_var, scale)

    def kl(self) -> Float[Tensor, ""]:
        """KL of the latent variables of features, mixing and noise."""
        return self.features.kl() + self.mixing.kl() + self.noise.kl()

    def log_prior(self) -> Float[Tensor, ""]:
        """Log prior density of parameters estimated by MAP."""
        return self.features.log_prior() + self.mixing.log_prior() + self.noise.log_prior()
