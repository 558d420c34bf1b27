"""Blueprints: the arguments a model was built from, to rebuild it from these and its tensors, without data."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from mogul import models, registry
from mogul.config import Precision, TrainingConfig
from mogul.core.radial import radial_of
from mogul.errors import FileError
from mogul.heads import NoiseCorrelation
from mogul.means.linear import LinearOutputMean, OutputMean
from mogul.means.plane import PlaneUncertainty
from mogul.means.regressor import RegressorMean
from mogul.models.model import Latent, Model
from mogul.models.parts import stored_layers
from mogul.priors import Solver

Layouts = dict[str, list[int]]

_DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Blueprint:
    """Arguments of `mogul.models.build` and the training config: everything about a model except its tensors.

    Args:
        model: one of `mogul.models.names()`.
        options: options of `build`, except output mean and inducing points, which are stored as tensors.
        num_inputs: the number D of inputs, observed or latent.
        num_outputs: the number P of outputs.
        precision: floating-point precision of the model.
        config: how the model was trained; None if unknown.

    Example:
        >>> Blueprint.of("mogp", {"num_latents": 3}, 2, 4, TrainingConfig()).precision
        'float64'
    """

    model: str
    options: Mapping[str, Any]
    num_inputs: int
    num_outputs: int
    precision: Precision
    config: TrainingConfig | None = None

    @staticmethod
    def of(
        model: str, options: Mapping[str, Any], num_inputs: int, num_outputs: int, config: TrainingConfig
    ) -> "Blueprint":
        """From the arguments of a training."""
        kept = {name: value for name, value in options.items() if name not in ("output_mean", "inducing_points")}
        return Blueprint(model, kept, num_inputs, num_outputs, config.precision, config)

    def solved_by(self, solver: Solver | None) -> "Blueprint":
        """The same with another solver, if there is one."""
        return self if solver is None else replace(self, options={**self.options, "solver": solver})


def layouts_of(state: dict[str, Tensor]) -> Layouts:
    """Memory order of the axes, for tensors that are not contiguous.

    Matrix products round differently for transposed layouts; without this, predictions would differ in the last bit.

    >>> layouts_of({"a": torch.zeros(2, 3), "b": torch.zeros(2, 3).T})
    {'b': [1, 0]}
    """
    others = {name: tensor for name, tensor in state.items() if not tensor.is_contiguous()}
    return {name: _axes_by_stride(tensor.stride()) for name, tensor in others.items()}


def _axes_by_stride(strides: tuple[int, ...]) -> list[int]:
    return sorted(range(len(strides)), key=lambda axis: -strides[axis])


def rebuilt(blueprint: Blueprint, state: dict[str, Tensor], layouts: Layouts) -> Model:
    """The model with these tensors, in evaluation mode.

    It is built on placeholder inputs. Sizes come from the tensors: there may be fewer inducing points than requested,
    and a size claimed by a file must not allocate memory.
    """
    name = models.Name.parse(blueprint.model)
    sizes = _sizes(state)
    inducing = [count for _, count in stored_layers(state)]
    inducing += [sizes[option] for option, known in registry.options().items() if known.rows and option in sizes]
    num_rows = max([1, *inducing])
    _require_covered(sizes, num_rows, blueprint, state)
    rows = torch.arange(num_rows, dtype=_DTYPES[blueprint.precision]) / num_rows
    stand_in = rows.unsqueeze(-1).repeat(1, blueprint.num_inputs)
    mean = _output_mean(state, blueprint)
    options = {**_without_claims(blueprint.options, state), **sizes, "output_mean": mean}
    model = models.build(blueprint.model, stand_in, blueprint.num_outputs, torch.Generator().manual_seed(0), **options)
    if name.latent:
        model.inputs = Latent(state["inputs.mean"])
    if "head.correlation.loadings" in state:
        model.head.correlation = _correlation(state["head.correlation.loadings"], blueprint.num_outputs)
    _require_same_kinds(model, state)
    laid_out = {label: _laid_out(tensor, layouts.get(label)) for label, tensor in state.items()}
    _require_finite(model, state)
    shared = _shared_parameters(model)
    model.load_state_dict(laid_out, assign=True)
    for first, *others in shared:
        for other in others:
            module, _, attribute = other.rpartition(".")
            setattr(model.get_submodule(module), attribute, model.get_parameter(first))
    return model.eval()


def _shared_parameters(model: Model) -> list[list[str]]:
    """Names of parameters that are one and the same, which files hold once for each name."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [each for each in names.values() if len(each) > 1]


def _sizes(state: dict[str, Tensor]) -> dict[str, Any]:
    """The options of `build` that are determined by the tensors."""
    found = {option: known.read_back(state) for option, known in registry.options().items()}
    return {option: value for option, value in found.items() if value is not None}


def _without_claims(options: Mapping[str, Any], state: dict[str, Tensor]) -> dict[str, Any]:
    """Options but for sizes, which tensors have, where they have them; a size of a user's part is at most theirs."""
    known, stored = registry.options(), sum(tensor.numel() for tensor in state.values())
    kept = {name: value for name, value in options.items() if name not in known or known[name].stored is None}
    for name, value in kept.items():
        if isinstance(value, int) and value > max(stored, 1):
            raise FileError(
                f"A model must not need more numbers than its file holds; {name} is {value:,} of {stored:,}. "
                "Do not trust this file."
            )
    return kept


def _require_covered(sizes: dict[str, Any], num_rows: int, blueprint: Blueprint, state: dict[str, Tensor]) -> None:
    """Check that no part needs more numbers than the file holds; a stored shape may belong to an empty tensor."""
    layers = stored_layers(state)
    needed = [num_latents * count**2 for num_latents, count in layers]
    needed += [below * count * num_latents for (below, _), (num_latents, count) in pairwise(layers)]
    needed += [num_latents * sizes.get("num_sites", 0) for num_latents, _ in layers[:-1]]
    if layers:
        num_features = sizes.get("num_hidden", layers[-1][0])
        needed += [blueprint.num_outputs * num_features, num_features * layers[-1][0]]
        needed += [blueprint.num_inputs * num_rows]
    known = registry.options()
    full = {**sizes, "num_outputs": blueprint.num_outputs}
    needed += [count(full) for option in sizes if (count := known[option].numbers) is not None]
    stored = sum(tensor.numel() for tensor in state.values())
    if max(needed, default=0) > stored:
        raise FileError(
            f"A model must not need more numbers than its file holds; one part needs {max(needed):,} of {stored:,}. "
            "Do not trust this file."
        )


def _require_same_kinds(model: Model, state: dict[str, Tensor]) -> None:
    for label, tensor in model.state_dict().items():
        if label in state and state[label].dtype != tensor.dtype:
            raise FileError(
                f"Tensors must have the model's precision; {label} has {state[label].dtype} for {tensor.dtype}. "
                "Do not trust this file."
            )


def _require_finite(model: Model, state: dict[str, Tensor]) -> None:
    """Check that tensors are finite but for what is infinite by construction: bounds of constraints."""
    own = {label: built for label, built in model.state_dict().items() if not label.startswith("mean.")}
    for label, tensor in state.items():
        odd = ~torch.isfinite(tensor)
        if bool(odd.any()) and not (label in own and _has_same(own[label], tensor, odd)):
            raise FileError(f"Tensors must be finite; {label} holds NaN or infinity. Do not trust this file.")


def _has_same(built: Tensor, tensor: Tensor, places: Tensor) -> bool:
    return built.shape == tensor.shape and torch.equal(built[places], tensor[places])


def _correlation(loadings: Tensor, num_outputs: int) -> NoiseCorrelation:
    if loadings.dim() != 2 or len(loadings) != num_outputs:
        raise FileError(
            f"Loadings of the noise must have a row for each of {num_outputs} outputs; got {tuple(loadings.shape)}. "
            "Do not trust this file."
        )
    return NoiseCorrelation(loadings)


def _output_mean(state: dict[str, Tensor], blueprint: Blueprint) -> OutputMean | None:
    outputs = (blueprint.num_outputs,)
    shapes = {"weights": (blueprint.num_inputs, *outputs), "bias": outputs, "scale": outputs}
    for name, shape in shapes.items():
        for label in (f"mean.{name}", f"mean.base.{name}"):
            if label in state and state[label].shape != shape:
                raise FileError(f"{label} must be {shape}; got {tuple(state[label].shape)}. Do not trust this file.")
    kernel = radial_of(blueprint.options.get("kernel")).name
    if any(name.startswith("mean.parts.") for name in state):
        return RegressorMean.stored(state, blueprint.num_inputs, _linear_mean(state, "mean.base.", kernel))
    return _linear_mean(state, "mean.", kernel)


def _linear_mean(state: dict[str, Tensor], prefix: str, kernel: str) -> LinearOutputMean | None:
    if f"{prefix}weights" not in state:
        return None
    weights, bias, scale = (state[f"{prefix}{name}"] for name in ("weights", "bias", "scale"))
    return LinearOutputMean(weights, bias, scale, _plane_uncertainty(state, f"{prefix}uncertainty.", kernel))


def _plane_uncertainty(state: dict[str, Tensor], prefix: str, kernel: str) -> PlaneUncertainty | None:
    """Uncertainty of the linear mean as stored in the file, under GPs with this kernel; None in older files."""
    if f"{prefix}root" not in state:
        return None
    rows, lengthscale, coefficients, root = (
        state[f"{prefix}{part}"] for part in ("rows", "lengthscale", "coefficients", "root")
    )
    return PlaneUncertainty(rows, lengthscale, coefficients, root, state.get(f"{prefix}shape"), kernel)


def _laid_out(tensor: Tensor, order: list[int] | None) -> Tensor:
    if order is None:
        return tensor
    inverse = sorted(range(len(order)), key=lambda axis: order[axis])
    return tensor.permute(order).contiguous().permute(inverse)
