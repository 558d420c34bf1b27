"""A fitted model as one program in the user's units, which `torch.export` can trace."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from mogul._typing import Array
from mogul.data import Scaling
from mogul.fitted.predictor import PooledPredictor, Predictor
from mogul.fitted.quantiles import MixtureQuantiles
from mogul.means.regressor import RegressorMean


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
