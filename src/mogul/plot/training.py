"""How training went."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from mogul.plot.style import BLUE, FAINT, add_legend, axes_or_new, draw_marks, fitted_of


def learning_curve(model: Any, *, ax: Axes | None = None) -> Axes:
    """The training objective, epoch by epoch, of each random start.

    The first tenth of the epochs, where it rises steeply, may lie below the axes.

    Args:
        model: a fitted estimator, or what `mogul.fit` gave; for a mixture of models, the first is drawn, and `members`
            has the others.
        ax: where to draw.
    """
    history = fitted_of(model).history
    frame = history.frame()
    ax = axes_or_new(ax)
    others = frame[frame["start"] != history.chosen_start]
    for number, (_, records) in enumerate(others.groupby("start")):
        ax.plot(1 + records["epoch"], records["elbo"], color=FAINT, lw=1, label=None if number else "other starts")
    chosen = frame[frame["start"] == history.chosen_start]
    epochs, elbo = 1 + chosen["epoch"].to_numpy(), chosen["elbo"].to_numpy()
    ax.plot(epochs, elbo, color=BLUE, lw=1.8, label="best start" if len(others) else "training")
    changes = epochs[1:][np.diff(chosen["learning_rate"].to_numpy()) < 0]
    if len(changes):
        draw_marks(ax, changes, label="learning rate lowered")
    late = elbo[len(elbo) // 10 :]
    spread = max(late.max() - late.min(), 1e-9)
    ax.set_ylim(late.min() - 0.05 * spread, elbo.max() + 0.05 * spread)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("epoch")
    ax.set_ylabel("ELBO, whole data set")
    add_legend(ax, loc="lower right")
    return ax
