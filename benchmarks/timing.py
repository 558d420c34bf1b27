"""Timing that a noisy, shared machine cannot fool: interleaved repeats, medians, ratios; a watch that can pause."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager


def interleaved(
    tasks: Mapping[str, Callable[[], object]], repeats: int, warm_up: int = 2, calls: int = 1
) -> dict[str, float]:
    """Median seconds of each task, run in turn so that a slow spell hits all of them alike.

    Several calls in each turn are for tasks so short that their data should still be in the cache from the call before,
    as they are in the loop that such a task is made for.
    """
    for task in tasks.values():
        for _ in range(warm_up):
            task()
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            for _ in range(calls):
                began = time.perf_counter()
                task()
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


class Stopwatch:
    """Wall seconds since it was made, without those spent in `paused()`: evaluation is nobody's training time."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._paused = 0.0

    @property
    def seconds(self) -> float:
        """What counts so far."""
        return time.perf_counter() - self._began - self._paused

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stand still inside."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._paused += time.perf_counter() - began
