"""The runs that are kept in a repository in one table: of each kind the best line; ours, the paper's, baselines.

Of the paper's models under the paper's protocol there is every line: those are what its numbers are for.
"""

from dataclasses import dataclass

import pandas as pd

from mogul.errors import DataError
from mogul.lab.datasets.catalogue import CATALOGUE
from mogul.lab.experiments.lines import AND, TIMES, plain_label
from mogul.lab.experiments.paper import METRICS, Published, numbers, published
from mogul.lab.experiments.registry import EXPERIMENTS
from mogul.lab.experiments.split_choice import BY_TRAJECTORY
from mogul.lab.report.experiment_tables import print_published, print_spread
from mogul.lab.report.markdown import markdown_line
from mogul.lab.report.noise_floors import describe_floors
from mogul.registry import names

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

Block = tuple[str, str, str, str]  # experiment, data set, kind of split, preset


def overview(frame: pd.DataFrame, link: str) -> str:
    """The table in Markdown, and what must be said below it; nothing where nothing is published.

    Args:
        frame: of `read_published`.
        link: to the folder of the runs.
    """
    if frame.empty:
        return ""
    lines = [markdown_line(_HEADINGS), markdown_line(["---"] * 3 + ["---:"] * 4)]
    shown: list[_Row] = []
    for block, some in _blocks(frame):
        rows = _rows(block, some)
        lines += [markdown_line([_title(block) if row is rows[0] else "", *row.cells()]) for row in rows]
        shown += rows
    floors = describe_floors((row.line, row.noise_floor) for row in shown if row.noise_floor)
    runs = ", ".join(f"[{run}]({link}/{run}/tables.md)" for run in sorted(frame.run.unique()))
    note = (
        "“Ours” and “baseline” are runs of `mogul reproduce`: of each kind the line with the highest test LL, least "
        "squares, and with the paper's preset each of its models; ± is one standard deviation over runs. "
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
    ll: str = ""
    mrmse: str = ""
    theirs: Published | None = None
    runs: str = ""
    noise_floor: str = ""

    def cells(self) -> list[str]:
        return [self.what, self.line, self.ll, self.mrmse, print_published(self.theirs, 2), self.runs]


def _blocks(frame: pd.DataFrame) -> list[tuple[Block, pd.DataFrame]]:
    """Lines that compete with each other; sweeps have figures of their own."""
    plain = frame[frame.setting == ""]
    kinds = plain.split.map(lambda split: BY_TRAJECTORY if split.startswith(BY_TRAJECTORY) else "random")
    groups = plain.groupby([plain.experiment, plain.dataset, kinds, plain.preset], sort=False)
    blocks: list[tuple[Block, pd.DataFrame]] = [
        ((str(key[0]), str(key[1]), str(key[2]), str(key[3])), some) for key, some in groups
    ]
    return sorted(blocks, key=lambda block: _place(block[0]))


def _place(block: Block) -> tuple[object, ...]:
    """Regression first; the paper's own data before others; random splits before trajectories."""
    experiment, dataset, split, preset = block
    known = CATALOGUE.get(dataset)
    others = known is not None and known.paper is None
    names = list(EXPERIMENTS)
    return experiment != "regression", names.index(experiment), others, dataset, split != "random", preset


def _title(block: Block) -> str:
    experiment, dataset, split, preset = block
    name = dataset if experiment == "regression" else f"{dataset} ({experiment})"
    return f"{name}, {split}, {preset}"


def _rows(block: Block, some: pd.DataFrame) -> list[_Row]:
    """The paper's best, then the best of ours, the nearer to the paper's models the earlier, then baselines."""
    experiment, dataset, split, preset = block
    means = some[some.metric == "ll"].groupby("label").value.mean()
    kinds = dict(zip(some.label, some.kind, strict=True))
    whats = {str(label): _what(experiment, str(label), str(kind)) for label, kind in kinds.items()}
    rows = _papers_best(experiment, dataset) if split == "random" else []
    for what in (*_OURS, _BASELINE):
        labels = sorted((label for label in whats if whats[label] == what), key=lambda label: -float(means[label]))
        always = [label for label in labels if what == _BASELINE and label == _ALWAYS_SHOWN]
        most = None if (what, preset) == (_OURS[0], "paper") else 1
        for label in dict.fromkeys([*always, *[label for label in labels if label not in always][:most]]):
            theirs = published(experiment, dataset, label, "ll") if split == "random" else None
            rows.append(_row(some[some.label == label], what, label, theirs))
    return rows


def _row(some: pd.DataFrame, what: str, label: str, theirs: Published | None) -> _Row:
    ll, mrmse = ([float(value) for value in some[some.metric == name].value] for name in ("ll", "mrmse"))
    floor = str(some.noise_floor.iloc[0])
    return _Row(what, label, print_spread(ll, 2), print_spread(mrmse, 3), theirs, str(len(ll)), floor)


def _papers_best(experiment: str, dataset: str) -> list[_Row]:
    known = CATALOGUE.get(dataset)
    name = dataset if known is None else known.paper
    theirs = {
        model: found
        for (kind, model, data, metric), found in numbers().items()
        if (kind, data, metric) == (experiment, name, METRICS["ll"])
    }
    best = sorted(theirs, key=lambda model: -theirs[model].mean)[:1]
    return [_Row(_PAPERS_BEST, model, theirs=theirs[model]) for model in best]


def _what(experiment: str, label: str, kind: str) -> str:
    """Whether it is a baseline, a model of the paper's, or how it departs from one."""
    papers, on_planes, noisy, mixed, otherwise, unknown = _OURS
    if kind == _BASELINE:
        return _BASELINE
    if TIMES in label or AND in label:
        return mixed
    if plain_label(label) != label:
        return otherwise
    noises = names("noise")
    lines = [each for line in EXPERIMENTS[experiment].lines for each in line.variants(linear=True, noises=noises)]
    for line in lines:
        if line.label == label:
            return noisy if line.noise != "constant" else on_planes if line.linear else papers
    return unknown
