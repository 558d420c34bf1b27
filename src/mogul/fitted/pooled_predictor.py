"""Frozen predictors of several models as one: the moments of their mixture."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.fitted.predictor import Predictor


class PooledPredictor(nn.Module):
    """Mean, standard deviation and Jacobian of a mixture with equal weights, from those of its members.

    Var = mean of the members' variances + variance of their means.
    """

    def __init__(self, members: Sequence[Predictor]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def mean_std(self, x: Float[Tensor, "N D"]) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N P"]]:
        """Mean and standard deviation of the outputs, noise included."""
        each = [member.mean_std(x) for member in self._predictors()]
        means, stds = torch.stack([mean for mean, _ in each]), torch.stack([std for _, std in each])
        var = stds.square().mean(0) + means.var(0, correction=0)
        return means.mean(0), var.sqrt()

    def mean(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N P"]:
        """Mean of the outputs."""
        return torch.stack([member.mean(x) for member in self._predictors()]).mean(0)

    def jacobian(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N P D"]:
        """∂mean/∂x."""
        return torch.stack([member.jacobian(x) for member in self._predictors()]).mean(0)

    def _predictors(self) -> list[Predictor]:
        return [member for member in self.members if isinstance(member, Predictor)]
