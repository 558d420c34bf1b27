"""The head: features, mixing and noise, from latent functions to outputs; correlation between the outputs' noises."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.joint import Independent, ScaledCorrelation
from mogul.core.moments import FeatureMoments, Marginals, standard_normal
from mogul.errors import ShapeError
from mogul.heads.features import Features
from mogul.heads.mixing import Mixing
from mogul.heads.noise import Noise
from mogul.heads.noise.laws import NoiseLaw


class NoiseCorrelation(nn.Module):
    """Correlation matrix R = I − diag(U Uᵀ) + U Uᵀ of the noises of P outputs.

    Let n be the noise variances of a row's outputs, which may depend on x and be random. The noise of the row is

        √n ∘ ζ          ζ = U ξ + √(1 − h) ∘ ε          h = diag(U Uᵀ),   ξ and ε standard Normal

    Each entry of ζ has variance 1, so the marginal law of each output is unchanged. U is estimated from leave-one-out
    residuals (`mogul.training.noise`), and gradient steps do not change it.

    Args:
        loadings: the matrix U, with rows of norm below 1.

    Example:
        >>> NoiseCorrelation(torch.tensor([[0.6], [0.5]])).matrix
        tensor([[1.0000, 0.3000],
                [0.3000, 1.0000]])
    """

    loadings: Tensor

    def __init__(self, loadings: Float[Tensor, "P R"]) -> None:
        super().__init__()
        if not bool((loadings.square().sum(1) < 1).all()):
            raise ShapeError(
                "Each row of loadings must have a norm below 1, as 1 − norm² is the output's own share of its noise; "
                f"got {float(loadings.square().sum(1).max()) ** 0.5:.3g}. Divide the row by a number above that."
            )
        self.register_buffer("loadings", loadings.detach().clone())

    @property
    def rank(self) -> int:
        """The number R of factors that outputs share."""
        return self.loadings.shape[1]

    @property
    def matrix(self) -> Float[Tensor, "P P"]:
        """R."""
        shared = self.loadings @ self.loadings.T
        return shared - torch.diag(shared.diagonal()) + torch.eye(len(shared)).to(shared)

    def joint(
        self,
        law: NoiseLaw,
        signal_var: Float[Tensor, "S N P"],
        noise_var: Float[Tensor, "*S P"],
        scale: Float[Tensor, "P"],
    ) -> Independent:
        """Joint distribution of the outputs given a component; `noise_var` is drawn and in units of y, like `scale`."""
        drawn = noise_var.expand_as(signal_var).double().cpu().numpy()
        loadings = self.loadings.double().cpu().numpy()
        return ScaledCorrelation(law.joint(signal_var, scale), drawn, loadings)


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

    def draw_noise(self, x: Float[Tensor, "N D"], generator: torch.Generator) -> Float[Tensor, "N P"]:
        """A draw of the noise of all outputs at each point: √n ∘ ζ, as in `NoiseCorrelation`."""
        law, loadings = self.noise.forward(x, generator).factored()
        loadings = loadings if self.correlation is None else self.correlation.loadings
        shape = torch.Size([len(x), self.noise.num_outputs])
        own = standard_normal(shape, generator, like=x)
        if loadings is not None:
            shared = standard_normal((len(x), loadings.shape[1]), generator, like=x) @ loadings.T
            own = shared + (1 - loadings.square().sum(-1)).sqrt() * own
        return law.draw_var(shape, generator).sqrt() * own

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
