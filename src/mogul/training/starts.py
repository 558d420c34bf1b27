"""Where training starts: from exact GPs or at random; one model, one set of rows, from its starts to what is fitted."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from jaxtyping import Bool, Int

from mogul import models
from mogul._typing import BoolArray, IntArray
from mogul.config import InferenceConfig, TrainingConfig
from mogul.core.check import HELD_OUT, VALIDATION, Unseen
from mogul.core.radial import radial_of
from mogul.core.transforms import Chain, TransformChoice, kinds_of
from mogul.data import Batch, Dataset, RowSource, Scaling
from mogul.data.advice import advice
from mogul.data.checks import require_some_of_each
from mogul.data.stored import Sample
from mogul.errors import ConfigError, DataError, unknown_name, warn
from mogul.fitted.blueprint import Blueprint
from mogul.fitted.fitted import Fitted, FittedLatent
from mogul.fitted.history import EpochRecord, History, TrainedRows
from mogul.fitted.mixture import FittedMixture
from mogul.heads.noise import noise_varies
from mogul.means.linear import LinearOutputMean, ZeroMean
from mogul.means.regressor import NUM_TREES, REGRESSORS, CrossFitted, RegressorMean, require_regressor
from mogul.models.families import AUTO, FROM_RESIDUALS
from mogul.models.model import Model, principal_scores
from mogul.models.parts import Parts
from mogul.objective import Analytic
from mogul.terminal import Bar
from mogul.training.check import is_of, left_out_rows, predicted_rows
from mogul.training.checkpoint import Checkpoint, identity_of
from mogul.training.defaults import FEW_ROWS, MOST_INDUCING, TRIED_ROWS, MeanChoice, MeanName
from mogul.training.exact import CLIMBED_ROWS
from mogul.training.exact_start import ExactStart
from mogul.training.kernel_choice import NamedStart, has_exact_gps, is_named
from mogul.training.latent_start import LatentStart
from mogul.training.loop import Run
from mogul.training.map_start import has_map_start, start_at_map
from mogul.training.noise import alternate, correlate
from mogul.training.restarts import Restarts
from mogul.training.split import digest_of, split_rows, warn_of_order
from mogul.training.team import ALONE, Team

OnEpoch = Callable[[EpochRecord, Model], None]
Options = Mapping[str, Any]
Autoregressive = bool | Literal["auto"]

_FEW = 10  # rows to build a model on, where only its parts are looked at
_OF_EACH = 20  # rows of each output among some that are drawn

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Saving:
    """What happens after an epoch: a callback, a checkpoint in a folder, at most once in `seconds`, and a bar."""

    on_epoch: OnEpoch | None = None
    folder: Path | None = None
    seconds: float = 60.0
    bar: Bar = field(default_factory=Bar)


@dataclass(frozen=True)
class Place:
    """Where training takes place: the device that models and batches are on, and the workers that share the work."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    team: Team = ALONE


@dataclass(frozen=True)
class Task:
    """One model to train on one set of rows.

    Args:
        data: all rows, those of validation included.
        model: the name of one model.
        config: how to train.
        mean: as `mogul.fit` takes it.
        num_inputs: the number of latent inputs, where they are latent.
        options: options of `mogul.models.build`; those that the model has no use for are left out.
        given_places: a digest of the places of validation rows, where they were given and not drawn.
        known: the rows to train on.
        scaling: of those rows.
        validation: the validation rows, scaled.
        saving: what happens after an epoch.
        kept: places of the rows to train on.
        units: numbers of all rows: those with the same number are left out together when a mean is cross-fitted.
        transform: of the outputs, as `mogul.fit` takes it.
        under: regressors under the linear mean, cross-fitted to the rows to train on.
        validated: places of the validation rows.
        checked: whether to predict rows that were not trained on, for the check.
        spared: places of rows that are neither trained on nor validated.
        autoregressive: whether outputs may be a chain: "auto" for incomplete ones where the evidence says so, or all.
        rival: options of a mogp from exact GPs of some rows, to be tried before this model; None for none.
        place: who trains, and on which device.
    """

    data: Dataset
    model: str
    config: TrainingConfig
    mean: MeanChoice
    num_inputs: int
    options: Options
    given_places: str | None
    known: Dataset
    scaling: Scaling
    validation: Batch | None
    saving: Saving
    kept: Int[IntArray, "K"]
    units: Int[IntArray, "N"]
    transform: TransformChoice = None
    under: CrossFitted | None = None
    validated: Int[IntArray, "W"] | None = None
    checked: bool = False
    spared: Int[IntArray, "C"] | None = None
    autoregressive: Autoregressive = False
    rival: Options | None = None
    place: Place = field(default_factory=Place)

    @staticmethod
    def of(
        data: Dataset,
        model: str,
        config: TrainingConfig,
        mean: MeanChoice,
        num_inputs: int | None,
        options: Options,
        held_out: Int[IntArray, "W"] | None,
        saving: Saving,
        units: Int[IntArray, "N"] | None = None,
        transform: TransformChoice = None,
        autoregressive: Autoregressive = False,
    ) -> "Task":
        """Split and scale the rows. Validation rows are excluded from everything else, scaling included."""
        _require_possible(data, model, config, mean, given=held_out is not None)
        if models.Name.parse(model).latent and any(kinds_of(transform, data.output_names)):
            raise ConfigError(
                f"transform needs a model with observed inputs; got {transform!r} with {model}. Transform outputs "
                "before the fit, and leave transform out."
            )
        kept, places = split_rows(data.num_rows, config.stopping, held_out, config.seed)
        spared = None
        if isinstance(data, Sample) and not len(places):
            kept, spared = np.setdiff1d(kept, data.held_out), data.held_out
        if len(places) and np.isnan(data.y[places]).all():
            raise DataError(
                f"Held-out rows must have known outputs; the {len(places)} held out have none. Hold out others."
            )
        known = data.rows(kept) if len(kept) < data.num_rows else data
        require_some_of_each(known.y, data.output_names)
        scaling = data.everything.scaling if isinstance(data, Sample) else Scaling.of(known, transform)
        return Task(
            data,
            model,
            config,
            mean,
            models.LATENT_INPUTS if num_inputs is None else num_inputs,
            options,
            digest_of(held_out),
            known,
            scaling,
            scaling.batch(data.rows(places), config.dtype) if len(places) else None,
            saving,
            kept,
            np.arange(data.num_rows) if units is None else units,
            transform,
            validated=places,
            spared=spared,
            autoregressive=autoregressive,
        )

    def chained(self, chain: Chain) -> "Task":
        """The same with autoregressive outputs."""
        scaling = self.scaling.with_chain(chain, self.known)
        rows = self.validated if self.validation is not None else None
        validation = None if rows is None else scaling.batch(self.data.rows(rows), self.config.dtype)
        return replace(self, scaling=scaling, validation=validation, autoregressive=False)

    def may_be_chained(self, exact: ExactStart | None, noise: str) -> bool:
        """Whether outputs may be autoregressive: where exact GPs end training, which leaves them independent."""
        options = self._useful(noise)
        kind = "constant" if noise == FROM_RESIDUALS else noise
        solved = exact is not None and exact.solves(self._build_small(kind, options))
        possible = solved and self.config.objective == "elbo" and self.mean == "linear"
        if self.autoregressive is True and not possible:
            raise ConfigError(
                "autoregressive=True needs a model that exact GPs solve, with the linear mean: mogp with a latent GP "
                f"for each output, up to 2,500 rows; got {self.model} with mean={self.mean!r} and {noise} noise. "
                "Leave it out."
            )
        return possible and self.data.num_outputs > 1

    def on_all_rows(self, rates: tuple[float, ...]) -> "Task":
        """The same without validation rows, with a learning rate for each epoch; 0 leaves a start as it is."""
        config = self.config.replaying(rates) if all(rates) else replace(self.config, stopping=None)
        kept = self.data, self.model, config, self.mean, self.num_inputs, self.options, None, self.saving, self.units
        return replace(Task.of(*kept, self.transform, self.autoregressive), place=self.place)

    @property
    def latent(self) -> bool:
        """Whether inputs are latent."""
        return models.Name.parse(self.model).latent

    def advise(self) -> None:
        """Warn of what looks wrong with the training rows, and of settings that have no effect on them."""
        noise = self.options.get("noise", "constant")
        if self.config.objective == "balanced" and noise not in (AUTO, FROM_RESIDUALS) and not noise_varies(noise):
            warn(
                "objective='balanced' needs noise that depends on the input, and changes nothing for another; "
                f"got noise={noise!r}. Try noise='gp'."
            )
        given = {name: self.options.get(name) for name in ("num_inducing", "num_mixing_inducing")}
        asked = {name: value for name, value in given.items() if isinstance(value, int) and value > 0}
        for finding in advice(self.known.without_inputs() if self.latent else self.known, asked):
            warn(finding.message)
        if self.validation is not None and self.given_places is None:  # drawn at random from rows in memory
            warn_of_order(self.data)

    def require_buildable(self, noise: str) -> None:
        """Check the values of the options by building the model on a few rows."""
        # gp-student-t has all options of the noises that residuals may choose.
        self._build_small("gp-student-t" if noise == FROM_RESIDUALS else noise, self._useful(noise))

    def fitted(self, noise: str, *place: str, exact: ExactStart | None = None) -> Fitted:
        """Train the model with this noise, from exact GPs or random restarts, and keep the best.

        Residuals of the exact GPs choose noise="residuals". Where they leave two kinds of noise, the larger ELBO does.
        `place` is the subfolder of the checkpoint, which training resumes from; `exact` is what `exact_gps` gave.
        """
        began = time.perf_counter()
        options = self._useful(noise)
        saved = self._checkpoint(options, place)
        batch, validation, regressor = self._batches()
        source = self._source(batch)
        exact = exact or self._exact_gps(batch, options, regressor)
        kernels = None if exact is None or exact.choice is None else exact.choice.evidence
        options |= {} if exact is None or kernels is None else {"kernel": exact.kernel}
        options |= self._found(batch, options, exact, regressor)
        noises, correlated = self._noises(options, exact)
        tried = []
        for kind in noises:
            built = options | {"noise": kind}
            runs = self._runs(batch, source, validation, built, exact, correlated=correlated, began=began)
            restarts = Restarts(runs)
            kept = restarts.train(
                self.model, self.saving.on_epoch, saved if len(noises) == 1 else None, self.saving.bar
            )
            for run in kept:
                run.model.to("cpu")
                if regressor is not None:  # training had residuals
                    run.model.mean = regressor if self.under is None else regressor.plus(run.model.mean)
            tried.append(self._kept(kept, restarts, batch, built))
        best = max(tried, key=lambda fitted: fitted.history.elbo[-1])
        best = best if kernels is None else replace(best, history=replace(best.history, kernels=kernels))
        return replace(best, unseen=self._unseen(best, exact, regressor)) if self.checked else best

    def _unseen(self, fitted: Fitted, exact: ExactStart | None, regressor: RegressorMean | None) -> Unseen | None:
        """Predictions of rows that were not trained on; None if there are none."""
        seed = self.config.seed
        if self.latent:
            return None
        self.saving.bar.stage("check")
        if self.spared is not None:
            return predicted_rows(fitted, self.data, self.spared, HELD_OUT, seed)
        if self.validated is not None and len(self.validated):
            return predicted_rows(fitted, self.data, self.validated, VALIDATION, seed)
        if exact is None or len(exact.batch.x) < self.known.num_rows or not self._is_solved(exact, fitted.model):
            return None
        unit = 1.0 if regressor is None or self.under is not None else regressor.scale
        unseen = left_out_rows(fitted, self.known, exact, unit, self.kept, seed)
        return unseen if is_of(unseen, fitted, self.known, seed) else None

    def _useful(self, noise: str) -> dict[str, Any]:
        """The options that the model has a use for with this noise, with the number of sites where they are learnt."""
        unused = models.unused_options(self.model, noise)
        useful = {name: value for name, value in self.options.items() if name not in unused} | {"noise": noise}
        learnt = self.config.objective == "predictive" and isinstance(self.config.expectation, Analytic)
        if useful.get("num_sites") is not None and not learnt:
            raise ConfigError(
                "num_sites needs objective='predictive' and expectation=Analytic(), which sites are learnt by; got "
                f"num_sites={useful['num_sites']} with objective={self.config.objective!r} and "
                f"{self.config.expectation}. Leave num_sites out, or train with TrainingConfig(objective='predictive')."
            )
        deep = models.Name.parse(self.model).recipe.deep
        return useful | ({"num_sites": models.SITES} if learnt and deep and "num_sites" not in useful else {})

    def _checkpoint(self, options: Options, place: tuple[str, ...]) -> Checkpoint | None:
        if self.saving.folder is None:
            return None
        mean = self.mean if isinstance(self.mean, str) else repr(self.mean)
        settings = {"model": self.model, "config": self.config, "mean": mean, "num_inputs": self.num_inputs}
        if self.spared is not None:
            settings["spared"] = digest_of(self.spared)
        if self.transform is not None:  # checkpoints of older versions have none
            settings["transform"] = self.transform
        if self.scaling.chain is not None:
            settings["chain"] = self.scaling.chain.weights.tolist()
        identity = identity_of(self.data, **settings, options=dict(options), held_out=self.given_places)
        return Checkpoint(self.saving.folder.joinpath(*place), identity, self.saving.seconds, self.place.team)

    def _source(self, batch: Batch) -> RowSource:
        """All rows to train on: those in memory, or those that they are a sample of."""
        if not isinstance(self.data, Sample):
            return batch
        bar, everything = self.saving.bar, self.data.everything
        bar.stage("writing the scaled rows", everything.num_rows)
        return self.place.team.on_each_machine(lambda: everything.stored(self.config.dtype, bar.reach))

    def _batches(self) -> tuple[Batch, Batch | None, RegressorMean | None]:
        """The rows to train on and to validate on: outputs, or what a regressor as the mean leaves of them."""
        batch, validation = self.scaling.batch(self.known, self.config.dtype), self.validation
        if self.under is None and not _is_regressor(self.mean):
            return batch, validation, None
        crossed = self.under or self.cross_fitted(self.mean)
        mean = crossed.mean.to(self.config.dtype)
        batch = replace(batch, y=batch.y - torch.as_tensor(crossed.predictions).to(batch.y))
        if validation is not None:
            validation = replace(validation, y=validation.y - mean.forward(validation.x))
        return batch, validation, mean

    def cross_fitted(
        self, regressor: MeanChoice, wanted: Bool[BoolArray, "P"] | None = None, num_trees: int = NUM_TREES
    ) -> CrossFitted:
        """Regressors of the rows to train on, for all outputs or those wanted; the others have a constant."""
        batch = self.scaling.batch(self.known, self.config.dtype)
        self.saving.bar.stage("forest" if regressor == "trees" else "mean")
        x, y = batch.x.double().numpy(), torch.where(batch.observed, batch.y, math.nan).double().numpy()
        if wanted is not None:
            y[:, ~wanted] = np.nan
        return CrossFitted.of(regressor, x, y, self.units[self.kept], self.config.seed, num_trees)

    def exact_gps(self, noise: str, *known: ExactStart, near: ExactStart | None = None) -> ExactStart | None:
        """The exact GPs that training starts from; those known are kept for outputs that have not changed.

        With `near`, exact GPs of nearly the same rows, there is no search.
        """
        batch, _, regressor = self._batches()
        options = self._useful(noise)
        return self._exact_gps(batch, options, regressor, known, near) if self._starts_exact(options) else None

    def _starts_exact(self, options: Options) -> bool:
        """Whether training starts from exact GPs, which some kernels do not have."""
        return self.config.start == "exact" and not self.latent and has_exact_gps(options.get("kernel"))

    def _exact_gps(
        self,
        batch: Batch,
        options: Options,
        regressor: RegressorMean | None,
        known: Sequence[ExactStart] = (),
        near: ExactStart | None = None,
    ) -> ExactStart | None:
        """Exact GPs of all rows to start from, or of some rows to find the noise and the linear mean alone."""
        if regressor is not None and self.under is None:
            batch = _in_units(batch, regressor)
        auto = options.get("kernel") == AUTO
        kernel = AUTO if auto else radial_of(options.get("kernel")).name
        if auto and self.latent:
            raise ConfigError(f"kernel='auto' needs a model with observed inputs; got {self.model}. Name a kernel.")
        plane, seed = self.mean == "linear", self.config.seed
        if self._starts_exact(options):
            # With Normal noise of one variance, downweighted rows would leave that variance too small.
            robust = options.get("noise", "constant") != "constant"
            fit = partial(ExactStart.of, seed=seed, plane=plane, robust=robust, kernel=kernel, bar=self.saving.bar)
            if len(batch) <= FEW_ROWS:
                return fit(batch, known=known, near=near)
            return fit(self._some(batch, TRIED_ROWS), rough=True, reweighted=1, times=len(batch) / TRIED_ROWS)
        if self.latent or (options.get("noise") != FROM_RESIDUALS and not plane and not auto):
            return None
        some = self._some(batch, CLIMBED_ROWS)
        return ExactStart.of(some, seed, plane=plane, rough=True, reweighted=0, kernel=kernel, bar=self.saving.bar)

    def _some(self, batch: Batch, number: int) -> Batch:
        """Rows drawn at random, but for some of each output, which come first: an output may be known in few rows."""
        order = torch.randperm(len(batch), generator=torch.Generator().manual_seed(self.config.seed))
        observed = batch.observed[order]
        of_each = (observed & (observed.cumsum(0) <= _OF_EACH)).any(1)
        return batch.rows(torch.cat([order[of_each], order[~of_each]])[:number])

    def _found(
        self, batch: Batch, options: Options, exact: ExactStart | None, regressor: RegressorMean | None
    ) -> dict[str, Any]:
        """The options of `build` that are found in the data: means and inducing points."""
        found: dict[str, Any] = {}
        if self.mean in ("zero", "constant"):
            found["latent_mean"] = self.mean
        if regressor is not None and self.under is None:
            found["output_mean"] = ZeroMean(self.data.num_outputs, regressor.scale)
        if self.mean == "linear":
            assert exact is not None
            found["output_mean"] = exact.mean if self._starts_exact(options) else self._plane(batch, exact)
        if exact is not None and self._starts_exact(options):
            most = options.get("num_inducing") or MOST_INDUCING
            found["inducing_points"] = exact.inducing_points(batch.x, most)
        return found

    def _plane(self, batch: Batch, exact: ExactStart) -> LinearOutputMean:
        """The linear mean of all rows to train on."""
        if isinstance(self.data, Sample):
            everything = self.data.everything
            return exact.plane_of(LinearOutputMean.of_sums(*everything.totals.standardised()), everything.num_rows)
        y = torch.where(batch.observed, batch.y, math.nan)
        return exact.plane_of(LinearOutputMean.fit(batch.x.double().numpy(), y.double().numpy()), len(batch))

    def _noises(self, options: Options, exact: ExactStart | None) -> tuple[tuple[str, ...], bool]:
        """The kinds of noise to train, and whether outputs' noises may be correlated: where exact GPs end training."""
        if options["noise"] != FROM_RESIDUALS:
            return (options["noise"],), False
        if exact is None:
            return ("constant",), False
        bound = self.config.objective == "elbo"
        if bound and self._starts_exact(options) and exact.solves(self._build_small("constant", options)):
            noises = exact.noises if exact.times == 1.0 else exact.noises[-1:]
            return noises, self.scaling.chain is None
        # Trained by gradient steps: noise depends on x where rows are many, or where the objective needs it.
        varying = self.config.objective == "balanced" or not self._starts_exact({})
        return (exact.varying_noise if varying else exact.noises[-1],), False

    def _build_small(self, noise: str, options: Options) -> Model:
        """The model on a few rows, to look at its parts."""
        some = self.scaling.batch(self.known.rows(np.arange(min(_FEW, self.known.num_rows))), self.config.dtype)
        given: dict[str, Any] = {**options, "noise": noise}
        given = {name: value for name, value in given.items() if (name, value) != ("kernel", AUTO)}
        return models.build(self.model, some.x, self.data.num_outputs, torch.Generator().manual_seed(0), **given)

    def _runs(
        self,
        batch: Batch,
        source: RowSource,
        validation: Batch | None,
        options: dict[str, Any],
        exact: ExactStart | None,
        *,
        correlated: bool,
        began: float,
    ) -> list[Run]:
        """The starts: models built from one seed each, moved to the exact GPs where training starts there."""
        _log.info("%s: %s, %s, solver %s", self.model, self.config, options, options.get("solver") or "Cholesky()")
        if self.latent and self.config.start == "exact" and options.get("kernel") is None:
            return [self._latent_run(batch, options, began)]
        x = principal_scores(batch.y, self.num_inputs) if self.latent else batch.x
        start_at = exact if self._starts_exact(options) else None
        seeds = torch.Generator().manual_seed(self.config.seed)
        config, kernel, runs, named = self.config, options.get("kernel"), [], None
        whole = config.start == "exact" and not self.latent and is_named(kernel)
        for start in range(config.num_kept if whole else config.num_starts):
            generator = torch.Generator().manual_seed(int(torch.randint(2**62, (1,), generator=seeds)))
            built = models.build(self.model, x, self.data.num_outputs, generator, **options)
            if start_at is not None:
                start_at.apply(built, generator)
                if self._is_solved(start_at, built):
                    self.saving.bar.stage("noise")
                    if built.head.noise.varies or start_at.times > 1.0:
                        alternate(built, batch, generator)
                    if correlated:
                        correlate(built, batch, generator)
                    start_at.widen(built)
                    # One for all: others would be the same.
                    return [Run(built, batch, config.solved(), generator, start, validation, began=began)]
            elif isinstance(kernel, str) and not self.latent:
                residual = replace(batch, y=built.mean.residual(batch.y, batch.x))
                named = named or NamedStart.of(kernel, residual)
                named.apply(built, residual, generator, posterior=whole)
            if config.start == "map" and not self.latent and has_map_start(built):
                start_at_map(built, batch, 1 + start % built.prior.num_latents, generator)
            built.to(self.place.device)
            runs.append(Run(built, source, config, generator, start, validation, team=self.place.team))
        return runs

    def _latent_run(self, batch: Batch, options: dict[str, Any], began: float) -> Run:
        """The start with latent inputs: a model moved to the maximum of the collapsed bound."""
        config, num_outputs = self.config, self.data.num_outputs
        generator = torch.Generator().manual_seed(config.seed)
        asked = Parts(batch.x, num_outputs, generator, models.Name.parse(self.model), options)
        start = LatentStart.of(
            batch,
            self.num_inputs,
            options["layers"][0][1] if options.get("layers") else asked.option("num_inducing"),
            num_starts=config.num_starts,
            seed=config.seed,
            ard=asked.option("ard"),
        )
        found = {**options, "inducing_points": start.inducing_points}
        built = models.build(self.model, start.gplvm.mean.to(batch.y), num_outputs, generator, **found)
        start.apply(built, generator)
        solved = self._is_solved(start, built)
        return Run(built, batch, config.solved() if solved else config, generator, began=began if solved else None)

    def _is_solved(self, exact: ExactStart | LatentStart, built: Model) -> bool:
        """Whether exact GPs leave nothing to train: the balanced objective is the ELBO where noise is constant in x."""
        bound = self.config.objective == "elbo" or (self.config.objective == "balanced" and not built.head.noise.varies)
        return bound and exact.solves(built)

    def _kept(self, kept: list[Run], restarts: Restarts, batch: Batch, options: dict[str, Any]) -> Fitted:
        """The best restart, or the mixture of several."""
        num_inputs = self.num_inputs if self.latent else batch.x.shape[1]
        blueprint = Blueprint.of(self.model, options, num_inputs, self.data.num_outputs, self.config)
        fitted = [self._of(run, restarts.history(run), batch, blueprint.solved_by(run.solver)) for run in kept]
        return FittedMixture.of(fitted) if len(fitted) > 1 else fitted[0]

    def _of(self, run: Run, history: History, batch: Batch, blueprint: Blueprint) -> Fitted:
        names = self.data.input_names, self.data.output_names
        if history.held_out is not None:
            # Validation rows were scored as they are modelled; scores are compared with those of other transforms.
            assert self.validated is not None
            gain = self.scaling.log_slope(self.data.rows(self.validated))
            history = replace(history, held_out=history.held_out + gain)
        if not self.latent:
            own, rows = self.data.encoding, TrainedRows.of(self.known, run.num_rows)
            fitted = Fitted(run.model, self.scaling, *names, history, blueprint=blueprint, encoding=own)
            return replace(fitted, trained_rows=rows)
        return FittedLatent(
            run.model,
            self.scaling.without_inputs(self.num_inputs),
            [f"latent{column}" for column in range(self.num_inputs)],
            names[1],
            history,
            training=batch,
            inference=InferenceConfig(expectation=self.config.expectation),
            blueprint=blueprint,
        )


def require_mean(name: str | None) -> MeanName | None:
    """A mean by its name, checked."""
    for known in get_args(MeanName):
        if name == known:
            return cast(MeanName, known)
    if name is None:
        return None
    raise unknown_name("mean", name, get_args(MeanName))


def _is_regressor(mean: MeanChoice) -> bool:
    return mean in REGRESSORS if isinstance(mean, str) else True


def _in_units(batch: Batch, regressor: RegressorMean) -> Batch:
    """Residuals in units of the head."""
    return replace(batch, y=batch.y / regressor.scale)


def _require_possible(data: Dataset, model: str, config: TrainingConfig, mean: MeanChoice, *, given: bool) -> None:
    """Check that the model has what this mean and this way to train need."""
    latent = models.Name.parse(model).latent
    if isinstance(mean, str):
        require_mean(mean)
    else:
        require_regressor(mean, get_args(MeanName))
    if latent and (mean in ("linear", AUTO) or _is_regressor(mean)):
        raise ConfigError(f"mean={mean!r} needs inputs that are observed; latent ones are not. Use 'paper'.")
    if latent and config.stopping and (config.stopping.held_out or given):
        raise ConfigError(
            "held_out must be 0 with latent inputs, which belong to the rows trained on. Watch the ELBO instead."
        )
    if latent and config.num_kept > 1:
        raise ConfigError(
            f"num_kept must be 1 with latent inputs, which each start finds for itself; got {config.num_kept}. "
            "Leave it out."
        )
    if not (latent or data.num_inputs):
        raise ConfigError(f"{model} needs inputs; the data have none. Give X, or fit '{model}-lvm'.")
