"""All that the rest of a run depends on, between two epochs: to be kept, put back, and written down."""

from dataclasses import dataclass

import torch
from torch import Tensor

from mogul.models.model import Model

_MODEL, _OPTIMISER, _GENERATOR, _STEP = "model.", "optimiser.", "generator", "step"


@dataclass(frozen=True)
class RunState:
    """A run between two epochs: its numbers, and what it has counted and watched so far."""

    tensors: dict[str, Tensor]
    num_epochs: int
    num_steps: int
    clock: int
    watched: tuple[float, ...]
    best_score: float
    best_epochs: int
    best: dict[str, Tensor]  # of the model, where rows are held out and some epoch was watched


@torch.no_grad()
def copied_tensors(model: Model, optimiser: torch.optim.Optimizer, generator: torch.Generator) -> dict[str, Tensor]:
    """Copies of the numbers of a model, of its optimiser and of its generator, by name."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    tensors = {_MODEL + name: tensor.clone() for name, tensor in model.state_dict().items()}
    for parameter, parts in optimiser.state.items():
        for part, tensor in parts.items():
            tensors[f"{_OPTIMISER}{part}.{names[parameter]}"] = tensor.clone()
    return tensors | {_GENERATOR: generator.get_state()}


@torch.no_grad()
def put_back(
    tensors: dict[str, Tensor], model: Model, optimiser: torch.optim.Optimizer, generator: torch.Generator
) -> None:
    """Make all three what they were, bit for bit; the copies stay as they are."""
    model.load_state_dict(
        {name.removeprefix(_MODEL): tensor for name, tensor in tensors.items() if name.startswith(_MODEL)}
    )
    parameters = dict(model.named_parameters())
    optimiser.state.clear()
    for label, tensor in tensors.items():
        if label.startswith(_OPTIMISER):
            part, _, name = label.removeprefix(_OPTIMISER).partition(".")
            # The fused optimiser reads averages in the order in memory of their parameter.
            kept = tensor.clone() if part == _STEP else torch.empty_like(parameters[name]).copy_(tensor)
            optimiser.state[parameters[name]][part] = kept
    generator.set_state(tensors[_GENERATOR])
