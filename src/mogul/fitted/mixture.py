"""Mixtures of predictions: of several starts of a model, or of several models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from mogul._typing import Array
from mogul.core.check import Unseen
from mogul.data import Dataset
from mogul.errors import FitError, warn
from mogul.fitted.fitted import Fitted
from mogul.fitted.predictor import PooledPredictor, Predictor
from mogul.models.families import mixture
from mogul.prediction import Prediction


@dataclass(frozen=True, repr=False)
class FittedMixture(Fitted):
    """The best starts of a training, best first, or several models, with equal weights; `model` is the first.

    A prediction with S draws has S components of each member. Mixture weights are equal: weights by held-out density, a
    product over rows, would give all the weight to one start, which is selection and not a mixture.
    """

    members: tuple[Fitted, ...]

    @staticmethod
    def of(members: Sequence[Fitted]) -> "FittedMixture":
        """Mixture of models trained on the same rows with the same scaling; mixtures among them are flattened."""
        best = members[0]
        names = best.input_names, best.output_names
        models = [one for member in members for one in member.single_models]
        bare = {id(one): replace(one, unseen=None) for one in models}  # a model that counts twice stays one object
        each = tuple(bare[id(one)] for one in models)
        whole = FittedMixture(best.model, best.scaling, *names, best.history, each, blueprint=best.blueprint)
        unseen = Unseen.pooled([member.unseen for member in members])
        return replace(whole, encoding=best.encoding, trained_rows=best.trained_rows, unseen=unseen)

    def superseded_by(self, retrained: Fitted) -> Fitted:
        """`retrained`, with each member marked as retrained."""
        whole = super().superseded_by(retrained)
        if not isinstance(whole, FittedMixture):
            return whole
        each = [replace(member, history=replace(member.history, retrained=True)) for member in whole.members]
        return replace(whole, members=tuple(each))

    @property
    def model_name(self) -> str:
        """The names of its models."""
        return mixture(dict.fromkeys(member.model_name for member in self.members))

    @property
    def noise_name(self) -> str:
        """The names of its kinds of noise."""
        return ", ".join(dict.fromkeys(member.noise_name for member in self.members))

    @property
    def regressed_outputs(self) -> list[str]:
        """Those of any member."""
        used = {name for member in self.members for name in member.regressed_outputs}
        return [name for name in self.output_names if name in used]

    @property
    def noise_factors(self) -> int:
        """The largest number among the members."""
        return max(member.noise_factors for member in self.members)

    @property
    def noise_floor(self) -> float:
        """The smallest floor among the members."""
        return min(member.noise_floor for member in self.members)

    @property
    def is_solved(self) -> bool:
        """Whether every member is solved."""
        return all(member.is_solved for member in self.members)

    @property
    def single_models(self) -> tuple[Fitted, ...]:
        """The K models that were kept."""
        return self.members

    def _updated(self, data: Dataset, num_inducing: int | None, noise: bool) -> Fitted:
        """Each member learns the new rows."""
        each = [member._updated(data, num_inducing, noise) for member in self.members]
        return replace(FittedMixture.of(each), choice=self.choice)

    def _predict(self, x: Any, num_samples: int, seed: int) -> Prediction:
        return Prediction.pooled([member._predict(x, num_samples, seed) for member in self.members])

    def _functions(self, x: Any, num_samples: int, seed: int) -> Float[Array, "S N P"]:
        return self._by_member([member._functions(x, num_samples, seed) for member in self.members], seed)

    def _noise(self, x: Any, num_samples: int, seed: int) -> Float[Array, "S N P"]:
        return self._by_member([member._noise(x, num_samples, seed) for member in self.members], seed)

    def _by_member(self, draws: list[Float[Array, "S N P"]], seed: int) -> Float[Array, "S N P"]:
        """Each draw from a random member; the same seed chooses the same members for functions and noise."""
        num_samples = len(draws[0])
        chosen = np.random.default_rng(seed).integers(len(draws), size=num_samples)
        return np.stack(draws)[chosen, np.arange(num_samples)]

    def _predictor(self, num_samples: int, seed: int, precision: torch.dtype | None) -> Predictor | PooledPredictor:
        return PooledPredictor([Predictor.of(member.model, num_samples, seed, precision) for member in self.members])


def mixture_of(models: Sequence[str], train: Callable[[str], Fitted]) -> Fitted:
    """The mixture of these models, trained one after the other.

    A model that fails is skipped; after Ctrl-C the mixture has the models completed so far.
    """
    done: list[Fitted] = []
    for place, name in enumerate(models):
        try:
            fitted = train(name)
        except FitError as error:
            if place == len(models) - 1 and not done:
                raise
            warn(f"{name} failed and is not in the mixture. {error}")
            continue
        except KeyboardInterrupt:
            if not done:
                raise
            return _of_some(done, models, name)
        if fitted.history.interrupted:
            return _of_some(done, models, name) if done else fitted
        done.append(fitted)
    done = _counting_the_same(done)
    if len({fitted.num_members for fitted in done}) > 1:
        warn("Models should have equally many starts in the mixture; some starts failed, so their model counts less.")
    return FittedMixture.of(done) if len(done) > 1 else done[0]


def _counting_the_same(done: list[Fitted]) -> list[Fitted]:
    """Repeat a solved model, which has one start, so that all models have the same weight."""
    most = max(fitted.num_members for fitted in done)
    return [
        FittedMixture.of([fitted] * most) if fitted.is_solved and fitted.num_members < most else fitted
        for fitted in done
    ]


def _of_some(done: list[Fitted], models: Sequence[str], name: str) -> Fitted:
    warn(f"All of {', '.join(models)} should be trained; {name} was interrupted. The mixture is of those before it.")
    whole = FittedMixture.of(done) if len(done) > 1 else done[0]
    return replace(whole, history=replace(whole.history, interrupted=True))
