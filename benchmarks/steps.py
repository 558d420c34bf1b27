"""What a training step costs, at the size of the paper's Kuka experiment: against the peer, and by FLOP count."""

from collections.abc import Callable
from dataclasses import replace

import torch

from benchmarks.machine import GEMM_SIZES, gemm_peak, gemm_tasks
from benchmarks.peer import peer_step
from benchmarks.problem import Sizes, first_batch, random_rows
from benchmarks.timing import interleaved
from mogul.data import Batch
from mogul.models import build
from mogul.objective import Analytic, Expectation, MonteCarlo
from mogul.training import Run
from mogul.training.defaults import preset

# Kuka: 21 → 14, L = 7, M = 400, batches of 500.
NUM_INDUCING, BATCH = 400, 500


def kuka_sizes() -> Sizes:
    """The reference problem."""
    return Sizes(num_inducing=NUM_INDUCING, batch=BATCH)


def training_run(
    name: str,
    data: Batch,
    sizes: Sizes,
    ell: Expectation,
    dtype: torch.dtype = torch.float32,
    noise: str = "constant",
) -> Run:
    """A model ready for training as a user's would be: the default way, in this precision."""
    generator = torch.Generator().manual_seed(0)
    model = build(
        name,
        data.x,
        sizes.num_outputs,
        generator,
        num_latents=sizes.num_latents,
        num_inducing=sizes.num_inducing,
        num_hidden=sizes.num_hidden,
        noise=noise,
    )
    config = replace(
        preset("default", name),
        batch_size=sizes.batch,
        learning_rate=1e-3,
        expectation=ell,
        precision="float32" if dtype == torch.float32 else "float64",
    )
    run = Run(model, data, config, generator)
    run.model.train()
    return run


def train_on(run: Run, batch: Batch) -> None:
    """The library's own step, checks and closed-form updates included, so that no copy can fall behind it."""
    run.step(batch)


def training_step(
    name: str,
    ell: Expectation,
    dtype: torch.dtype = torch.float32,
    sizes: Sizes | None = None,
    noise: str = "constant",
) -> Callable[[], None]:
    """One training step on a fixed batch."""
    sizes = sizes or kuka_sizes()
    data = random_rows(sizes, dtype)
    batch = first_batch(data, sizes)
    run = training_run(name, data, sizes, ell, dtype, noise)
    return lambda: train_on(run, batch)


def step_flops(sizes: Sizes) -> float:
    """FLOP of the dense matrix work in one MOGP step by the plain whitened algorithm, forward and backward.

    Per GP, with C = L⁻¹, A = C K_zx, W = SᵀA (a product of n × k by k × m counts 2nkm):

        factorise        chol K_zz: M³/3          inverse C: M³/3
        forward          C K_zx: 2M²B             SᵀA: 2M²B
        backward         S W̄, A W̄ᵀ, CᵀĀ, ĀAᵀ: 4 · 2M²B        Cᵀ Φ C, through Cholesky: 2 · 2M³
        RBF              scaled inputs' products: 2M²D + 2MBD; their gradients: two of 2M²D, one of 2MBD

    Triangular matrices count as dense ones, as a matrix product treats them. What is elementwise counts nothing.
    """
    m, b, d = sizes.num_inducing, sizes.batch, sizes.num_inputs
    factorise = 2 * m**3 / 3
    forward = 2 * (2 * m**2 * b)
    backward = 4 * (2 * m**2 * b) + 2 * (2 * m**3)
    rbf = 3 * (2 * m**2 * d) + 2 * (2 * m * b * d)
    return sizes.num_latents * (factorise + forward + backward + rbf)


def step_ratios(
    repeats: int = 15, sizes: Sizes | None = None, gemm_sizes: tuple[int, ...] = GEMM_SIZES
) -> dict[str, float]:
    """Milliseconds per step, ours over the peer's and over our own MOGP's, and the share of the GEMM rate."""
    sizes = sizes or kuka_sizes()
    return _closed_form(repeats, sizes, gemm_sizes) | _sampled(repeats, sizes)


def run() -> dict[str, float]:
    """The group's figures."""
    return step_ratios()


def _closed_form(repeats: int, sizes: Sizes, gemm_sizes: tuple[int, ...]) -> dict[str, float]:
    ours = {name: training_step(name, Analytic(), sizes=sizes) for name in ("mogp", "n-mogp", "n-sbgprn")}
    # As it comes, GPyTorch factorises in float64; told to stay in float32 it is faster, and fails more often.
    peers = {
        name: peer_step(sizes, factorise_in)
        for name, factorise_in in (("peer", torch.float64), ("peer_float32", torch.float32))
    }
    seconds = interleaved(ours | peers | gemm_tasks(gemm_sizes), repeats)
    peak = gemm_peak(seconds, gemm_sizes)
    mogp = seconds["mogp"]
    results = {f"{name}_analytic_ms": 1e3 * seconds[name] for name in ours}
    results |= {f"{name}_step_ms": 1e3 * seconds[name] for name in peers}
    return results | {
        "step_speedup": seconds["peer"] / mogp,
        "step_speedup_float32_peer": seconds["peer_float32"] / mogp,
        "gemm_peak_gflops": peak / 1e9,
        "step_gflop": step_flops(sizes) / 1e9,
        "gemm_fraction": step_flops(sizes) / mogp / peak,
        "n_mogp_step_ratio": seconds["n-mogp"] / mogp,
        "n_sbgprn_step_ratio": seconds["n-sbgprn"] / mogp,
    }


def _sampled(repeats: int, sizes: Sizes) -> dict[str, float]:
    ours = {name: training_step(name, MonteCarlo(250), sizes=sizes) for name in ("mogp", "n-mogp")}
    seconds = interleaved(ours, repeats)
    results = {f"{name}_montecarlo_ms": 1e3 * value for name, value in seconds.items()}
    return results | {"n_mogp_step_ratio_montecarlo": seconds["n-mogp"] / seconds["mogp"]}
