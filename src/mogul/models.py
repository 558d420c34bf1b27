"""The paper's models by name, each a short composition of inputs × prior × head."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mogul import nonlinearities
from mogul.errors import require_positive, unknown_name
from mogul.heads import BayesianMixing, GaussianNoise, Head, Identity, Neural
from mogul.inputs import Observed
from mogul.model import Model
from mogul.nonlinearities import Nonlinearity
from mogul.priors import IndependentGPs, MeanName, kmeans, randomise, rbf


@dataclass(frozen=True)
class Plan:
    """Everything a composition needs: the training inputs, the sizes, the nonlinearity, the generator of its start."""

    x: Float[Tensor, "N D"]
    num_outputs: int
    num_latents: int
    num_hidden: int
    num_inducing: int
    nonlinearity: Nonlinearity
    generator: torch.Generator

    def gps(self, mean: MeanName) -> IndependentGPs:
        """L sparse GPs on the inputs, k-means inducing points, at a random start."""
        inducing = kmeans(self.x, self.num_inducing, self.generator)
        prior = IndependentGPs(rbf(self.x.shape[1], self.num_latents), inducing, self.num_latents, mean=mean)
        randomise(prior, self.generator, spread=0.1, scale=0.1)
        return prior

    def hidden_units(self) -> Neural:
        """H hidden units on L latent functions."""
        return Neural(self.nonlinearity, self.num_latents, self.num_hidden, self.generator)

    def mixing(self, num_features: int) -> BayesianMixing:
        """A Bayesian P × H matrix."""
        return BayesianMixing(self.num_outputs, num_features, self.generator)


@dataclass(frozen=True)
class Recipe:
    """A named composition, with the paper's sizes as defaults."""

    compose: Callable[[Plan], Model]
    description: str
    equation: str
    nonlinearity: str = "erf"
    num_inducing: int = 400


def mogp(plan: Plan) -> Model:
    """Multi-output GP, section 3.1.1."""
    head = Head(Identity(plan.num_latents), plan.mixing(plan.num_latents), GaussianNoise(plan.num_outputs))
    return Model(Observed(), plan.gps(mean="constant"), head)


def n_mogp(plan: Plan) -> Model:
    """Neural multi-output GP, section 3.1.5; its GPs have zero means, since its units have biases."""
    head = Head(plan.hidden_units(), plan.mixing(plan.num_hidden), GaussianNoise(plan.num_outputs))
    return Model(Observed(), plan.gps(mean="zero"), head)


RECIPES: dict[str, Recipe] = {
    "mogp": Recipe(mogp, "latent GPs, linearly mixed", "eqn:mogp"),
    "n-mogp": Recipe(n_mogp, "latent GPs through a layer of hidden units", "eqn:nmogp", nonlinearity="sherf"),
}


def names() -> list[str]:
    """The names that `build` knows."""
    return list(RECIPES)


def build(
    name: str,
    x: Float[Tensor, "N D"],
    num_outputs: int,
    generator: torch.Generator,
    *,
    num_latents: int | None = None,
    num_hidden: int | None = None,
    num_inducing: int | None = None,
    nonlinearity: str | Nonlinearity | None = None,
) -> Model:
    """The model of this name at a random start, in the precision of x.

    Args:
        name: one of `names()`.
        x: standardised training inputs: inducing points start at their k-means centres.
        num_outputs: the number P of outputs.
        generator: draws the start.
        num_latents: the number L of GPs; ⌈P/2⌉ by default.
        num_hidden: the number H of hidden units; 2P by default.
        num_inducing: the number M of inducing points.
        nonlinearity: a name, or any `Nonlinearity`.
    """
    recipe = RECIPES.get(name)
    if recipe is None:
        raise unknown_name("model", name, RECIPES)
    require_positive(num_outputs=num_outputs)
    chosen = nonlinearity or recipe.nonlinearity
    plan = Plan(
        x=x,
        num_outputs=num_outputs,
        num_latents=math.ceil(num_outputs / 2) if num_latents is None else num_latents,
        num_hidden=2 * num_outputs if num_hidden is None else num_hidden,
        num_inducing=recipe.num_inducing if num_inducing is None else num_inducing,
        nonlinearity=nonlinearities.by_name(chosen) if isinstance(chosen, str) else chosen,
        generator=generator,
    )
    require_positive(num_latents=plan.num_latents, num_hidden=plan.num_hidden, num_inducing=plan.num_inducing)
    return recipe.compose(plan).to(x.dtype)
