"""Draws of a fitted model in the user's units, as tensors: whole functions, fresh marginals, and noise."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from mogul.core.base_samples import HeldNormals
from mogul.core.moments import Marginals, standard_normal
from mogul.errors import ConfigError, ShapeError, require_natural, require_positive
from mogul.fitted.fitted import Fitted
from mogul.fitted.predictor import Predictor, replace_modules
from mogul.means.plane import FrozenPlaneUncertainty, PathwisePlane, PlaneUncertainty
from mogul.models.model import Model, Observed
from mogul.priors import IndependentGPs
from mogul.priors.pathwise import FreshGPs, PathwiseGPs

Kind = Literal["functions", "marginals"]


@dataclass(frozen=True)
class FunctionDraws:
    """S draws from a fitted model, each one function wherever it is evaluated: pathwise, at a constant cost per point.

    `Fitted.draw_functions` makes them. Draws of a mixture belong to its members in turn. Everything is differentiable
    in x, in float64 and the user's units; what is between has the model's precision.

    Args:
        members: the draws of each model.
        places: the draws that belong to each model.
    """

    members: "tuple[DrawnModel, ...]"
    places: tuple[slice, ...]
    num_draws: int

    @staticmethod
    def of(fitted: Fitted, num_draws: int, seed: int = 0, kind: Kind = "functions") -> "FunctionDraws":
        """Draw them, or with kind="marginals" prepare draws that are new at each point."""
        require_positive(num_draws=num_draws)
        require_natural(seed=seed)
        _require_drawable(fitted)
        models = fitted.single_models[:num_draws]
        places = tuple(slice(number, None, len(models)) for number in range(len(models)))
        stretch = None if fitted.calibration is None else torch.as_tensor(fitted.calibration.stretch)
        generator = torch.Generator().manual_seed(seed)
        members = tuple(
            DrawnModel.of(model, len(range(num_draws)[own]), generator, stretch, kind)
            for model, own in zip(models, places, strict=True)
        )
        return FunctionDraws(members, places, num_draws)

    def __call__(self, x: Float[Tensor, "*S N D"], generator: torch.Generator | None = None) -> Float[Tensor, "S N P"]:
        """The noise-free outputs of each draw, at its own points (S, N, D) or at the same ones (N, D).

        The generator is for the white noise of a gprn's kernel, which is new at each point.
        """
        return self._joined([member.functions(rows, generator) for member, rows in self._each(x)])

    def marginals(self, x: Float[Tensor, "*S N D"], generator: torch.Generator) -> Float[Tensor, "S N P"]:
        """Draws of the noise-free outputs that are new at each point and call."""
        return self._joined([member.marginals(rows, generator) for member, rows in self._each(x)])

    def noise(self, x: Float[Tensor, "*S N D"], generator: torch.Generator) -> Float[Tensor, "S N P"]:
        """Draws of the noise, new at each point and call."""
        return self._joined([member.noise(rows, generator) for member, rows in self._each(x)])

    def _each(self, x: Tensor) -> "list[tuple[DrawnModel, Tensor]]":
        rows = x.expand(self.num_draws, *x.shape) if x.dim() == 2 else x
        num_inputs = len(self.members[0].input_shift)
        if rows.dim() != 3 or rows.shape[0] != self.num_draws or rows.shape[-1] != num_inputs:
            raise ShapeError(
                f"x must be (N, D) or (S, N, D) with S = {self.num_draws} and D = {num_inputs}; got {tuple(x.shape)}. "
                "Give each draw its points, or all the same."
            )
        return [(member, rows[own]) for member, own in zip(self.members, self.places, strict=True)]

    def _joined(self, parts: list[Tensor]) -> Tensor:
        if len(parts) == 1:
            return parts[0]
        order = torch.cat([torch.arange(self.num_draws)[own] for own in self.places])
        return torch.cat(parts)[order.argsort()]


@dataclass(frozen=True)
class DrawnModel:
    """One model whose functions were drawn, with its units.

    Args:
        model: with `PathwiseGPs` or `FreshGPs` in place of its GPs.
        normals: the numbers of all draws but those of the GPs.
        mean: for the mean that calibrated draws are stretched around.
        stretch: factor on deviations from the mean, if calibrated.
        chain: the matrix from what is modelled to outputs, if these are a chain.
    """

    model: Model
    normals: HeldNormals
    input_shift: Float[Tensor, "D"]
    input_scale: Float[Tensor, "D"]
    output_shift: Float[Tensor, "P"]
    output_scale: Float[Tensor, "P"]
    mean: Predictor | None = None
    stretch: Float[Tensor, "P"] | None = None
    chain: Float[Tensor, "P P"] | None = None

    @staticmethod
    def of(
        fitted: Fitted, num_draws: int, generator: torch.Generator, stretch: Tensor | None, kind: Kind
    ) -> "DrawnModel":
        """From one model; `stretch` is that of the mixture it belongs to."""
        own, scaling = fitted.model, fitted.scaling
        model = Model(Observed(), deepcopy(own.prior), deepcopy(own.head), deepcopy(own.mean))
        if kind == "functions":
            replace_modules(model.head.noise, IndependentGPs, FreshGPs.of)  # noise is new at each point
            replace_modules(model, IndependentGPs, lambda gps: PathwiseGPs(gps, num_draws, generator))
            replace_modules(model, PlaneUncertainty, lambda plane: PathwisePlane(plane, num_draws, generator))
        replace_modules(model, IndependentGPs, FreshGPs.of)
        replace_modules(model, PlaneUncertainty, FrozenPlaneUncertainty)
        return DrawnModel(
            model.to(own.mean.scale).eval().requires_grad_(False),
            HeldNormals(num_draws, generator, own.mean.scale),
            torch.as_tensor(scaling.inputs.shift),
            torch.as_tensor(scaling.inputs.scale),
            torch.as_tensor(scaling.modelled.shift),
            torch.as_tensor(scaling.modelled.scale),
            mean=None if stretch is None else Predictor.of(own),
            stretch=stretch,
            chain=None if scaling.chain is None else torch.as_tensor(scaling.chain.matrix),
        )

    def functions(self, x: Float[Tensor, "S N D"], generator: torch.Generator | None = None) -> Float[Tensor, "S N P"]:
        """The drawn functions at points of their own."""
        rows = self.standardised(x)
        return self.stretched(self.in_units(self.model.functions(rows, self.normals.at(x.shape[1], generator))), rows)

    def marginals(self, x: Float[Tensor, "S N D"], generator: torch.Generator) -> Float[Tensor, "S N P"]:
        """Fresh draws from the marginals at x: outputs of a point share the draw of the latent GPs."""
        rows = self.standardised(x).flatten(0, 1)
        q: Marginals = self.model.prior(rows, 1, generator)
        given = self.model.head.given_f(q.sample(1, generator), rows, generator)
        signal = self.model.mean.restore(given, rows)
        drawn = signal.mean + signal.var.sqrt() * standard_normal(signal.mean.shape, generator, like=rows)
        return self.stretched(self.in_units(drawn.reshape(*x.shape[:-1], -1)), rows.reshape(x.shape))

    def noise(self, x: Float[Tensor, "S N D"], generator: torch.Generator) -> Float[Tensor, "S N P"]:
        """Draws of the noise: each point its own."""
        rows = self.standardised(x).flatten(0, 1)
        drawn = self.model.mean.scale * self.model.head.draw_noise(rows, generator)
        noise = self._chained(self.output_scale * drawn.double()).reshape(*x.shape[:-1], -1)
        return noise if self.stretch is None else self.stretch * noise

    def standardised(self, x: Tensor) -> Tensor:
        """Inputs as the model has them."""
        return ((x.double() - self.input_shift) / self.input_scale).to(self.normals.like)

    def in_units(self, values: Float[Tensor, "*S P"]) -> Float[Tensor, "*S P"]:
        """The model's outputs in the user's units."""
        return self._chained(values.double() * self.output_scale + self.output_shift)

    def _chained(self, values: Tensor) -> Tensor:
        return values if self.chain is None else values @ self.chain.mT

    def stretched(self, values: Float[Tensor, "S N P"], rows: Float[Tensor, "*S N D"]) -> Float[Tensor, "S N P"]:
        """Outputs at these standardised inputs, farther from the mean where the model was calibrated so."""
        if self.stretch is None or self.mean is None:
            return values
        mean = self.in_units(self.mean.forward(rows.reshape(-1, rows.shape[-1]))[0]).reshape(values.shape)
        return mean + self.stretch * (values - mean)


def _require_drawable(fitted: Fitted) -> None:
    if fitted.is_latent:
        raise ConfigError("Draws need a model with observed inputs; this one infers its inputs. Fit with X.")
    if fitted.transforms:
        name, words = next(iter(fitted.transforms.items()))
        raise ConfigError(
            f"Draws as tensors need outputs without a transform; {name!r} has {words}. "
            "Draw by modelled.draw_functions, and undo the transform."
        )
