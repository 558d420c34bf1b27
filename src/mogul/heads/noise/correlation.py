"""Correlation between the noises of different outputs; the noise law of each single output stays as it is."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.joint import Independent, ScaledCorrelation
from mogul.errors import ShapeError
from mogul.heads.noise.laws import NoiseLaw


class NoiseCorrelation(nn.Module):
    """Correlation matrix R = I − diag(U Uᵀ) + U Uᵀ of the noises of P outputs.

    Let n be the noise variances of a row's outputs, which may depend on x and be random. The noise of the row is

        √n ∘ ζ          ζ = U ξ + √(1 − h) ∘ ε          h = diag(U Uᵀ),   ξ and ε standard Normal

    Each entry of ζ has variance 1, so the marginal law of each output is unchanged. U is estimated from leave-one-out
    residuals (`mogul.training.correlation`), and gradient steps do not change it.

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
