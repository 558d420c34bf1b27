"""`mogul fit --workers K`: K processes of this machine that train one model together.

Each runs the same command, told by the environment which one it is, as torchrun does. The first speaks and writes; when
one is lost, the others end, and one line says so.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mogul.terminal import say

# Seconds between looks at the workers, and those that the others have to end when one has.
_LOOK, _PATIENCE = 0.1, 15.0
_HOST = "127.0.0.1"


def run_workers(arguments: Sequence[str], count: int, cores: int | None, checkpoint: Path | None) -> int:
    """Run a command by so many workers; returns the exit code.

    Args:
        arguments: of the command, without the number of workers.
        count: of workers.
        cores: that they share; by default all.
        checkpoint: the folder that the message of a lost worker names.
    """
    environments = worker_environments(count, cores)
    command = [sys.executable, "-m", "mogul", *arguments]
    others = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    workers: list[subprocess.Popen[bytes]] = []
    try:
        for rank, environment in enumerate(environments):
            workers.append(subprocess.Popen(command, env=environment, **(others if rank else {})))  # type: ignore[call-overload]
        return _watched(workers, checkpoint)
    except KeyboardInterrupt:  # the workers had it, too: the first may be writing what there is
        _ended(workers, _PATIENCE)
        return workers[0].poll() or 1
    finally:
        for worker in workers:
            with suppress(ProcessLookupError):
                worker.kill()
            worker.wait()


def worker_environments(count: int, cores: int | None) -> list[dict[str, str]]:
    """What each worker is told, as by torchrun; cores are divided among them."""
    with socket.socket() as free:
        free.bind((_HOST, 0))
        port = free.getsockname()[1]
    threads = max(1, (cores or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1) // count)
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": _HOST, "MASTER_PORT": str(port)}
    shared |= {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))}
    return [{**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def _watched(workers: Sequence["subprocess.Popen[bytes]"], checkpoint: Path | None) -> int:
    """Wait until all have ended well, or one has not."""
    while any(worker.poll() is None for worker in workers):
        failed = [rank for rank, worker in enumerate(workers) if worker.poll() not in (None, 0)]
        if failed:
            return _lost(workers, failed[0], checkpoint)
        time.sleep(_LOOK)
    failed = [rank for rank, worker in enumerate(workers) if worker.returncode]
    return _lost(workers, failed[0], checkpoint) if failed else 0


def _lost(workers: Sequence["subprocess.Popen[bytes]"], rank: int, checkpoint: Path | None) -> int:
    """End the others; what happened is said once, by the first worker or, where it could not, here."""
    first = workers[0]
    _ended([first], _PATIENCE)
    if first.returncode is not None and first.returncode > 0:
        return int(first.returncode)  # it has said why
    code = workers[rank].returncode
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    goes_on = "; it goes on from the checkpoint" if checkpoint is not None else ", with --checkpoint to lose less"
    say(
        f"mogul: All {len(workers)} workers must be there until training ends; worker {rank} ended {how}. Run the same "
        f"command again{goes_on}."
    )
    return 1


def _ended(workers: Sequence["subprocess.Popen[bytes]"], seconds: float) -> None:
    """Give processes some time to end by themselves."""
    until = time.monotonic() + seconds
    while any(worker.poll() is None for worker in workers) and time.monotonic() < until:
        time.sleep(_LOOK)
