"""What a model was built from, so that it can be built again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mogul.config import Precision, TrainingConfig
from mogul.priors import Solver


@dataclass(frozen=True)
class Blueprint:
    """What `mogul.models.build` was told, and how training went about it: all of a model but its numbers.

    Args:
        model: one of `mogul.models.names()`.
        options: as `build` takes them, without what is made of numbers: output mean and inducing points.
        num_inputs: the number D of inputs, observed or latent.
        num_outputs: the number P of outputs.
        precision: of the model's numbers.
        config: how the model was trained; None forgets it.

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
