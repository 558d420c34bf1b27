"""From data to a fitted model: the one function that users call."""

from typing import Any

import torch

from mogul import models
from mogul.data import Dataset, Scaling
from mogul.training.config import TrainingConfig
from mogul.training.fitted import Fitted
from mogul.training.history import History
from mogul.training.progress import TrainingProgress
from mogul.training.run import Run


def fit(data: Dataset, model: str = "n-mogp", config: TrainingConfig | None = None, **options: Any) -> Fitted:
    """Fit a model to data, standardised once, from the best of several random starts.

    Args:
        data: training data in their own units.
        model: one of `mogul.models.names()`.
        config: how to train.
        options: sizes and nonlinearity, as `mogul.models.build` takes them.

    Example:
        >>> data = Dataset([[0.0], [1.0], [2.0]], [[0.0], [1.0], [2.0]])
        >>> fitted = fit(data, "mogp", TrainingConfig(epochs=2, num_starts=1))
        >>> fitted.predict([[0.5]]).mean.shape
        (1, 1)
    """
    config = config or TrainingConfig()
    scaling = Scaling.of(data)
    batch = scaling.batch(data, config.dtype)
    seeds = torch.Generator().manual_seed(config.seed)
    runs = []
    for start in range(config.num_starts):
        generator = torch.Generator().manual_seed(int(torch.randint(2**62, (1,), generator=seeds)))
        built = models.build(model, batch.x, data.num_outputs, generator, **options)
        runs.append(Run(built, batch, config, generator, start))
    best = _best_of(runs, config, label=model)
    records = tuple(record for run in runs for record in run.records)
    return Fitted(
        model=best.model,
        scaling=scaling,
        input_names=data.input_names,
        output_names=data.output_names,
        history=History(records, best.start),
    )


def _best_of(runs: list[Run], config: TrainingConfig, label: str) -> Run:
    """Train each start for a while, and the best by training objective to the end."""
    trial = min(config.start_epochs, config.epochs) if len(runs) > 1 else config.epochs
    with TrainingProgress(config.epochs + (len(runs) - 1) * trial, label) as progress:
        for run in runs:
            run.train(trial, progress.advance)
        best = max(runs, key=lambda run: run.objective)
        best.train(config.epochs, progress.advance)
    return best
