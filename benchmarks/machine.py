"""What the machine can do, and what a process of its own takes: the yardsticks of the other figures.

`python -m benchmarks.machine module function arguments` is the child: it calls the function and prints its own peak.
"""

import importlib
import json
import os
import re
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

GEMM_SIZES = (512, 1024, 2048)
_ROOT = Path(__file__).parent.parent
_STATUS = Path("/proc/self/status")


def gemm_tasks(sizes: tuple[int, ...] = GEMM_SIZES) -> dict[str, Callable[[], object]]:
    """Square float32 products, to be timed among the tasks that they are the yardstick of."""
    return {_gemm_name(size): _gemm(size) for size in sizes}


def gemm_peak(seconds: Mapping[str, float], sizes: tuple[int, ...] = GEMM_SIZES) -> float:
    """FLOP per second of the best size, from the times of `gemm_tasks`."""
    return max(2 * size**3 / seconds[_gemm_name(size)] for size in sizes)


def describe() -> dict[str, float | str]:
    """Where the figures come from."""
    import gpytorch

    return {
        "machine_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "machine_threads": torch.get_num_threads(),
        "torch_version": str(torch.__version__),
        "gpytorch_version": str(gpytorch.__version__),
    }


@dataclass(frozen=True)
class Peak:
    """Peak memory of a process in bytes: all that was resident, and of that what is not a file's pages.

    Pages of a mapped file are the system's cache: it drops them when memory is wanted for something else.
    """

    resident: int
    private: int


def peak_alone(module: str, function: str, **arguments: float | str) -> Peak:
    """The peak memory of a new process that does nothing but call this function with these arguments."""
    command = [sys.executable, "-m", "benchmarks.machine", module, function, json.dumps(arguments)]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Peak(**json.loads(done.stdout.splitlines()[-1]))


def peak_while(task: Callable[[], object]) -> Peak:
    """Run a task and look at this process's memory: the system keeps the resident peak, the private one is sampled."""
    private, done = [_own_bytes("RssAnon")], threading.Event()

    def sample() -> None:
        while not done.wait(1e-3):
            private.append(_own_bytes("RssAnon"))

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    task()
    done.set()
    sampler.join()
    # ru_maxrss survives exec, so a child would report at least what its parent held; VmHWM starts anew.
    return Peak(resident=_own_bytes("VmHWM"), private=max(private))


def _own_bytes(field: str) -> int:
    """A line of Linux's account of this process; elsewhere, what the C library knows."""
    if _STATUS.exists():
        found = re.search(rf"{field}:\s+(\d+) kB", _STATUS.read_text(encoding="utf-8"))
        if found:
            return 1024 * int(found.group(1))
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _gemm_name(size: int) -> str:
    return f"gemm_{size}"


def _gemm(size: int) -> Callable[[], object]:
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(size, size, generator=generator) for _ in range(2))
    product = torch.empty(size, size)
    return lambda: torch.mm(left, right, out=product)


def _main() -> None:
    module, function, arguments = sys.argv[1:]
    task = getattr(importlib.import_module(module), function)
    print(json.dumps(asdict(peak_while(lambda: task(**json.loads(arguments))))))


if __name__ == "__main__":
    _main()
