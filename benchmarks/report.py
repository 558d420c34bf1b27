"""From results.json to docs/performance.md: what was measured, and how; and which figures miss their bound."""

from collections.abc import Mapping
from dataclasses import dataclass

from mogul.heads import NOISE_FLOOR

Results = Mapping[str, float | str]


@dataclass(frozen=True)
class Figure:
    """A figure with its bound; `lower_is_better` says which side of it is good."""

    key: str
    what: str
    bound: float
    lower_is_better: bool
    measured: str
    strict: bool = False

    @property
    def asked(self) -> str:
        """The bound in words."""
        sign = ("<" if self.strict else "≤") if self.lower_is_better else "≥"
        return f"{sign} {self.bound:g}"

    def met(self, value: float) -> bool:
        """Whether the value is on the good side."""
        if self.strict:
            return value < self.bound
        return value <= self.bound if self.lower_is_better else value >= self.bound


_STEP = "Median of interleaved steps of both sides in one process: 21 → 14, L = 7, M = 400, B = 500, float32."
_OWN = "The same, closed-form expectations, over our own MOGP step."
_NOISE = "Median of interleaved steps in one process, the same sizes; an epoch has as many steps with any noise."
_BAXTER = (
    "N-SBGPRN with GP noise, the default, one start, on the random split of seed 0; standardised units. Measured with "
    "20 epochs, a third of what the default has since."
)
_TRAJECTORY = (
    "N-SBGPRN with GP noise, the default's rate and 20 epochs for rows in groups, trained on trajectories 1–8, tested "
    "on 9–10."
)
_SMALL = "`python -m benchmarks small`: 40 generated problems, both sides in one process of one thread."
_PANEL = "The same command; see `benchmarks/small.py`."
_ROW = "Median of 600 calls, in turns of 20: mean and std of one row, noise included."
_LOOP = "The same in one thread, by an exported program: float32, inputs and results in float64, in the user's units."
_ROLLOUT = "One thread; a MOGP of Kuka's sizes, float32, L = 7, M = 400; the drawing of the functions included."
_UPDATE = (
    "Kuka, MOGP, 15 epochs, the default's noise, trained on trajectories 1–7; `update` with 200 random rows of "
    "trajectory 8, and a fit of all of these."
)
_STREAM = "The same, first fitted to two trajectories; the others come 200 rows at a time."
_AHEAD = "The same, trained on trajectories 1–8: 200 starts on 9–10, 50 particles, each state in its own scale."

_WORKERS = "N-SBGPRN with GP noise, 21 → 14, M = 200, batches of 500 in all. "
_BIG = "Of one process, resident, its imports included; `big_rows` in results.json is the number of many rows."

FIGURES = (
    Figure("step_speedup", "training step, MOGP, × faster than GPyTorch's LMC as it comes", 3.0, False, _STEP),
    Figure(
        "gemm_fraction",
        "the same, share of the machine's GEMM rate",
        0.45,
        False,
        "FLOP of the plain whitened algorithm (`benchmarks.steps.step_flops`) over time and over the best rate of "
        "square float32 products timed between the steps.",
    ),
    Figure("n_mogp_step_ratio", "N-MOGP step over own MOGP step", 1.35, True, _OWN),
    Figure("n_sbgprn_step_ratio", "N-SBGPRN step over own MOGP step", 1.35, True, _OWN),
    Figure("gp_noise_step_ratio", "step with GP noise over constant noise, N-SBGPRN", 2, True, _NOISE),
    Figure("net_noise_step_ratio", "step with net noise over constant noise, N-SBGPRN", 2, True, _NOISE),
    Figure("student_t_noise_step_ratio", "step with Student-t noise over constant noise, N-SBGPRN", 2, True, _NOISE),
    Figure(
        "gp_student_t_noise_step_ratio", "step with GP Student-t noise over constant noise, N-SBGPRN", 2, True, _NOISE
    ),
    Figure("low_rank_noise_step_ratio", "step with low-rank noise over constant noise, N-SBGPRN", 2, True, _NOISE),
    Figure(
        "time_to_ll_speedup",
        "time to test LL 15.6 on Kuka, MOGP without linear mean, × faster than GPyTorch's LMC",
        10,
        False,
        "Wall time with k-means, without evaluation after each epoch; the peer has no noise floor, the best of three "
        "learning rates, and factorises in float64 as it comes.",
    ),
    Figure(
        "epochs_to_target",
        "epochs to LL ≥ 45.0 and MRMSE ≤ 0.090 on Kuka, N-SBGPRN",
        10,
        True,
        "Defaults, one start, scores on the test rows after each epoch.",
    ),
    Figure("f_baxter_ll", "LL on F-Baxter", 49.3, False, _BAXTER),
    Figure("f_baxter_mrmse", "MRMSE on F-Baxter", 0.037, True, _BAXTER),
    Figure("kuka_trajectory_ll", "LL on Kuka by trajectory", 42.5, False, _TRAJECTORY),
    Figure("f_baxter_trajectory_ll", "LL on F-Baxter by trajectory", 48.8, False, _TRAJECTORY),
    Figure(
        "predict_speedup",
        "mean and std of 100,000 rows, × faster than GPyTorch's LMC",
        5,
        False,
        "Median of interleaved passes; the peer in chunks of the size that it is fastest with.",
    ),
    Figure("latency_ms", "one row, milliseconds", 0.3, True, _ROW),
    Figure("latency_speedup", "one row, × faster than GPyTorch's LMC", 20, False, _ROW),
    Figure("loop_mogp_ms", "one row of an exported MOGP in onnxruntime, milliseconds", 0.12, True, _LOOP),
    Figure("loop_mogp_speedup", "… × faster than GPyTorch's LMC", 40, False, _LOOP),
    Figure("loop_n_sbgprn_ms", "… of an N-SBGPRN with GP noise, milliseconds", 0.3, True, _LOOP),
    Figure(
        "loop_rows_speedup",
        "100,000 rows of a MOGP, one thread, × faster than GPyTorch's LMC",
        6,
        False,
        "The faster of onnxruntime and torch's predictor; the peer in chunks of the size that it is fastest with.",
    ),
    Figure("loop_rollout_s", "rollout of 1,000 particles × 100 steps by functions, seconds", 2, True, _ROLLOUT),
    Figure("loop_rollout_drawn_s", "… with functions that were drawn for the rollout before", 2, True, _ROLLOUT),
    Figure("loop_rollout_growth", "… time of a step of 1,000 over one of 10", 1.3, True, _ROLLOUT),
    Figure("loop_update_speedup", "update with 200 new rows, × faster than a fit anew", 20, False, _UPDATE),
    Figure("loop_update_new", "… LL on the rest of the new trajectory, above the fit anew", -1, False, _UPDATE),
    Figure("loop_update_old", "… LL on old trajectories, above the fit before", -0.5, False, _UPDATE),
    Figure(
        "loop_stream_gain", "Kuka streamed: LL of each row before it is learnt, above the first fit", 0, False, _STREAM
    ),
    Figure("loop_kuka_least_coverage", "Kuka, 50 steps ahead: least share in 90 % bands", 0.8, False, _AHEAD),
    Figure("loop_kuka_most_coverage", "… the largest", 0.97, True, _AHEAD),
    Figure("loop_kuka_rmse_ratio", "… error over that of persistence, at the worst horizon", 1, True, _AHEAD),
    Figure(
        "wide_peak_gb",
        "P = 10,000 outputs, L = 20, M = 400, B = 500: peak memory of training steps, GB",
        3,
        True,
        "Peak resident memory of a process of its own.",
        strict=True,
    ),
    Figure(
        "n_growth",
        "step time at N = 10⁷ over that at N = 10⁴ rows",
        1.1,
        True,
        "Rows memory-mapped, a random batch gathered in each step, interleaved. Of a step: `fit` copies its data.",
    ),
    Figure(
        "n_growth_memory",
        "peak memory at N = 10⁷ over that at N = 10⁴ rows",
        1.1,
        True,
        "The same steps, each in a process of its own; cached pages of the mapped file are not counted.",
    ),
    Figure("small_rmse_share", "few rows: RMSE within 1.1 × scikit-learn's, worst output", 0.97, False, _SMALL),
    Figure("small_density_share", "log density not behind by more than 0.05 nat per output", 0.95, False, _SMALL),
    Figure("small_coverage_share", "95 % bands that hold 92–98 %", 0.9, False, _SMALL),
    Figure("small_time_ratio", "median time over scikit-learn's", 2, True, _SMALL),
    Figure("small_time_ratio_1000", "the same at 1,000 rows, 4 → 4", 0.4, True, _PANEL),
    Figure("small_sine_count", "sin 2x₀ with R² ≥ 0.95, of 18 data sets × 3 seeds", 54, False, _PANEL),
    Figure("small_outside_sine", "95 % bands outside the data: a sine", 0.85, False, _PANEL),
    Figure("small_outside_square", "… a square", 0.85, False, _PANEL),
    Figure("small_outside_plane", "… a plane, at 10 and 50", 0.85, False, _PANEL),
    Figure("small_outlier_loss", "one training outlier of 100 sd, nats per output lost", 0.05, True, _PANEL),
    Figure("big_fit_many_gb", "fit of Parquet, 21 → 14, 200 steps: peak memory, GB", 1.5, True, _BIG),
    Figure("big_fit_memory", "the same over that with 10⁵ rows", 1.1, True, _BIG),
    Figure("big_step_ratio", "step with batches from disk over batches from memory", 1.15, True, "Reading included."),
    Figure("big_predict_many_gb", "mean and std, Parquet to Parquet: peak memory, GB", 1.5, True, _BIG),
    Figure("big_predict_many_share", "rows per second of that over the predictor's own", 0.7, False, "In one process."),
    Figure(
        "big_workers_speedup",
        "two workers of one thread over one, steps per second",
        1.7,
        False,
        _WORKERS + "By the clock, on two cores that others were using, too.",
    ),
    Figure(
        "big_workers_processor_speedup",
        "the same, by processor time of a worker: where each has a core",
        1.7,
        False,
        _WORKERS + "Waiting for the other is not counted.",
    ),
)

_PRECISION_PARTS = ("float32_ll", "mixed_ll", "float64_ll", "float32_seconds", "float64_seconds")
_AXES = {"m": "M", "l": "L", "p": "P", "h": "H", "b": "B"}


def performance_page(results: Results) -> str:
    """The page, in Markdown."""
    table = ["| figure | value | how it is measured |", "|---|---|---|"]
    table += [_line(figure, results) for figure in FIGURES]
    parts = [
        "# Performance",
        "Written by `make bench` from `benchmarks/results.json`. Times vary with the machine; ratios in one run less. "
        "Groups are run one by one, at different times.",
        _machine(results),
        f"LL is per row, in standardised units; GP noise has a floor, sd {NOISE_FLOOR:g} of an output's scale, "
        "constant noise none.",
        "\n".join(table),
        *_notes(results),
        *_precision(results),
        *_growth(results),
        "What was tried to get there is in the [laboratory notes](laboratory.md).",
    ]
    return "\n\n".join(parts).rstrip() + "\n"


def _line(figure: Figure, results: Results) -> str:
    value = results.get(figure.key)
    number = f"{value:.4g}" if isinstance(value, int | float) else "not measured"
    return f"| {figure.what} [`{figure.key}`] | {number} | {figure.measured} |"


def missed(results: Results) -> list[str]:
    """The figures that are not on the good side of their bound, one line each: for those who change the code."""
    known = [(figure, value) for figure in FIGURES if isinstance(value := results.get(figure.key), int | float)]
    return [
        f"{figure.key}: {value:.4g}, wanted {figure.asked}"
        for figure, value in known
        if not (_succeeded(figure.key, results) and figure.met(value))
    ]


def _succeeded(key: str, results: Results) -> bool:
    """A bound that was run into is no success, whatever its size."""
    return key != "epochs_to_target" or results.get("epochs_to_target_reached") == 1


def _machine(results: Results) -> str:
    peak = results.get("gemm_peak_gflops")
    gemm = f"{peak:.0f} GFLOP/s" if isinstance(peak, int | float) else "not measured"
    return (
        f"Machine: {results.get('machine_cores', '?')} cores, {results.get('machine_threads', '?')} threads; float32 "
        f"GEMM peak {gemm}; torch {results.get('torch_version', '?')}, GPyTorch {results.get('gpytorch_version', '?')}."
    )


def _precision(results: Results) -> list[str]:
    lines = ["| data | trained in | used in | test LL | seconds of training |", "|---|---|---|---|---|"]
    for name, key in (("Kuka", "kuka"), ("F-Baxter", "f_baxter")):
        figures = {part: results.get(f"precision_{key}_{part}") for part in _PRECISION_PARTS}
        if None in figures.values():
            return []
        single, mixed, double, quick, slow = figures.values()
        lines += [
            f"| {name} | float32 | float32 | {single:.2f} | {quick:.0f} |",
            f"| {name} | float32 | float64 | {mixed:.2f} | |",
            f"| {name} | float64 | float64 | {double:.2f} | {slow:.0f} |",
        ]
    how = (
        "N-SBGPRN, defaults but for the rate, 0.01, and 10 epochs, random split of seed 0. "
        "Rounding sends the two trainings different ways."
    )
    return ["## Precision", how, "\n".join(lines)]


def _notes(results: Results) -> list[str]:
    notes = []
    if results.get("time_to_ll_reached") == 0:
        notes.append("We did not reach LL 15.6 ourselves, so `time_to_ll_speedup` is 0.")
    elif results.get("time_to_ll_peer_reached") == 0:
        seconds = results["time_to_ll_peer_seconds"]
        notes.append(
            f"GPyTorch's LMC did not reach LL 15.6 within {seconds:.0f} s of training at any of the three learning "
            "rates, so `time_to_ll_speedup` is a lower limit."
        )
    if "step_speedup_float32_peer" in results:
        notes.append(
            "As it comes, GPyTorch factorises in float64 even for float32 models; told to stay in float32, its step "
            f"is {results['step_speedup_float32_peer']:.2f} × ours in time [`step_speedup_float32_peer`]."
        )
    if "n_growth_resident" in results:
        notes.append(
            f"With the cached pages of the mapped file, peak memory grows {results['n_growth_resident']:.2f} × from "
            "10⁴ to 10⁷ rows [`n_growth_resident`]; the system drops those pages when it needs them."
        )
    return notes


def _growth(results: Results) -> list[str]:
    lines = ["## Growth of a training step", "| size | milliseconds at each value |\n|---|---|"]
    for axis, name in _AXES.items():
        found = {key: value for key, value in results.items() if key.startswith(f"growth_{axis}_")}
        if found:
            cells = [f"{key.split('_')[2]}: {value:.0f}" for key, value in found.items()]
            lines[-1] += f"\n| {name} | {' · '.join(cells)} |"
    return lines if "\n| " in lines[-1] else []
