"""What a training is to choose among, or to mix."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mogul import models, registry
from mogul.errors import ConfigError, unknown_name
from mogul.models.families import AUTO, FROM_RESIDUALS, is_latent, members, suits
from mogul.training.choice import MODELS, NOISES

# Options of `build` that training finds: see `mean` and `TrainingConfig.start`.
_FOUND = ("latent_mean", "output_mean", "inducing_points")


@dataclass(frozen=True)
class Field:
    """Models and kinds of noise to choose among, or models to mix: one of each where both were named.

    Args:
        models: names of models.
        noises: kinds of noise.
        asked: what makes it a choice, as a user typed it.
        mixing: whether all of the models are wanted, and not the best.

    Example:
        >>> field = Field.of("auto", {"noise": "gp"}, num_outputs=3)
        >>> field.models, field.noises, field.choosing
        (('mogp', 'gprn', 'sbgprn', 'n-sbgprn'), ('gp',), True)
    """

    models: tuple[str, ...]
    noises: tuple[str, ...]
    asked: str
    mixing: bool

    @staticmethod
    def of(model: str, options: Mapping[str, Any], num_outputs: int) -> "Field":
        """What was asked for by a model's name and these options of `build`."""
        noise = options.get("noise", "constant")
        known = (AUTO, FROM_RESIDUALS, *registry.names("noise"))
        if noise not in known:
            raise unknown_name("noise", noise, known)
        each = tuple(name for name in MODELS if suits(name, num_outputs)) if model == AUTO else members(model)
        mixing = model != AUTO and len(each) > 1
        if noise == AUTO and mixing:
            raise ConfigError(f"noise='auto' is for a model by itself; got the mixture {model}. Name a noise.")
        if noise == AUTO and is_latent(model):
            raise ConfigError(
                f"noise='auto' needs rows to hold out, which latent inputs do not allow; got {model}. Name a noise."
            )
        asked = "model='auto'" if model == AUTO else "noise='auto'"
        return Field(each, NOISES if noise == AUTO else (noise,), asked, mixing)

    @property
    def choosing(self) -> bool:
        """Whether rows must be held out, to choose by."""
        return not self.mixing and (len(self.models) > 1 or len(self.noises) > 1)

    def require_used(self, options: Mapping[str, Any], num_inputs: int | None) -> None:
        """Check that there are such options, and that some candidate has a use for each."""
        known = [option for option in models.OPTIONS if option not in _FOUND]
        for option in options:
            if option not in known:
                raise unknown_name("option", option, known)
        (model, noise), *others = [(model, noise) for model in self.models for noise in self.noises]
        unused = models.unused_options(model, noise)
        for_others = {option for other in others for option in unused - models.unused_options(*other)}
        of_the_first = {name: value for name, value in options.items() if name not in for_others} | {"noise": noise}
        models.require_used(model, of_the_first)
        if num_inputs is not None and not is_latent(model):
            raise ConfigError(f"num_inputs is for latent inputs; got {num_inputs} for {model}. Leave it out.")
