"""A frozen, stateless predictor: mean, standard deviation and Jacobian, for one row or a million."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from mogul._typing import Array
from mogul.core.moments import Marginals
from mogul.core.transforms import Chain
from mogul.data import Scaling
from mogul.data.checks import as_matrix, in_order, require_columns, require_finite_inputs
from mogul.data.encodings.encoding import InputEncoding
from mogul.errors import ConfigError, ShapeError, require_natural, require_positive
from mogul.heads import BayesianMixing, Neural
from mogul.heads.mixing import FrozenMixing
from mogul.means.plane import FrozenPlaneUncertainty, PlaneUncertainty
from mogul.models.model import Model, Observed
from mogul.nonlinearities import Nonlinearity
from mogul.priors import DeepGPs, IndependentGPs
from mogul.priors._frozen import FrozenDeep, FrozenGPs

# Numbers in the largest tensor of a chunk: 6 MB in float32, which fits into caches. Rows per second of a MOGP with
# 7 × 400 inducing variables: 26,000 at 4 million, 40,000 at 2, 38,000 at 1, 27,000 at a quarter.
_NUMBERS_AT_ONCE = 1_500_000
NUM_NODES = 20


class Predictor(nn.Module):
    """The model's predictions in standardised units, from a copy whose GPs are `FrozenGPs`.

    Nothing changes after construction, so threads may share one. `torch.export.export(predictor, (x,))` works, with a
    dynamic number of rows: see `Fitted.export`.

    A deep model's inner layers are drawn `num_samples` times, from noise that is fixed and shared by all rows:
    predictions are smooth in x and deterministic.

    Example:
        >>> from mogul.models import build
        >>> model = build("mogp", torch.randn(20, 3), num_outputs=2, generator=torch.Generator())
        >>> mean, std = Predictor.of(model).mean_std(torch.zeros(4, 3))
        >>> mean.shape, Predictor.of(model).jacobian(torch.zeros(4, 3)).shape
        (torch.Size([4, 2]), torch.Size([4, 2, 3]))
    """

    noise_var: Tensor
    scale: Tensor
    square_scale: Tensor

    def __init__(self, frozen: Model, num_inputs: int, num_samples: int) -> None:
        super().__init__()
        self.num_inputs = num_inputs
        self.num_samples = num_samples
        self.frozen = frozen
        row = frozen.mean.scale.new_zeros(1, num_inputs)
        self.for_means = _for_means(frozen, row, num_samples)
        # Computed in advance where it is constant.
        self.noise_varies = frozen.head.noise.varies
        self.register_buffer("noise_var", frozen.noise_var(row, torch.Generator(row.device)).clone())
        self.register_buffer("scale", frozen.mean.scale.clone())
        self.register_buffer("square_scale", frozen.mean.scale.square())
        draws = frozen.prior(row, num_samples, torch.Generator()).mean[..., 0]
        features, mixing = frozen.head.features, frozen.head.mixing
        per_draw = features.num_features**2 + mixing.numbers_per_point
        self._numbers_per_row = max(
            frozen.prior.numbers_per_row(num_samples, drawn_inputs=False),
            draws.numel() * per_draw,
            frozen.mean.numbers_per_row,
        )
        # An exported program holds all nodes of the moments of hidden units at once.
        self.numbers_per_row_exported = self._numbers_per_row * (NUM_NODES if isinstance(features, Neural) else 1)

    @staticmethod
    def of(model: Model, num_samples: int = 32, seed: int = 0, precision: torch.dtype | None = None) -> "Predictor":
        """Freeze a copy of the model.

        Args:
            model: any model; it is copied.
            num_samples: draws of the inner layers of a deep model.
            seed: seed of those draws.
            precision: float32 or float64; the model's by default. All tensors are computed in float64 before storing.
        """
        require_positive(num_samples=num_samples)
        require_natural(seed=seed)
        num_inputs = _num_inputs(model)
        precision = model.mean.scale.dtype if precision is None else precision
        if precision not in {torch.float32, torch.float64}:
            raise ConfigError(f"precision must be torch.float32 or torch.float64; got {precision}. Leave it out.")
        generator = torch.Generator(model.mean.scale.device).manual_seed(seed)
        copy = Model(Observed(), deepcopy(model.prior), deepcopy(model.head), deepcopy(model.mean))
        replace_modules(copy, DeepGPs, FrozenDeep)
        replace_modules(copy, IndependentGPs, lambda gps: FrozenGPs(gps, num_samples, generator))
        replace_modules(copy, BayesianMixing, FrozenMixing)
        replace_modules(copy, PlaneUncertainty, FrozenPlaneUncertainty)
        frozen = copy.double().to(precision).eval().requires_grad_(False)
        with torch.no_grad():
            return Predictor(frozen, num_inputs, num_samples).eval()

    @property
    def singles(self) -> "list[Predictor]":
        """The predictors behind it: itself."""
        return [self]

    @property
    def dtype(self) -> torch.dtype:
        """The precision."""
        return self.scale.dtype

    def components(self, x: Float[Tensor, "N D"]) -> Marginals:
        """Mean and variance of the signal for each draw or site of a deep model's inner layers."""
        generator = torch.Generator(x.device)
        return self.frozen.outputs(self.frozen.prior(x, self.num_samples, generator), x, generator)

    def forward(self, x: Float[Tensor, "N D"]) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N P"]]:
        """Mean and standard deviation, noise included, of all rows at once."""
        signal = self._signal(self.frozen, x)
        mean = torch.addcmul(self.frozen.mean.forward(x), self.scale, signal.mean)
        noise_var = self.frozen.noise_var(x, torch.Generator(x.device)) if self.noise_varies else self.noise_var
        var, of_mean = torch.addcmul(noise_var, self.square_scale, signal.var), self.frozen.mean.var(x)
        return mean, (var if of_mean is None else var.add_(of_mean)).sqrt_()

    def mean_std(self, x: Float[Tensor, "N D"]) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N P"]]:
        """Mean and standard deviation of the outputs, noise included."""
        with torch.inference_mode():
            parts = [self.forward(rows) for rows in self._chunks(x, 1)]
        # Concatenated outside inference_mode, so that results are ordinary tensors.
        return _joined([mean for mean, _ in parts]), _joined([std for _, std in parts])

    def mean(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N P"]:
        """Mean of the outputs: faster than `mean_std` where it needs no variances."""
        with torch.inference_mode():
            parts = [self._mean(rows) for rows in self._chunks(x, 1)]
        return _joined(parts)

    def jacobian(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N P D"]:
        """∂mean/∂x."""
        # Under inference_mode there would be no gradients.
        with torch.inference_mode(False), torch.enable_grad():
            # Each row is repeated for each output, and the graph keeps a few tensors of the largest size.
            return torch.cat([self.slopes(rows) for rows in self._chunks(x, 4 * len(self.scale))])

    def slopes(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "N P D"]:
        """∂mean/∂x of all rows at once, where gradients are on."""
        num_outputs, num_rows = len(self.scale), rows.shape[0]  # `len` would be a number to a tracer
        # One backward pass over repeated rows instead of one pass per output: fewer calls.
        copies = rows.detach().repeat(num_outputs, 1).requires_grad_()
        means = self._mean(copies).reshape(num_outputs, num_rows, num_outputs)
        own = torch.eye(num_outputs).to(means).unsqueeze(1)
        (slopes,) = torch.autograd.grad((own * means).sum(), copies)
        return slopes.reshape(num_outputs, num_rows, self.num_inputs).transpose(0, 1)

    def _mean(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "N P"]:
        return torch.addcmul(self.frozen.mean.forward(rows), self.scale, self._signal(self.for_means, rows).mean)

    def _signal(self, model: Model, x: Float[Tensor, "N D"]) -> Marginals:
        """Moments in the head's units; the output mean is added after pooling, which saves a product per draw."""
        # Only parts that are not frozen use the generator; it is new for each call, so that calls share no state.
        generator = torch.Generator(x.device)
        q: Marginals = model.prior(x, self.num_samples, generator)
        return model.head.moments(q, x, generator).pooled()

    def _chunks(self, x: Tensor, copies: int) -> Iterator[Tensor]:
        if x.dim() != 2 or x.shape[1] != self.num_inputs:
            raise ShapeError(
                f"x must be (N, D) with D = {self.num_inputs}; got {tuple(x.shape)}. For one row use x[None]."
            )
        size = max(1, _NUMBERS_AT_ONCE // (copies * self._numbers_per_row))
        x = x.to(self.scale)
        if x.shape[0] <= size:
            yield x
        else:
            yield from x.split(size)  # type: ignore[no-untyped-call]  # torch's own


@dataclass(frozen=True)
class FittedPredictor:
    """A predictor in the user's units: arrays or frames in, arrays out."""

    predictor: "Predictor | PooledPredictor"
    scaling: Scaling
    input_names: list[str]
    stretch: Float[Array, "P"] | None = None  # factor on the standard deviation, if calibrated
    encoding: InputEncoding | None = None

    def mean(self, x: Any) -> Float[Array, "N P"]:
        """Mean of the outputs."""
        return self.scaling.undo_chain(self.scaling.modelled.undo(_numpy(self.predictor.mean(self._standardised(x)))))

    def mean_std(self, x: Any) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        """Mean and standard deviation of the outputs, noise included."""
        if self.scaling.chain is not None:
            return self._chained(self._standardised(x), self.scaling.chain)
        mean, std = self.predictor.mean_std(self._standardised(x))
        scale = self.scaling.outputs.scale if self.stretch is None else self.scaling.outputs.scale * self.stretch
        return self.scaling.outputs.undo(_numpy(mean)), scale * _numpy(std)

    def _chained(self, rows: Float[Tensor, "N D"], chain: Chain) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        """Moments of autoregressive outputs: those of each model are independent before the chain."""
        each = [single.mean_std(rows) for single in self.predictor.singles]
        means = np.stack([chain.undo(self.scaling.modelled.undo(_numpy(mean))) for mean, _ in each])
        variances = [
            np.square(self.scaling.modelled.scale * _numpy(std)) @ np.square(chain.matrix).T for _, std in each
        ]
        std = np.sqrt(np.mean(variances, axis=0) + means.var(0))
        return means.mean(0), std if self.stretch is None else self.stretch * std

    def jacobian(self, x: Any) -> Float[Array, "N P D"]:
        """∂mean/∂x, in units of an output over units of an input."""
        slopes = _numpy(self.predictor.jacobian(self._standardised(x)))
        slopes = slopes * self.scaling.modelled.scale[:, None] / self.scaling.inputs.scale
        return slopes if self.scaling.chain is None else np.einsum("kp,npd->nkd", self.scaling.chain.matrix, slopes)

    def _standardised(self, x: Any) -> Float[Tensor, "N D"]:
        x = x if self.encoding is None else self.encoding.apply(x)
        matrix, names = as_matrix(in_order(x, self.input_names, "X"), "X")
        require_columns(matrix, self.input_names, "X")
        require_finite_inputs(matrix, names)
        return torch.as_tensor(np.ascontiguousarray(self.scaling.inputs.apply(matrix)))


class _MeansOnly(nn.Module):
    """GPs whose variances are not needed: placeholders replace them unless `needed` is set."""

    def __init__(self, gps: FrozenGPs, stand_in: Float[Tensor, ""]) -> None:
        super().__init__()
        self.gps = gps
        self.stand_in = stand_in
        self.needed = False

    def forward(self, x: Float[Tensor, "*S N D"], num_samples: int, generator: torch.Generator) -> Marginals:
        if self.needed:
            return self.gps.forward(x, num_samples, generator)
        mean = self.gps.means(x)
        return Marginals(mean, self.stand_in.expand(mean.shape))

    def numbers_per_row(self, num_samples: int, *, drawn_inputs: bool) -> int:
        return self.gps.numbers_per_row(num_samples, drawn_inputs=drawn_inputs)


class _OnlyMean(Nonlinearity):
    """A nonlinearity without covariances: pairs of hidden units are most of an N- model's work."""

    def __init__(self, nonlinearity: Nonlinearity) -> None:
        self.nonlinearity = nonlinearity

    def __call__(self, a: Tensor) -> Tensor:
        return self.nonlinearity(a)

    def mean(self, mean: Tensor, var: Tensor) -> Tensor:
        return self.nonlinearity.mean(mean, var)

    def variance(self, mean: Tensor, var: Tensor) -> Tensor:
        return torch.zeros_like(mean)

    def pair_covariance(self, mean: tuple[Tensor, Tensor], var: tuple[Tensor, Tensor], cov: Tensor) -> Tensor:
        return torch.zeros_like(cov)

    def pair_covariances(self, mean: Tensor, var: Tensor, cov: Tensor) -> Tensor:
        return torch.zeros_like(cov)


def _for_means(frozen: Model, x: Float[Tensor, "1 D"], num_samples: int) -> Model:
    """The same model, sharing tensors, without variances that the mean does not depend on."""
    tensors = [*frozen.parameters(), *frozen.buffers()]
    model = deepcopy(frozen, {id(tensor): tensor for tensor in tensors})
    holders: list[_MeansOnly] = []

    def without_variance(gps: FrozenGPs) -> _MeansOnly:
        holders.append(_MeansOnly(gps, x.new_ones(()).requires_grad_()))
        return holders[-1]

    replace_modules(model, FrozenGPs, without_variance)
    # A mixing matrix is independent of the features, so their covariances add nothing to a mean.
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, Nonlinearity):
                setattr(module, name, _OnlyMean(value))
    # A variance is needed if the mean's graph depends on it.
    with torch.enable_grad():
        total = model.moments(x, num_samples, torch.Generator(x.device)).mean.sum()
    if total.requires_grad:
        slopes = torch.autograd.grad(total, [holder.stand_in for holder in holders], allow_unused=True)
        for holder, slope in zip(holders, slopes, strict=True):
            holder.needed = slope is not None
    for holder in holders:
        holder.stand_in = holder.stand_in.detach()
    return model


def replace_modules(module: nn.Module, kind: type[Any], make: Callable[[Any], nn.Module]) -> None:
    """Replace each submodule of exactly this type; subclasses may behave differently."""
    for name, child in module.named_children():
        if type(child) is kind:
            setattr(module, name, make(child))
        else:
            replace_modules(child, kind, make)


def _num_inputs(model: Model) -> int:
    for module in model.modules():
        if isinstance(module, IndependentGPs):
            return int(module.inducing_points.shape[-1])
    raise ConfigError("A model must hold IndependentGPs to be frozen; it has none. Predict with model.moments.")


def _joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts) if len(parts) > 1 else parts[0].clone()


def _numpy(values: Tensor) -> Array:
    return values.double().cpu().numpy()


class PooledPredictor(nn.Module):
    """Mean, standard deviation and Jacobian of a mixture with equal weights, from its members' predictors.

    Var = mean of the members' variances + variance of their means.
    """

    def __init__(self, members: Sequence[Predictor]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.num_inputs = members[0].num_inputs

    @property
    def singles(self) -> list[Predictor]:
        """The predictors behind it: those of the members."""
        return [member for member in self.members if isinstance(member, Predictor)]

    @property
    def dtype(self) -> torch.dtype:
        """The precision."""
        return self.singles[0].dtype

    def forward(self, x: Float[Tensor, "N D"]) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N P"]]:
        """Mean and standard deviation, noise included, of all rows at once."""
        return _pooled([member.forward(x) for member in self.singles])

    def slopes(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N P D"]:
        """∂mean/∂x of all rows at once, where gradients are on."""
        return torch.stack([member.slopes(x) for member in self.singles]).mean(0)

    def mean_std(self, x: Float[Tensor, "N D"]) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N P"]]:
        """Mean and standard deviation of the outputs, noise included."""
        return _pooled([member.mean_std(x) for member in self.singles])

    def mean(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N P"]:
        """Mean of the outputs."""
        return torch.stack([member.mean(x) for member in self.singles]).mean(0)

    def jacobian(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N P D"]:
        """∂mean/∂x."""
        return torch.stack([member.jacobian(x) for member in self.singles]).mean(0)


def _pooled(each: Sequence[tuple[Tensor, Tensor]]) -> tuple[Float[Tensor, "N P"], Float[Tensor, "N P"]]:
    means, stds = torch.stack([mean for mean, _ in each]), torch.stack([std for _, std in each])
    var = stds.square().mean(0) + (means - means.mean(0)).square().mean(0)
    return means.mean(0), var.sqrt()
