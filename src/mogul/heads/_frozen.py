"""Mixing that will not change, with its moments computed once."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.moments import FeatureMoments, Marginals
from mogul.core.pairs import selectors
from mogul.heads.mixing import BayesianMixing


class FrozenMixing(nn.Module):
    """`BayesianMixing` by four matrices: E = M₀μ, Var = S μ² + (S + M₀²) diag V + 2 Σ M₀ᵢ M₀ⱼ Vᵢⱼ over pairs.

    Example:
        >>> mixing = FrozenMixing(BayesianMixing(num_outputs=3, num_features=2, generator=torch.Generator())).float()
        >>> features = FeatureMoments(torch.zeros(5, 2), torch.ones(5, 2))
        >>> mixing.moments(features, torch.zeros(5, 1), torch.Generator()).mean.shape
        torch.Size([5, 3])
    """

    weights: Tensor
    var: Tensor
    second: Tensor
    pairs: Tensor

    def __init__(self, mixing: BayesianMixing) -> None:
        super().__init__()
        self.num_outputs = mixing.num_outputs
        self.num_features = mixing.num_features
        self.numbers_per_point = mixing.numbers_per_point
        mean, var = mixing.mean.detach().double(), torch.exp(2 * mixing.log_scale.detach().double())
        first, second = selectors(self.num_features, like=mean)
        self.register_buffer("weights", mean.T.contiguous())
        self.register_buffer("var", var.T.contiguous())
        self.register_buffer("second", (var + mean.square()).T.contiguous())
        self.register_buffer("pairs", 2 * ((mean @ first) * (mean @ second)).T)

    def moments(self, features: FeatureMoments, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """M and the features both integrated out."""
        var = features.mean.square() @ self.var + features.var @ self.second
        if features.pairs is not None:
            var = var + features.pairs @ self.pairs
        return Marginals(features.mean @ self.weights, var)
