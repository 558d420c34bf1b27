"""More training of a fitted model: on the same rows, or on others."""

from copy import deepcopy
from dataclasses import replace

import torch

from mogul.data import Dataset
from mogul.errors import ConfigError
from mogul.fitted.fitted import Fitted, FittedLatent
from mogul.fitted.mixture import FittedMixture
from mogul.training.course import best_trained
from mogul.training.held_out import divided
from mogul.training.run import Run
from mogul.training.starts import Starts


def train_more(fitted: Fitted, data: Dataset, epochs: int | None = None, seed: int = 0) -> Fitted:
    """Go on from where a training ended, under the scaling that it had; the model given is left as it is.

    Only these rows are learnt from: to keep what others taught, they must be among them.

    Args:
        fitted: where to start.
        data: rows with the same columns.
        epochs: how many more; as many as the training had by default.
        seed: of everything random.

    Example:
        >>> from mogul import TrainingConfig, fit
        >>> data = Dataset([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]])
        >>> fitted = fit(data, model="mogp", config=TrainingConfig(epochs=2, num_starts=1))
        >>> len(train_more(fitted, data, epochs=3).history.elbo)
        5
    """
    if isinstance(fitted, FittedMixture):
        more: list[Fitted] = []
        for place, member in enumerate(fitted.members):
            interrupted = bool(more) and more[-1].history.interrupted  # Ctrl-C ends all of it
            more.append(member if interrupted else train_more(member, data, epochs, seed + place))
        return replace(FittedMixture.of(more), choice=fitted.choice)
    blueprint = fitted.blueprint
    config = blueprint.config if blueprint else None
    if blueprint is None or config is None or isinstance(fitted, FittedLatent):
        raise ConfigError(
            "More training needs a model with observed inputs that fit made; this one is not. Fit it anew."
        )
    # Rates that were replayed, one for each epoch, are of that training alone.
    config = replace(
        config,
        epochs=config.epochs if epochs is None else epochs,
        rates=None,
        anneal_epochs=0,
        num_starts=1,
        num_kept=1,
    )
    generator = torch.Generator().manual_seed(seed)
    batch = fitted.scaling.batch(data.in_order(fitted.input_names, fitted.output_names), config.dtype)
    if config.stopping and fitted.choice is not None:  # rows were held out to choose by, and that is done
        config = replace(config, stopping=replace(config.stopping, held_out=0.0))
    # By the seed of the first training: the same rows, given again, have the same ones held out.
    kept, watched = (torch.as_tensor(rows) for rows in divided(len(batch), config.stopping, None, config.seed))
    known, held_out = (batch.rows(kept), batch.rows(watched)) if len(watched) else (batch, None)
    history = fitted.history
    starts = Starts([Run(deepcopy(fitted.model), known, config, generator, held_out=held_out)], config)
    (run,) = best_trained(starts, blueprint.model)
    done = len(history.elbo)
    records = [replace(record, epoch=done + record.epoch, start=history.chosen_start) for record in run.records]
    return replace(
        fitted,
        model=run.model,
        calibration=None,  # of another model
        history=replace(starts.history(run), records=(*history.records, *records), chosen_start=history.chosen_start),
        blueprint=blueprint.solved_by(run.solver),
    )
