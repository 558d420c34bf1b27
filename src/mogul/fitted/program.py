"""A fitted model as one program in the user's units, which `torch.export` can trace, and its operators in ONNX."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from mogul._typing import Array
from mogul.data import Scaling
from mogul.errors import import_extra
from mogul.fitted.predictor import PooledPredictor, Predictor
from mogul.means.regressor import RegressorMean
from mogul.nonlinearities.gaussian import cdf, pdf

# The interval that holds a quantile is narrowed to a ninth in each round, and Newton steps follow: 12 digits.
_PLACES, _ROUNDS, _NEWTON_STEPS = 8, 6, 4
Translation = Callable[..., Any]
# Nodes of erf's integral up to 6, beyond which it is 1 in float64: an error of 2e-15.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


class Program(nn.Module):
    """Inputs to mean and standard deviation; on request to quantiles, and to the Jacobian of the mean.

    Inputs and results are float64, in the user's units; what is between is in the precision of the predictor. Scaling
    needs the digits: a coordinate near 10⁵ that varies by 1 has two of them in float32.

    Args:
        predictor: in standardised units; its trees are replaced by traceable ones.
        scaling: from standardised to the user's units.
        stretch: factor on the standard deviations, if calibrated.
        levels: of quantiles.
        jacobian: whether to compute ∂mean/∂x.
    """

    input_shift: Tensor
    input_scale: Tensor
    output_shift: Tensor
    output_scale: Tensor
    std_scale: Tensor

    def __init__(
        self,
        predictor: Predictor | PooledPredictor,
        scaling: Scaling,
        stretch: Float[Array, "P"] | None = None,
        levels: Sequence[float] = (),
        jacobian: bool = False,
    ) -> None:
        super().__init__()
        self.predictor = predictor
        for member in predictor.singles:
            if isinstance(member.frozen.mean, RegressorMean):
                member.frozen.mean = member.frozen.mean.traceable()
        inputs, outputs = scaling.inputs, scaling.outputs
        std_scale = outputs.scale if stretch is None else outputs.scale * stretch
        names = ("input_shift", "input_scale", "output_shift", "output_scale", "std_scale")
        values = (inputs.shift, inputs.scale, outputs.shift, outputs.scale, std_scale)
        for name, value in zip(names, values, strict=True):
            self.register_buffer(name, torch.as_tensor(value, dtype=torch.float64))
        self.quantiles = MixtureQuantiles(predictor, levels) if levels else None
        # A graph of its own: `torch.export` does not follow autograd.
        self.jacobian = _traced_jacobian(predictor) if jacobian else None

    @property
    def result_names(self) -> list[str]:
        """What `forward` returns, in its order."""
        return [
            "mean",
            "std",
            *["quantiles"] * (self.quantiles is not None),
            *["jacobian"] * (self.jacobian is not None),
        ]

    def forward(self, x: Float[Tensor, "N D"]) -> tuple[Tensor, ...]:
        """Mean and std (N, P); then, if requested, quantiles (Q, N, P) and the Jacobian (N, P, D)."""
        rows = ((x - self.input_shift) / self.input_scale).to(self.predictor.dtype)
        mean, std = self.predictor.forward(rows)
        results = [mean.double() * self.output_scale + self.output_shift, std.double() * self.std_scale]
        if self.quantiles is not None:
            # Relative to the mean, from which calibration stretches them.
            results.append(results[0] + (self.quantiles(rows) - mean).double() * self.std_scale)
        if self.jacobian is not None:
            results.append(self.jacobian(rows).double() * self.output_scale.unsqueeze(-1) / self.input_scale)
        return tuple(results)


def _traced_jacobian(predictor: Predictor | PooledPredictor) -> nn.Module:
    rows = torch.linspace(-1, 1, 5, dtype=predictor.dtype).unsqueeze(-1).expand(-1, predictor.num_inputs).contiguous()
    trace = make_fx(lambda x: predictor.slopes(x), tracing_mode="symbolic", _allow_non_fake_inputs=True)
    graph: nn.Module = trace(rows)
    return graph


class MixtureQuantiles(nn.Module):
    """Quantiles of each output, in standardised units, of the mixture over members, inner layers and noise scales.

    The signal of each draw or site of a deep model's inner layers is taken to be Normal with its moments; noise with a
    random scale is a mixture over the nodes of its law. `Prediction.quantiles` draws the signal in their place.

    Args:
        predictor: whose quantiles.
        levels: between 0 and 1.
    """

    places: Tensor
    levels: Tensor
    normal: Tensor

    def __init__(self, predictor: Predictor | PooledPredictor, levels: Sequence[float]) -> None:
        super().__init__()
        self.members = nn.ModuleList(predictor.singles)
        shape = (-1, 1, 1)
        values = torch.tensor(list(levels), dtype=torch.float64).reshape(shape)
        self.register_buffer("places", torch.arange(1.0, _PLACES + 1).to(predictor.dtype))
        self.register_buffer("levels", values.to(predictor.dtype))
        self.register_buffer("normal", torch.special.ndtri(values).to(predictor.dtype))

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "Q N P"]:
        """Quantiles at standardised rows."""
        parts = [_components(member, x) for member in self.members if isinstance(member, Predictor)]
        # Components are the last axis: (1, N, P, C) beside levels (Q, 1, 1, 1).
        mean, std, weight = (torch.cat(part, 0).movedim(0, -1) for part in zip(*parts, strict=True))
        weight = weight / len(parts)
        # A quantile of a mixture is between the smallest and the largest of its components'.
        each = mean + std * self.normal.unsqueeze(-1)
        low, high = each.amin(-1), each.amax(-1)
        inside = (mean.unsqueeze(-2), std.unsqueeze(-2), weight.unsqueeze(-2))  # beside points within the interval
        for _ in range(_ROUNDS):
            width = (high - low) / (len(self.places) + 1)
            points = low.unsqueeze(-1) + width.unsqueeze(-1) * self.places
            reached = (inside[2] * cdf((points.unsqueeze(-1) - inside[0]) / inside[1])).sum(-1)
            low = low + width * (reached < self.levels.unsqueeze(-1)).to(width.dtype).sum(-1)
            high = low + width
        quantile = 0.5 * (low + high)
        for _ in range(_NEWTON_STEPS):
            gap = (quantile.unsqueeze(-1) - mean) / std
            excess = (weight * cdf(gap)).sum(-1) - self.levels
            density = (weight * pdf(gap) / std).sum(-1).clamp_min(torch.finfo(x.dtype).tiny)
            quantile = torch.minimum(torch.maximum(quantile - excess / density, low), high)
        return quantile


def _components(
    member: Predictor, x: Float[Tensor, "N D"]
) -> tuple[Float[Tensor, "C N P"], Float[Tensor, "C N P"], Float[Tensor, "C N P"]]:
    """Mean, standard deviation and weight of each component: one for each draw or site, and node of the noise."""
    signal, generator = member.components(x), torch.Generator(x.device)
    mean, var = (part.reshape(-1, 1, *part.shape[-2:]) for part in (signal.mean, signal.var))
    share = torch.full_like(mean[..., :1, :1], 1 / mean.shape[0])
    if signal.log_weight is not None:
        share = signal.log_weight.exp().reshape(-1, 1, 1, 1)
    nodes = member.frozen.head.noise.forward(x, generator).variance_nodes()
    noise_var, noise_share = (_with_rows(part) for part in (nodes.value, nodes.log_weight.exp()))
    std = (var + member.square_scale * noise_var).sqrt()
    weight = (share * noise_share).expand_as(std)
    return mean.expand_as(std).flatten(0, 1), std.flatten(0, 1), weight.flatten(0, 1)


def _with_rows(part: Float[Tensor, "K *N P"]) -> Float[Tensor, "K _ P"]:
    """With an axis of rows, also where it is the same for all."""
    return part if part.dim() == 3 else part.unsqueeze(1)


def translations() -> dict[Callable[..., Any], Translation]:
    """For `torch.onnx.export`; needs `mogul[export]`."""
    onnx_ir, onnxscript = (import_extra("Export", "export", module) for module in ("onnx_ir", "onnxscript"))
    op: Any = onnxscript.opset18

    def like(value: Any, x: Any) -> Any:
        """A constant in the precision of x."""
        return op.Constant(value=onnx_ir.tensor(np.asarray(value, dtype=x.dtype.numpy())))

    def scalar_tensor(s: Any, dtype: Any = 1, layout: Any = "", device: Any = "", pin_memory: Any = False) -> Any:
        """A number in its precision; torch's own way is through float32."""
        return op.Constant(value=onnx_ir.tensor(s, dtype=onnx_ir.DataType(dtype)))

    def exp2(x: Any) -> Any:
        """e^(x log 2): ONNX has no 2^x but as a power, which takes several times as long."""
        return op.Exp(op.Mul(x, like(math.log(2), x)))

    def erf(x: Any) -> Any:
        """In float64, which onnxruntime has no erf for, (2/√π) ∫₀^x e^(−t²) dt by Gauss–Legendre nodes."""
        if x.dtype != onnx_ir.DataType.DOUBLE:
            return op.Erf(x)
        last = op.Constant(value=onnx_ir.tensor(np.array([-1])))
        end = op.Unsqueeze(op.Clip(x, like(-6.0, x), like(6.0, x)), last)
        at = op.Mul(end, like(0.5 * (_NODES + 1), x))
        integral = op.MatMul(op.Exp(op.Neg(op.Mul(at, at))), like(_WEIGHTS[:, None] / math.sqrt(math.pi), x))
        return op.Squeeze(op.Mul(end, integral), last)

    def erfc(x: Any) -> Any:
        """1 − erf x."""
        return op.Sub(like(1.0, x), erf(x))

    # The exporter reads from these what is a number and what is a tensor; a float may be an int to Python.
    scalar_tensor.__annotations__ |= {"s": float, "dtype": int, "layout": str, "device": str, "pin_memory": bool}
    return {
        torch.ops.aten.scalar_tensor.default: scalar_tensor,
        torch.ops.aten.exp2.default: exp2,
        torch.ops.aten.erf.default: erf,
        torch.ops.aten.erfc.default: erfc,
    }
