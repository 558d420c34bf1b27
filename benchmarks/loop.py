"""Inside a control loop: exported programs in onnxruntime, one thread, beside torch's predictor and the peer."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from benchmarks.peer import CHUNKS, build_peer, fastest_chunk, peer_mean_std, peer_one_row
from benchmarks.problem import Sizes, random_rows
from benchmarks.rollouts import kuka_figures, rollout_figures
from benchmarks.steps import kuka_sizes, training_run
from benchmarks.timing import interleaved
from mogul.data import Scaling, Standardiser
from mogul.data.checks import numbered_names
from mogul.fitted.fitted import Fitted
from mogul.fitted.history import History
from mogul.fitted.onnx_file import OnnxFile, Settings, onnx_program
from mogul.objective import Analytic

NUM_ROWS = 100_000
MODELS = {"mogp": "constant", "n-sbgprn": "gp"}


def run() -> dict[str, float]:
    """The group's figures; those of Kuka where its data are."""
    with _one_thread():
        rolled = rollout_figures(_fitted("mogp", "constant", kuka_sizes()))
    return loop_figures() | rolled | kuka_figures()


def loop_figures(
    num_rows: int = NUM_ROWS,
    repeats: int = 3,
    turns: int = 30,
    calls: int = 20,
    sizes: Sizes | None = None,
    chunks: tuple[int, ...] = CHUNKS,
) -> dict[str, float]:
    """Milliseconds of a row and ratios to the peer, all in one thread and one run."""
    sizes = sizes or kuka_sizes()
    with _one_thread():
        return _measure(sizes, num_rows, repeats, turns, calls, chunks)


def _measure(
    sizes: Sizes, num_rows: int, repeats: int, turns: int, calls: int, chunks: tuple[int, ...]
) -> dict[str, float]:
    models = {name: _fitted(name, noise, sizes) for name, noise in MODELS.items()}
    files = {name: OnnxFile.of(onnx_program(fitted, Settings())[0], name) for name, fitted in models.items()}
    predictors = {name: fitted.predictor().predictor for name, fitted in models.items()}
    peer = build_peer(random_rows(sizes).x, sizes.num_outputs, sizes.num_latents, sizes.num_inducing)
    x = torch.randn(num_rows, sizes.num_inputs, generator=torch.Generator().manual_seed(1))
    row, wide = x[:1].contiguous(), x[:1].double().numpy()
    tasks = {name: (lambda file=file: file.session.run(None, {"x": wide})) for name, file in files.items()}
    tasks |= {f"torch {name}": (lambda one=one: one.mean_std(row)) for name, one in predictors.items()}
    one = interleaved(tasks | {"peer": peer_one_row(peer, row)}, turns, warm_up=20, calls=calls)
    chunk = fastest_chunk(peer, x[: min(num_rows, 10_000)], chunks)
    rows = x.double().numpy()
    many = interleaved(
        {
            "onnx": lambda: files["mogp"].run(rows),
            "torch": lambda: predictors["mogp"].mean_std(x),
            "peer": lambda: peer_mean_std(peer, x, chunk),
        },
        repeats,
        warm_up=1,
    )
    return {
        "loop_mogp_ms": 1e3 * one["mogp"],
        "loop_mogp_torch_ms": 1e3 * one["torch mogp"],
        "loop_peer_ms": 1e3 * one["peer"],
        "loop_mogp_speedup": one["peer"] / one["mogp"],
        "loop_n_sbgprn_ms": 1e3 * one["n-sbgprn"],
        "loop_n_sbgprn_torch_ms": 1e3 * one["torch n-sbgprn"],
        "loop_rows_speedup": many["peer"] / min(many["onnx"], many["torch"]),
        "loop_rows_speedup_onnx": many["peer"] / many["onnx"],
        "loop_rows_speedup_torch": many["peer"] / many["torch"],
    }


def _fitted(name: str, noise: str, sizes: Sizes) -> Fitted:
    """A model at its start, in units of a user's: what a row costs does not depend on what was learnt."""
    model = training_run(name, random_rows(sizes), sizes, Analytic(), noise=noise).model.eval()
    inputs, outputs = (
        Standardiser(np.ones(size), np.full(size, 2.0)) for size in (sizes.num_inputs, sizes.num_outputs)
    )
    input_names, output_names = numbered_names("x", sizes.num_inputs), numbered_names("y", sizes.num_outputs)
    return Fitted(model, Scaling(inputs, outputs), input_names, output_names, History((), 0))


@contextmanager
def _one_thread() -> Iterator[None]:
    """As a loop should run: threads that wait for each other are slow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
