"""`mogul demo`: the paper's synthetic experiment, as a table and a figure."""

from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from mogul.lab.experiments import synthetic
from mogul.lab.report.figures import save_figure, synthetic_figure
from mogul.lab.report.tables import synthetic_table
from mogul.storage.atomic import write_json


def run_demo(num_seeds: int, folder: Path, json_file: Path | None) -> None:
    """Fit seeds 0, 1, …; draw the first; print the table and say where the figure is."""
    console = Console()
    console.print(
        "Drawing 1000 noisy rows of g(x) = cos(4‖x‖) and fitting a multi-output GP (MOGP) "
        "and the same with a neural likelihood (N-MOGP)."
    )
    rows: list[synthetic.Row] = []
    slices: dict[str, synthetic.Slice] = {}
    for seed in range(num_seeds):
        for row, line in synthetic.run(seed):
            rows.append(row)
            if line is not None:
                console.print(
                    f"seed {seed}: {row.model:7s} LL {row.ll:6.2f}  MRMSE {row.mrmse:.3f}  ({row.seconds:.0f} s)"
                )
                slices.setdefault(row.model, line)
    console.print(synthetic_table(rows))
    paths = save_figure(synthetic_figure(slices), folder, "synthetic")
    console.print(f"Figure: {' and '.join(str(path) for path in paths)}")
    if json_file is not None:
        write_json(json_file, [asdict(row) for row in rows])
        console.print(f"Scores: {json_file}")
