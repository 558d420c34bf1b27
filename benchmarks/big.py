"""More rows than memory: fits and predictions of Parquet files at 10⁵ and at many rows, and two workers over one.

`MOGUL_BENCH_ROWS` is the number of many rows, 10⁷ by default; `MOGUL_BENCH_BIG` names a folder in which the generated
rows stay.
"""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from benchmarks.machine import peak_alone
from benchmarks.problem import Sizes, random_rows
from benchmarks.steps import training_run
from mogul.cli.workers import worker_environments
from mogul.data import RowSource, Share
from mogul.data.sources.row_files import RowFiles
from mogul.data.stored import StoredRows
from mogul.errors import import_extra
from mogul.fitted.files import load
from mogul.fitted.to_files import predict_files
from mogul.objective import Analytic
from mogul.training import FitRequest
from mogul.training.team import Team

FEW_ROWS, MANY_ROWS = 100_000, int(os.environ.get("MOGUL_BENCH_ROWS", "10000000"))
NUM_INPUTS, NUM_OUTPUTS, STEPS = 21, 14, 200
INPUTS, TARGETS = ([f"{name}{place}" for place in range(count)] for name, count in (("x", 21), ("y", 14)))
_ROWS_PER_FILE = 1_000_000
# The default's sizes with many rows, in batches of Kuka's.
_SIZES = Sizes(num_inducing=200, batch=500)
_BLOCK, _TURNS = 20, 10  # steps in a turn, and turns of each side


def run() -> dict[str, float]:
    """The group's figures."""
    with _folder() as folder:
        places = {name: folder / name for name in ("few", "many")}
        for name, count in (("few", FEW_ROWS), ("many", MANY_ROWS)):
            write_rows(places[name], count)
        figures = {"big_rows": float(MANY_ROWS)}
        figures |= fits(folder, places) | predictions(folder, places) | steps(folder) | workers()
    return figures


@contextmanager
def _folder() -> Iterator[Path]:
    kept = os.environ.get("MOGUL_BENCH_BIG")
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield Path(kept)
        return
    with TemporaryDirectory() as folder:
        yield Path(folder)


def write_rows(folder: Path, num_rows: int) -> None:
    """Rows of a smooth function of all inputs with noise, float32, a million to a file."""
    if folder.exists():
        return
    pyarrow, parquet = (import_extra("Rows", "parquet", name) for name in ("pyarrow", "pyarrow.parquet"))
    folder.mkdir()
    rng = np.random.default_rng(0)
    line, waves = (rng.standard_normal((NUM_INPUTS, NUM_OUTPUTS)).astype(np.float32) / 5 for _ in range(2))
    for number, first in enumerate(range(0, num_rows, _ROWS_PER_FILE)):
        count = min(_ROWS_PER_FILE, num_rows - first)
        x = rng.standard_normal((count, NUM_INPUTS), dtype=np.float32)
        y = x @ line + np.sin(x @ waves) + 0.1 * rng.standard_normal((count, NUM_OUTPUTS), dtype=np.float32)
        columns = dict(zip([*INPUTS, *TARGETS], np.hstack([x, y]).T.copy(), strict=True))
        parquet.write_table(pyarrow.table(columns), folder / f"{number:03d}.parquet", row_group_size=100_000)


def fits(folder: Path, places: dict[str, Path]) -> dict[str, float]:
    """Peak memory of a process that fits and does nothing else, and its seconds."""
    found: dict[str, float] = {}
    for name, place in places.items():
        began = time.perf_counter()
        out, scratch = folder / f"{name}.mogul", folder / f"{name}-copy"
        peak = peak_alone("benchmarks.big", "fit_alone", rows=str(place), out=str(out), scratch=str(scratch))
        found[f"big_fit_{name}_gb"] = peak.resident / 1e9
        found[f"big_fit_{name}_private_gb"] = peak.private / 1e9
        found[f"big_fit_{name}_seconds"] = time.perf_counter() - began
    return found | {"big_fit_memory": found["big_fit_many_gb"] / found["big_fit_few_gb"]}


def fit_alone(rows: str, out: str, scratch: str) -> None:
    """200 steps of the default model, alone in a process."""
    request = FitRequest(settings={"epochs": 1, "epoch_steps": STEPS}, check=True)
    request.fit_files(RowFiles.of(rows, TARGETS), Path(scratch)).save(out)


def predictions(folder: Path, places: dict[str, Path]) -> dict[str, float]:
    """Peak memory of a process that predicts files, and rows per second over the predictor's own in between."""
    found: dict[str, float] = {}
    for name, place in places.items():
        out, model, report = (folder / f"{name}{end}" for end in ("-predicted.parquet", ".mogul", "-predicted.json"))
        peak = peak_alone(
            "benchmarks.big", "predict_alone", rows=str(place), model=str(model), out=str(out), report=str(report)
        )
        found[f"big_predict_{name}_gb"] = peak.resident / 1e9
        found |= {f"big_predict_{name}_{key}": value for key, value in json.loads(report.read_text()).items()}
        out.unlink()
    return found


def predict_alone(rows: str, model: str, out: str, report: str) -> None:
    """Mean and standard deviation of all rows, and the predictor's own speed before and after."""
    fitted, files = load(model), RowFiles.of(rows, [], INPUTS)
    x = next(files.parts()).values
    predictor, own = fitted.predictor(), []

    def time_own() -> None:
        for _ in range(3):
            began = time.perf_counter()
            predictor.mean_std(x)
            own.append(len(x) / (time.perf_counter() - began))

    time_own()
    began = time.perf_counter()
    count = predict_files(fitted, files, Path(out))
    rate = count / (time.perf_counter() - began)
    time_own()
    Path(report).write_text(json.dumps({"rate": rate, "share": rate / float(np.median(own))}), encoding="utf-8")


def steps(folder: Path) -> dict[str, float]:
    """Steps with batches from disk over those with batches from memory, in turns; reading included."""
    paths = sorted((folder / "many-copy").glob("*.bin"))
    size = 4 * (NUM_INPUTS + NUM_OUTPUTS)
    num_rows = paths[0].stat().st_size // size
    stored = StoredRows(paths[0], num_rows, NUM_INPUTS, NUM_OUTPUTS, torch.float32, num_rows * NUM_OUTPUTS)
    tasks = {"disk": _stepping(stored), "memory": _stepping(stored.spread(FEW_ROWS))}
    seconds = dict.fromkeys(tasks, 0.0)
    for _ in range(_TURNS):
        for name, task in tasks.items():
            began = time.perf_counter()
            for _ in range(_BLOCK):
                task()
            seconds[name] += time.perf_counter() - began
    each = {f"big_step_{name}_ms": 1e3 * total / (_BLOCK * _TURNS) for name, total in seconds.items()}
    return each | {"big_step_ratio": seconds["disk"] / seconds["memory"]}


def _stepping(rows: RowSource) -> Callable[[], object]:
    run = training_run("n-sbgprn", rows.spread(2000), _SIZES, Analytic(), noise="gp")
    generator = torch.Generator().manual_seed(0)
    batches = (batch for _ in itertools.count() for batch in rows.minibatches(_SIZES.batch, generator))
    run.step(next(batches))
    return lambda: run.step(next(batches))


def workers(num_steps: int = 60, turns: int = 3) -> dict[str, float]:
    """Steps per second of two workers of one thread each over those of one, in turns, with the same total batch.

    By the clock, and by the time of the processor that a worker has spent: the speed-up where each has a core.
    """
    spent = {count: np.zeros(2) for count in (1, 2)}
    for _ in range(turns):
        for count in spent:
            spent[count] += _timed(count, num_steps)
    by_clock, by_processor = spent[1] / spent[2]
    return {
        "big_worker_ms": 1e3 * float(spent[1][1]) / (turns * num_steps),
        "big_workers_speedup": float(by_clock),
        "big_workers_processor_speedup": float(by_processor),
    }


def _timed(count: int, num_steps: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.big", str(num_steps)]
    each = worker_environments(count, count)
    started = [
        subprocess.Popen(command, env={**one, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, text=True)
        for one in each
    ]
    printed = [process.communicate()[0] for process in started]
    seconds, spent = map(float, printed[0].split())
    return seconds, spent


def _work(num_steps: int) -> tuple[float, float]:
    """Seconds of these steps of one worker, and those of its processor; Kuka's sizes, the default's inducing points."""
    torch.set_num_threads(1)
    team = Team.of_environment()
    data = random_rows(_SIZES)
    run = training_run("n-sbgprn", data, _SIZES, Analytic(), noise="gp")
    run._team = team
    share = team.share or Share(0, 1)
    batch = data.rows(share.of(torch.arange(_SIZES.batch)))
    for _ in range(5):
        run.step(batch)
    began, spent = time.perf_counter(), time.process_time()
    for _ in range(num_steps):
        run.step(batch)
    took = time.perf_counter() - began, time.process_time() - spent
    team.leave()
    return took


if __name__ == "__main__":
    print(*_work(int(sys.argv[1])))
