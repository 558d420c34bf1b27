"""Timing that a noisy, shared machine cannot fool: interleaved repeats, medians, ratios."""

import statistics
import time
from collections.abc import Callable, Mapping


def interleaved(tasks: Mapping[str, Callable[[], object]], repeats: int, warm_up: int = 2) -> dict[str, float]:
    """Median seconds of each task, run in turn so that a slow spell hits all of them alike."""
    for task in tasks.values():
        for _ in range(warm_up):
            task()
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            began = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}
