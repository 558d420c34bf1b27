"""Fits of rows that stay on disk: a sample of them in memory, and batches from a scaled copy.

The sample decides what looks at some rows only: starts, inducing points, advice, the noise. Scales and the linear mean
are those of all rows. `FitRequest.fit` then goes its usual way; its loop asks the copy for batches.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from mogul.config import TrainingConfig
from mogul.data import Dataset
from mogul.data.sources.reading import Reading
from mogul.data.sources.row_files import RowFiles
from mogul.data.splits import group_numbers
from mogul.data.stored import SAMPLE_ROWS, HoldOut, Sample, gather, whole
from mogul.errors import ConfigError
from mogul.models.families import AUTO
from mogul.training.defaults import FEW_ROWS
from mogul.training.split import HELD_OUT_SHARE, held_out_share

if TYPE_CHECKING:
    from mogul.training.fit import FitRequest

# How many rows are held out for the check.
_CHECKED_SHARE, _FEWEST_CHECKED, _MOST_CHECKED = 0.02, 100, 500
_IN_MEMORY = "Leave it out, or raise the limit: --max-memory on the command line, max_memory in Python."


def named_files(X: Any, Y: Any, targets: Any, inputs: Any, groups: Any, *, latent: bool, reading: Reading) -> RowFiles:
    """The files that `mogul.fit` is given, with the columns asked for."""
    given = {"Y": Y, "long": reading.long, "categories": reading.categories or None, "missing": reading.missing or None}
    for argument, value in given.items():
        if value is not None:
            raise ConfigError(f"{argument} is for a table in memory; got it and rows on disk. {_IN_MEMORY}")
    if targets is None or not (groups is None or isinstance(groups, str)):
        raise ConfigError(
            "Columns of files must be named: outputs by targets, labels by groups; "
            f"got targets={targets!r}, groups={type(groups).__name__}. Name columns."
        )
    if latent:
        raise ConfigError("Models with latent inputs need rows in memory; got files. Read them into a frame.")
    names = [targets] if isinstance(targets, str) else targets
    return RowFiles.of(X, names, [inputs] if isinstance(inputs, str) else inputs, groups)


@contextmanager
def on_disk(
    request: "FitRequest", files: RowFiles, scratch: Path | None = None, sample_rows: int = SAMPLE_ROWS
) -> Iterator[tuple["FitRequest", Dataset]]:
    """The request for rows that stay on disk, and a sample of them; few rows are read into memory.

    Args:
        request: the model and how to train it.
        files: where the rows are.
        scratch: the folder of their scaled copy, which stays; by default one that is removed.
        sample_rows: how many rows are kept in memory.
    """
    team, bar = request.place.team, request.saving.bar
    if files.about_rows <= max(sample_rows, FEW_ROWS):
        data, labels = whole(files)
        yield replace(request, groups=None if labels is None else group_numbers(labels, data.num_rows)), data
        return
    _require_possible(request)
    with ExitStack() as stack:
        stack.enter_context(bar)
        folder = scratch or Path(team.first(lambda: stack.enter_context(TemporaryDirectory(prefix="mogul-"))))
        bar.stage("reading", files.about_rows)

        def read() -> Sample:
            return gather(files, _hold_out(request, files), folder, request.seed, sample_rows, bar.reach)

        sample = team.first(read)
        # Rows held out are of other groups than those trained on; all else about groups is settled.
        aside = np.isin(np.arange(sample.num_rows), sample.held_out).astype(np.int64)
        yield replace(request, groups=aside if files.groups is not None else None), sample


def _hold_out(request: "FitRequest", files: RowFiles) -> HoldOut:
    """Whole groups, the share asked for, or some rows to check the model by."""
    choosing = AUTO in (request.model, request.options.get("noise"))
    stopping = request.config.stopping if isinstance(request.config, TrainingConfig) else None
    asked = request.validation if isinstance(request.validation, float) else None
    share = asked or held_out_share(stopping, choosing=choosing)
    if files.groups is not None:
        return HoldOut.of_groups(files, share or HELD_OUT_SHARE, request.seed)
    if share is None:
        count = min(max(_CHECKED_SHARE * files.about_rows, _FEWEST_CHECKED), _MOST_CHECKED) if request.check else 0
        share = count / files.about_rows
    return HoldOut(share, request.seed)


def _require_possible(request: "FitRequest") -> None:
    """Refuse what needs all rows in memory."""
    named = request.mean is None or request.mean in ("linear", "paper", "zero", "constant")
    needs = {
        "mean": None if named else request.mean,
        "transform": request.transform,
        "autoregressive": request.autoregressive or None,
        "calibrate": request.calibrate,
        "held_out": request.held_out,
        "retrain": request.retrain or None,
        "quick": request.quick or None,
    }
    for name, value in needs.items():
        if value is not None:
            raise ConfigError(
                f"{name} needs all rows in memory; got {name}={value!r} and rows that stay on disk. {_IN_MEMORY}"
            )
