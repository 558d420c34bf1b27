"""What of a run is kept in a repository, and the table of all kept runs.

The table has the best line of each kind: ours, the paper's, baselines. Under the paper's presets it has every model.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from mogul.errors import ConfigError, DataError
from mogul.lab.datasets.catalogue import CATALOGUE
from mogul.lab.experiments.declarations import EXPERIMENTS
from mogul.lab.experiments.lines import PAPER_METRICS, Spread, Variant, numbers
from mogul.lab.experiments.request import BY_TRAJECTORY
from mogul.lab.report.frame import BLOCK, COLUMNS, JOB, Results, describe_floors, rows_of, spread_of
from mogul.lab.report.tables import markdown_line
from mogul.storage.atomic import require_folder, write_whole
from mogul.training.defaults import is_the_papers

# Records hold predictions of many rows, and the page a plotting library: both are large, and can be made again.
_KEPT = ("results.csv", "summary.csv", "timings.csv", "configurations.jsonl", "tables.md", "figures/*.png")
BEGIN, END = "<!-- results: written by results/table.py -->", "<!-- end of results -->"
_HEADINGS = ["data, split, preset", "what it is", "line", "test LL", "MRMSE", "the paper's LL", "runs"]
_OURS = (
    "ours, the paper's model",
    "ours, + linear",
    "ours, other noise",
    "ours, mixture",
    "ours, other objective",
    "ours",
)
_BASELINE, _PAPERS_BEST = "baseline", "the paper's best, as printed"
_ALWAYS_SHOWN = "least squares"


def require_place(run: Path, to: Path) -> None:
    """Check before any work that a run can be published there."""
    require_folder(to)
    if to.resolve() == run.resolve():
        raise ConfigError(f"--publish must be another folder than the run's; got {to} for both. Choose another.")


def publish(run: Path, to: Path) -> list[Path]:
    """Copy what is small of a run's results; where it is."""
    require_place(run, to)
    sources = [source for pattern in _KEPT for source in sorted(run.glob(pattern))]
    return [_copy(source, to / source.relative_to(run)) for source in sources]


def read_published(folder: Path) -> Results:
    """The published runs FOLDER/*/results.csv, with the name of each in `run`; no number may be there twice."""
    frames = [_read(path) for path in sorted(folder.glob("*/results.csv"))]
    if not frames:
        return Results.of([])
    frame = pd.concat(frames, ignore_index=True)
    keys = [name for name in COLUMNS if name not in ("kind", "noise_floor", "value")]
    twice = frame[frame.duplicated(keys, keep=False)]
    if len(twice):
        row, runs = twice.iloc[0], " and ".join(twice.run.unique())
        raise DataError(
            f"A number must be published once; {row.label} on {row.dataset}, {row.split}, is in {runs} more than once. "
            "Remove the others."
        )
    names = [name for name in (*COLUMNS, "run") if name not in ("metric", "value")]
    jobs = frame.pivot(index=names, columns="metric", values="value").reset_index()
    jobs["split_kind"] = ["groups" if label.startswith(BY_TRAJECTORY) else "random" for label in jobs.split]
    variants = [Variant.parse(label, kind) for label, kind in zip(jobs.label, jobs.kind, strict=True)]
    fields = pd.DataFrame([vars(variant) for variant in variants])
    return Results.average(pd.concat([jobs, fields], axis=1).reindex(columns=[*JOB, "run"]))


def overview(results: Results, folder: str) -> str:
    """The table in Markdown, and what must be said below it; nothing where nothing is published.

    Args:
        results: of `read_published`.
        folder: of the runs, as readers know it.
    """
    if results.lines.empty:
        return ""
    lines = [markdown_line(_HEADINGS), markdown_line(["---"] * 3 + ["---:"] * 4)]
    shown: list[_Row] = []
    plain = results.lines[results.lines.setting == ""]  # sweeps have figures of their own
    blocks = [(dict(zip(BLOCK, map(str, key), strict=True)), some) for key, some in plain.groupby(BLOCK, sort=False)]
    for block, some in sorted(blocks, key=lambda each: _place(each[0])):
        rows = _rows(block, some)
        lines += [markdown_line([_title(block) if row is rows[0] else "", *row.cells()]) for row in rows]
        shown += rows
    floors = describe_floors((row.line, row.noise_floor) for row in shown if row.noise_floor)
    runs = ", ".join(f"`{folder}/{run}/tables.md`" for run in sorted(results.jobs.run.unique()))
    note = (
        "“Ours” and “baseline” are runs of `mogul reproduce`: of each kind the line with the highest test LL, least "
        "squares, and with the paper's presets each of its models; ± is one standard deviation over runs. "
        f"{floors} The paper's numbers are printed in its tables, for the same data split in the same way. "
        f"Every line, with sweeps and times: {runs}."
    )
    return "\n".join([*lines, "", note])


def with_overview(text: str, table: str) -> str:
    """A page with the table between its two markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise DataError(f"The page must have the lines {BEGIN} and {END}; it has not. Put them where the table goes.")
    return "".join([before, BEGIN, f"\n\n{table}\n\n" if table else "\n", END, after])


@dataclass(frozen=True)
class _Row:
    """A line of the table: the best of its kind, or the paper's."""

    what: str
    line: str
    ll: Spread | None = None
    mrmse: Spread | None = None
    theirs: Spread | None = None
    runs: str = ""
    noise_floor: str = ""

    @staticmethod
    def of(line: Mapping[str, Any], what: str) -> "_Row":
        ll, mrmse, theirs = (spread_of(line, name) for name in ("ll", "mrmse", "paper_ll"))
        return _Row(what, line["label"], ll, mrmse, theirs, str(line["runs"]), line["noise_floor"])

    def cells(self) -> list[str]:
        ll, mrmse, theirs = (
            "" if spread is None else spread.text(digits)
            for spread, digits in ((self.ll, 2), (self.mrmse, 3), (self.theirs, 2))
        )
        return [self.what, self.line, ll, mrmse, theirs, self.runs]


def _place(block: Mapping[str, str]) -> tuple[object, ...]:
    """Regression first; the paper's own data before others; random splits before trajectories."""
    experiment, dataset, known = block["experiment"], block["dataset"], CATALOGUE.get(block["dataset"])
    others = known is not None and known.paper is None
    number = list(EXPERIMENTS).index(experiment)
    return experiment != "regression", number, others, dataset, block["split_kind"] != "random", block["preset"]


def _title(block: Mapping[str, str]) -> str:
    name = block["dataset"] if block["experiment"] == "regression" else f"{block['dataset']} ({block['experiment']})"
    return f"{name}, {'random' if block['split_kind'] == 'random' else BY_TRAJECTORY}, {block['preset']}"


def _rows(block: Mapping[str, str], some: pd.DataFrame) -> list[_Row]:
    """The paper's best, then the best of ours, the nearer to the paper's models the earlier, then baselines."""
    rows = _papers_best(block["experiment"], block["dataset"]) if block["split_kind"] == "random" else []
    best_first = rows_of(some.sort_values("ll", ascending=False, kind="stable"))
    whats = [_what(block["experiment"], line) for line in best_first]
    for what in (*_OURS, _BASELINE):
        lines = [line for line, found in zip(best_first, whats, strict=True) if found == what]
        always = [line for line in lines if what == _BASELINE and line["label"] == _ALWAYS_SHOWN]
        others = [line for line in lines if line not in always]
        most = None if what == _OURS[0] and is_the_papers(block["preset"]) else 1
        rows += [_Row.of(line, what) for line in (*always, *others[:most])]
    return rows


def _papers_best(experiment: str, dataset: str) -> list[_Row]:
    known = CATALOGUE.get(dataset)
    name = dataset if known is None else known.paper
    theirs = {
        model: found
        for (kind, model, data, metric), found in numbers().items()
        if (kind, data, metric) == (experiment, name, PAPER_METRICS["ll"])
    }
    best = sorted(theirs, key=lambda model: -theirs[model].mean)[:1]
    return [_Row(_PAPERS_BEST, model, theirs=Spread(theirs[model].mean, theirs[model].sd)) for model in best]


def _what(experiment: str, line: Mapping[str, Any]) -> str:
    """Whether it is a baseline, a model of the paper's, or how it departs from one."""
    papers, with_plane, noisy, mixed, otherwise, unknown = _OURS
    if line["kind"] == "baseline":
        return _BASELINE
    if len(line["families"]) > 1 or not pd.isna(line["num_starts"]):
        return mixed
    if line["objective"] != "elbo":
        return otherwise
    if line["families"] not in {known.families for known in EXPERIMENTS[experiment].lines}:
        return unknown
    return noisy if line["noise"] != "constant" else with_plane if line["linear"] else papers


def _copy(source: Path, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda partial: shutil.copyfile(source, partial))
    return path


def _read(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, keep_default_na=False)
    if list(frame.columns) != COLUMNS:
        raise DataError(f"{path} must have the columns {', '.join(COLUMNS)}; it has others. Publish the run again.")
    return frame.assign(run=path.parent.name)
