"""What each kind of noise costs in training: its step over that of constant noise, at the size of Kuka."""

from benchmarks.problem import Sizes
from benchmarks.steps import kuka_sizes, training_step
from benchmarks.timing import interleaved
from mogul.objective import Analytic
from mogul.registry import names

MODEL = "n-sbgprn"


def noise_ratios(repeats: int = 15, sizes: Sizes | None = None) -> dict[str, float]:
    """Milliseconds per step with constant noise, and every other noise's step over it."""
    sizes = sizes or kuka_sizes()
    steps = {noise: training_step(MODEL, Analytic(), sizes=sizes, noise=noise) for noise in names("noise")}
    seconds = interleaved(steps, repeats)
    constant = seconds.pop("constant")
    ratios = {f"{noise.replace('-', '_')}_noise_step_ratio": each / constant for noise, each in seconds.items()}
    return {"constant_noise_step_ms": 1e3 * constant} | ratios


def run() -> dict[str, float]:
    """The group's figures."""
    return noise_ratios()
