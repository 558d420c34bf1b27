"""Draw the pictures of the page on scores: one for each score, with Normal predictions made up for it.

python docs/scores.py
"""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from scipy.stats import norm

from mogul.plot.style import BLUE, GREY, VERMILION, add_legend

IMAGES = Path(__file__).resolve().parent / "images"
SIZE = (5.4, 3.0)


def main() -> None:
    """All four."""
    matplotlib.use("Agg")
    for draw in (log_likelihood, error, crps, coverage):
        figure, ax = plt.subplots(figsize=SIZE, layout="constrained")
        ax.spines[["top", "right"]].set_visible(False)
        draw(ax)
        figure.savefig(IMAGES / f"scores_{draw.__name__}.png", dpi=120)
        plt.close(figure)


def log_likelihood(ax: plt.Axes) -> None:
    """Three predictions of one value: their log densities there."""
    y = np.linspace(-3.5, 3.5, 400)
    for std, colour, words in ((0.25, VERMILION, "too sure"), (1.0, BLUE, "right"), (3.0, GREY, "too unsure")):
        ax.plot(y, norm.pdf(y, 0, std), color=colour, label=f"{words}: log density {norm.logpdf(1.0, 0, std):.1f}")
    ax.axvline(1.0, color="black", lw=1, ls="--", label="true value")
    ax.set(xlabel="output", ylabel="predicted density", ylim=(0, 1.7))
    add_legend(ax)


def error(ax: plt.Axes) -> None:
    """Predicted against true values: errors beside the spread of the outputs."""
    rng = np.random.default_rng(1)
    true = rng.normal(size=60)
    mean = true + 0.3 * rng.normal(size=60)
    score = np.sqrt(np.mean((true - mean) ** 2)) / true.std()
    ax.vlines(true, true, mean, color=VERMILION, lw=1, label="errors")
    ax.plot(true, mean, "o", color=BLUE, ms=3.5, mew=0, label=f"predictions: {score:.2f} of the spread")
    ends = np.array([true.min(), true.max()])
    ax.plot(ends, ends, color="black", lw=1, label="no error: 0")
    ax.axhline(true.mean(), color=GREY, ls="--", lw=1, label="always the mean: 1")
    ax.set(xlabel="true value", ylabel="predicted mean")
    add_legend(ax)


def crps(ax: plt.Axes) -> None:
    """The area between the predicted distribution function and the step at the true value."""
    y = np.linspace(-3, 3, 400)
    cdf, step = norm.cdf(y), (y >= 1.0).astype(float)
    value = 1.0 * (2 * norm.cdf(1.0) - 1) + 2 * norm.pdf(1.0) - 1 / np.sqrt(np.pi)  # Gneiting & Raftery 2007
    ax.fill_between(y, 0, (cdf - step) ** 2, color=VERMILION, alpha=0.3, lw=0, label=f"area = CRPS = {value:.2f}")
    ax.plot(y, cdf, color=BLUE, label="predicted distribution function")
    ax.plot(y, step, color="black", lw=1, ls="--", label="step at the true value")
    ax.set(xlabel="output", ylabel="probability")
    add_legend(ax, loc="upper left")


def coverage(ax: plt.Axes) -> None:
    """Intervals of 80 %: four of five hold the true value."""
    rng = np.random.default_rng(3)
    x = np.arange(25)
    mean = np.sin(x / 4)
    true = mean + 0.4 * rng.normal(size=25)
    reach = 0.4 * norm.ppf(0.9)
    inside = np.abs(true - mean) < reach
    ax.vlines(x, mean - reach, mean + reach, color=BLUE, lw=3, alpha=0.3, label="80 % intervals")
    ax.plot(x[inside], true[inside], "o", color=BLUE, ms=4, mew=0, label=f"inside: {inside.sum()} of 25")
    ax.plot(x[~inside], true[~inside], "x", color=VERMILION, ms=6, label=f"outside: {(~inside).sum()}")
    ax.set(xlabel="row", ylabel="output")
    add_legend(ax)


if __name__ == "__main__":
    main()
