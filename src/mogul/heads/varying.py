"""Mixing matrices that are functions of the input: a neural net's, or Gaussian processes'."""

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul.core.base_samples import Normals
from mogul.core.moments import FeatureMoments, Marginals
from mogul.core.nets import TanhNet
from mogul.errors import ShapeError, require_positive
from mogul.heads.mixing import Matrices
from mogul.priors import IndependentGPs

Matrix = Float[Tensor, "*T N P H"]


class VaryingMixing(nn.Module):
    """M(x) with independent entries: a subclass says how its mean and variance depend on x."""

    def __init__(self, num_outputs: int, num_features: int) -> None:
        super().__init__()
        require_positive(num_outputs=num_outputs, num_features=num_features)
        self.num_outputs = num_outputs
        self.num_features = num_features
        self.numbers_per_point = num_outputs * num_features

    @abstractmethod
    def entries(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> tuple[Matrix, Matrix | None]:
        """Mean and variance of the entries of M(x); None for a variance of zero."""

    def given(self, h: Float[Tensor, "*S N H"], x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """E = M₀(x) h, Var = S(x) h²."""
        mean, var = self.entries(x, generator)
        signal = _apply(mean, h)
        return Marginals(signal, torch.zeros_like(signal) if var is None else _apply(var, h.square()))

    def at(self, x: Float[Tensor, "N D"], generator: torch.Generator) -> Matrices:
        """The law of M at x by itself."""
        return Matrices(*self.entries(x, generator))

    def moments(self, features: FeatureMoments, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> Marginals:
        """E = M₀μ, Var = diag(M₀ V M₀ᵀ) + S(μ² + diag V), at each x."""
        mean, var = self.entries(x, generator)
        if features.pairs is None:
            signal_var = _apply(mean.square(), features.var)
        else:
            signal_var = ((mean @ features.cov) * mean).sum(-1)
        if var is not None:
            signal_var = signal_var + _apply(var, features.mean.square() + features.var)
        return Marginals(_apply(mean, features.mean), signal_var)

    def _matrices(self, entries: Float[Tensor, "*T N E"]) -> Matrix:
        return entries.reshape(*entries.shape[:-1], self.num_outputs, self.num_features)


class NetMixing(VaryingMixing):
    """M(x) by a deterministic net with two hidden layers of 50 tanh units: Eq. (sbgprn).

    Args:
        num_inputs: the number D of inputs.
        num_outputs: the number P of outputs.
        num_features: the number H of features.
        generator: draws the start.
        dropout: share of hidden units dropped in training.
        weight_scale: standard deviation of the Normal prior on the weights, the paper's L2 regularisation.

    Example:
        >>> mixing = NetMixing(2, 3, 4, torch.Generator())
        >>> mixing.given(torch.zeros(5, 4), torch.zeros(5, 2), torch.Generator()).mean.shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        num_features: int,
        generator: torch.Generator,
        *,
        dropout: float = 0.0,
        weight_scale: float = 1.0,
    ) -> None:
        super().__init__(num_outputs, num_features)
        self.net = TanhNet(
            num_inputs, num_outputs * num_features, generator, dropout=dropout, weight_scale=weight_scale
        )
        with torch.no_grad():
            # Entries of the order of 1/√H, whatever x: features of unit size then give signals of unit size.
            start = torch.randn(num_outputs * num_features, generator=generator) / num_features**0.5
            self.net.biases[-1].copy_(start)

    def entries(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> tuple[Matrix, None]:
        """The net's value, without any variance."""
        return self._matrices(self.net.forward(x, generator)), None

    def sample_joint(
        self, h: Float[Tensor, "S *B N H"], x: Float[Tensor, "*T N D"], normals: Normals
    ) -> Float[Tensor, "S *B N P"]:
        """M(x) h: there is nothing to draw, nor to drop."""
        return _apply(self._matrices(self.net.forward(x)), h)

    def kl(self) -> Float[Tensor, ""]:
        """Nothing latent here."""
        return torch.zeros_like(self.net.biases[0]).sum()

    def log_prior(self) -> Float[Tensor, ""]:
        """Log prior density of the weights."""
        return self.net.log_prior()


class GPMixing(VaryingMixing):
    """M(x) of P × H Gaussian processes: Eq. (gprn).

    Args:
        gps: P·H GPs; the paper shares one kernel among them.
        num_outputs: the number P of outputs.

    Example:
        >>> from mogul.priors import rbf
        >>> mixing = GPMixing(IndependentGPs(rbf(2), torch.randn(10, 2), num_latents=6), num_outputs=3)
        >>> mixing.given(torch.zeros(5, 2), torch.zeros(5, 2), torch.Generator()).mean.shape
        torch.Size([5, 3])
    """

    def __init__(self, gps: IndependentGPs, num_outputs: int) -> None:
        num_features, rest = divmod(gps.num_latents, num_outputs)
        super().__init__(num_outputs, max(1, num_features))
        if rest:
            raise ShapeError(
                f"GPMixing must have P × H GPs; got {gps.num_latents} for P = {num_outputs} outputs. "
                "Build them with num_latents=num_outputs * num_features."
            )
        self.gps = gps
        self.numbers_per_point = gps.variational_mean.numel()

    def entries(self, x: Float[Tensor, "*T N D"], generator: torch.Generator) -> tuple[Matrix, Matrix]:
        """Mean and variance of the GPs at x."""
        q: Marginals = self.gps(x, 1, generator)
        return self._matrices(q.mean), self._matrices(q.var)

    def sample_joint(
        self, h: Float[Tensor, "S *B N H"], x: Float[Tensor, "*B N D"], normals: Normals
    ) -> Float[Tensor, "S *B N P"]:
        """M(x) h with one draw of the matrix-valued function for each draw of h."""
        return _apply(self._matrices(self.gps.sample_joint(x, normals)), h)

    def kl(self) -> Float[Tensor, ""]:
        """KL of the mixing GPs."""
        return self.gps.kl()

    def log_prior(self) -> Float[Tensor, ""]:
        """Of priors registered on the shared kernel."""
        return self.gps.log_prior()


def _apply(matrix: Tensor, vector: Tensor) -> Tensor:
    """Matrix times vector at each point, broadcast over leading axes."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)
