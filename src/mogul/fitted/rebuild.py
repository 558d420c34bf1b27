"""A model from its blueprint and its numbers, without the data it was built on."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from mogul import models
from mogul.errors import FileError
from mogul.fitted.blueprint import Blueprint
from mogul.heads import NoiseCorrelation
from mogul.means.linear import LinearOutputMean
from mogul.means.plane import PlaneUncertainty
from mogul.models.inputs import Latent
from mogul.models.model import Model

Layouts = dict[str, list[int]]

_DTYPES = {"float32": torch.float32, "float64": torch.float64}


def layouts_of(state: dict[str, Tensor]) -> Layouts:
    """The order in memory of the axes of those tensors where it is not the usual one.

    A matrix product rounds differently for a transposed layout: without it, predictions would differ in the last bit.

    >>> layouts_of({"a": torch.zeros(2, 3), "b": torch.zeros(2, 3).T})
    {'b': [1, 0]}
    """
    others = {name: tensor for name, tensor in state.items() if not tensor.is_contiguous()}
    return {name: _axes_by_stride(tensor.stride()) for name, tensor in others.items()}


def _axes_by_stride(strides: tuple[int, ...]) -> list[int]:
    return sorted(range(len(strides)), key=lambda axis: -strides[axis])


def rebuilt(blueprint: Blueprint, state: dict[str, Tensor], layouts: Layouts) -> Model:
    """The model with these numbers, in the mode for predictions.

    It is built on a stand-in for the inputs; sizes come from the tensors, since there may be fewer inducing points than
    were asked for, and since a file's word about a size must not take memory.
    """
    name = models.Name.parse(blueprint.model)
    sizes = _sizes(state, name.recipe.deep)
    _require_covered(sizes, blueprint, state)
    others = [sizes.get(name, 1) for name in ("num_mixing_inducing", "num_noise_inducing")]
    num_rows = max(*others, *(count for _, count in _layers(state, name.recipe.deep)))
    rows = torch.arange(num_rows, dtype=_DTYPES[blueprint.precision]) / num_rows
    stand_in = rows.unsqueeze(-1).repeat(1, blueprint.num_inputs)
    options = {**blueprint.options, **sizes, "output_mean": _output_mean(state)}
    model = models.build(blueprint.model, stand_in, blueprint.num_outputs, torch.Generator().manual_seed(0), **options)
    if name.latent:
        model.inputs = Latent(state["inputs.mean"])
    if "head.correlation.loadings" in state:
        model.head.correlation = _correlation(state["head.correlation.loadings"], blueprint.num_outputs)
    _require_same_kinds(model, state)
    laid_out = {label: _laid_out(tensor, layouts.get(label)) for label, tensor in state.items()}
    model.load_state_dict(laid_out, assign=True)
    return model.eval()


def _layers(state: dict[str, Tensor], deep: bool) -> list[tuple[int, int]]:
    """GPs and inducing points of each layer of the prior."""
    if not deep:
        return [_pair(state["prior.variational_mean"])]
    count = len({label.split(".")[2] for label in state if label.startswith("prior.layers.")})
    return [_pair(state[f"prior.layers.{number}.variational_mean"]) for number in range(count)]


def _sizes(state: dict[str, Tensor], deep: bool) -> dict[str, Any]:
    """The options of `build` that its tensors decide."""
    layers = _layers(state, deep)
    sizes: dict[str, Any] = {"layers": layers} if deep else {}
    sizes["num_latents"], sizes["num_inducing"] = layers[0]
    if "head.features.hidden_weights" in state:
        sizes["num_hidden"] = len(state["head.features.hidden_weights"])
    if "head.mixing.gps.variational_mean" in state:
        sizes["num_mixing_inducing"] = state["head.mixing.gps.variational_mean"].shape[1]
    if "prior.inner.logits" in state:
        sizes["num_sites"] = len(state["prior.inner.logits"])
    if "head.noise.gps.variational_mean" in state:
        sizes["num_noise_latents"], sizes["num_noise_inducing"] = _pair(state["head.noise.gps.variational_mean"])
    if "head.noise.loadings" in state:
        sizes["noise_rank"] = state["head.noise.loadings"].shape[1]
    return sizes


def _require_covered(sizes: dict[str, Any], blueprint: Blueprint, state: dict[str, Tensor]) -> None:
    """Whatever `build` will make must be in the file: sizes that belong to different models multiply."""
    layers = sizes.get("layers") or [(sizes["num_latents"], sizes["num_inducing"])]
    top = layers[-1][0]
    num_features = sizes.get("num_hidden", top)
    num_weights = blueprint.num_outputs * num_features
    needed = [num_latents * count**2 for num_latents, count in layers]
    needed += [below * count * num_latents for (below, _), (num_latents, count) in pairwise(layers)]
    needed += [num_weights, num_features * top, num_weights * sizes.get("num_mixing_inducing", 0) ** 2]
    needed += [sizes.get("num_noise_latents", 0) * sizes.get("num_noise_inducing", 0) ** 2]
    needed += [blueprint.num_outputs * sizes.get(part, 0) for part in ("num_noise_latents", "noise_rank")]
    needed += [num_latents * sizes.get("num_sites", 0) for num_latents, _ in layers[:-1]]
    needed += [blueprint.num_inputs * count for _, count in layers[:1]]
    stored = sum(tensor.numel() for tensor in state.values())
    if max(needed) > stored:
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


def _correlation(loadings: Tensor, num_outputs: int) -> NoiseCorrelation:
    if loadings.dim() != 2 or len(loadings) != num_outputs:
        raise FileError(
            f"Loadings of the noise must have a row for each of {num_outputs} outputs; got {tuple(loadings.shape)}. "
            "Do not trust this file."
        )
    return NoiseCorrelation(loadings)


def _output_mean(state: dict[str, Tensor]) -> LinearOutputMean | None:
    if "mean.weights" not in state:
        return None
    return LinearOutputMean(
        state["mean.weights"], state["mean.bias"], state["mean.scale"], uncertainty=_plane_uncertainty(state)
    )


def _plane_uncertainty(state: dict[str, Tensor]) -> PlaneUncertainty | None:
    """As it is in the file, each tensor as large as it is there; files of old have none."""
    if "mean.uncertainty.root" not in state:
        return None
    parts = ("rows", "lengthscale", "coefficients", "root")
    return PlaneUncertainty(*(state[f"mean.uncertainty.{part}"] for part in parts))


def _laid_out(tensor: Tensor, order: list[int] | None) -> Tensor:
    if order is None:
        return tensor
    inverse = sorted(range(len(order)), key=lambda axis: order[axis])
    return tensor.permute(order).contiguous().permute(inverse)


def _pair(tensor: Tensor) -> tuple[int, int]:
    rows, columns = tensor.shape
    return rows, columns
