"""Mean and standard deviation, of many rows and of one: the frozen predictor against the peer."""

import torch

from benchmarks.peer import CHUNKS, build_peer, fastest_chunk, peer_mean_std, peer_one_row
from benchmarks.problem import Sizes, random_rows
from benchmarks.steps import kuka_sizes, training_run
from benchmarks.timing import interleaved
from mogul.fitted.predictor import Predictor
from mogul.objective import Analytic

NUM_ROWS = 100_000


def run() -> dict[str, float]:
    """The group's figures."""
    return prediction_ratios()


def prediction_ratios(
    num_rows: int = NUM_ROWS,
    repeats: int = 5,
    turns: int = 30,
    calls: int = 20,
    sizes: Sizes | None = None,
    chunks: tuple[int, ...] = CHUNKS,
) -> dict[str, float]:
    """Seconds of both sides for many rows and for one, and their ratios."""
    sizes = sizes or kuka_sizes()
    data = random_rows(sizes)
    predictor = Predictor.of(training_run("mogp", data, sizes, Analytic()).model.eval())
    peer = build_peer(data.x, sizes.num_outputs, sizes.num_latents, sizes.num_inducing)
    x = torch.randn(num_rows, sizes.num_inputs, generator=torch.Generator().manual_seed(1))
    chunk = fastest_chunk(peer, x[: min(num_rows, 10_000)], chunks)
    many = interleaved(
        {"ours": lambda: predictor.mean_std(x), "peer": lambda: peer_mean_std(peer, x, chunk)}, repeats, warm_up=1
    )
    row = x[:1].contiguous()
    one = interleaved(
        {"ours": lambda: predictor.mean_std(row), "peer": peer_one_row(peer, row)}, turns, warm_up=20, calls=calls
    )
    return {
        "predict_rows_per_second": num_rows / many["ours"],
        "predict_peer_rows_per_second": num_rows / many["peer"],
        "predict_speedup": many["peer"] / many["ours"],
        "latency_ms": 1e3 * one["ours"],
        "latency_peer_ms": 1e3 * one["peer"],
        "latency_speedup": one["peer"] / one["ours"],
    }
