"""The tables of an experiment, for a terminal, in Markdown and in LaTeX."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from mogul.lab.datasets.catalogue import CATALOGUE
from mogul.lab.experiments.declarations import EXPERIMENTS
from mogul.lab.experiments.lines import Spread
from mogul.lab.experiments.record import Record
from mogul.lab.report.frame import Results, describe_floors, describe_rows, describe_settings, rows_of, spread_of

_DIGITS = {"ll": 2, "mrmse": 3, "crps": 4, "coverage_80": 2, "train_ll": 2}
_HEADINGS = {
    "ll": "test LL",
    "mrmse": "MRMSE",
    "crps": "CRPS",
    "coverage_80": "in 80 % band",
    "train_ll": "training LL",
}
_PAPER_HEADINGS = ["the paper's LL", "the paper's MRMSE", "LL above it, in its sd"]
_HELD_OUT = "A fifth of the training trajectories said how long models on a plane should train, on all of them."
# What a narrow terminal goes without, in this order: our LL stays, and the paper's and the difference beside it.
_SPARED = ("the paper's MRMSE", "in 80 % band", "CRPS", "seconds", "MRMSE", "training LL", "runs")
_SHORT_HEADINGS = {
    "in 80 % band": "in 80 %\nband",
    "training LL": "training\nLL",
    "the paper's LL": "paper's\nLL",
    "the paper's MRMSE": "paper's\nMRMSE",
    "LL above it, in its sd": "above,\nin sd",
}
_ANY_WIDTH = 10_000
_SIGNS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "′": r"$'$",
    "−": "$-$",
    "‖": r"$\|$",
    "ℝ": r"$\mathbb{R}$",
    "→": r"$\to$",
    "⁵": "$^5$",
    "⁸": "$^8$",
    "≤": r"$\le$",
    "–": "--",
    "’": "'",
}


@dataclass(frozen=True)
class ExperimentTable:
    """A table: its title, its columns, its rows in sections (baselines, models), and the note below it."""

    title: str
    headings: list[str]
    sections: dict[str, list[list[str]]]
    note: str


def experiment_tables(results: Results) -> list[ExperimentTable]:
    """One table for each experiment, data set, kind of split and preset."""
    return [_table_of(block) for _, block in results.blocks()]


def result_line(record: Record) -> str:
    """One job in a line, for the terminal."""
    words = [record.dataset, record.split_label, record.label, record.setting]
    name = ", ".join(word for word in words if word)
    if record.error is not None:
        return f"{name}: failed: {record.error}"
    return f"{name}: LL {record.metrics['ll']:.2f}  MRMSE {record.metrics['mrmse']:.3f}  ({record.seconds:.0f} s)"


def _table_of(block: Results) -> ExperimentTable:
    lines = block.lines
    scores = [name for name in _HEADINGS if lines[name].notna().any()]
    swept, with_paper = bool((lines.setting != "").any()), bool(lines.paper_ll.notna().any())
    repeated = bool((lines.num_jobs > 1).any())
    settings = dict(zip(block.jobs.setting, (record.settings for record in block.records), strict=True))
    sections: dict[str, list[list[str]]] = {}
    for line in rows_of(lines):
        setting = [describe_settings(settings[line["setting"]])] * swept
        cells = [line["label"], *setting, *_cells(line, scores), *[str(line["runs"])] * repeated]
        section = "baselines" if line["kind"] == "baseline" else "models"
        sections.setdefault(section, []).append(cells + (_paper_cells(line) if with_paper else []))
    headings = ["model", *["setting"] * swept, *(_HEADINGS[name] for name in scores), "seconds"]
    headings += ["runs"] * repeated + _PAPER_HEADINGS * with_paper
    return ExperimentTable(_title(block.records), headings, sections, _note(block))


def _title(records: Sequence[Record]) -> str:
    """Data, splits, rows, preset and units, which every number depends on."""
    first = records[0]
    declared = EXPERIMENTS.get(first.experiment)
    seeds = sorted({record.seed for record in records})
    splits = "split by trajectory"
    if first.split.kind == "random":
        splits = f"random split, seed {seeds[0]}" if len(seeds) == 1 else "random splits"
    rows = describe_rows((record.num_train, record.split.num_test) for record in records)
    units = f"{first.config['units']} units"
    title = declared.title if declared else first.experiment
    return f"{first.dataset}: {title}, {splits}, {rows}, preset {first.preset}, {units}"


def _note(block: Results) -> str:
    records = block.records
    entry = CATALOGUE.get(records[0].dataset)
    floors = describe_floors(zip(block.lines.label, block.lines.noise_floor, strict=True))
    held_out = [_HELD_OUT] if any(record.config.get("held_out") for record in records) else []
    stand_in = [f"{entry.name} is {entry.is_not}."] if entry is not None and entry.stands_in_for else []
    failed = [result_line(record) for record in records if record.is_failed]
    return " ".join([floors, *held_out, *stand_in, *failed])


def _cells(line: Mapping[str, Any], scores: Sequence[str]) -> list[str]:
    """Means over runs; spreads where there are several."""
    if not line["runs"]:
        return ["failed", *[""] * len(scores)]
    return [*(_printed(spread_of(line, name), _DIGITS[name]) for name in scores), f"{line['seconds']:.0f}"]


def _paper_cells(line: Mapping[str, Any]) -> list[str]:
    ll, mrmse, ours = (spread_of(line, name) for name in ("paper_ll", "paper_mrmse", "ll"))
    known = ll is not None and ll.sd is not None and ours is not None
    above = f"{(line['ll'] - line['paper_ll']) / line['paper_ll_sd']:+.1f}" if known else ""
    return [_printed(ll, 2), _printed(mrmse, 3), above]


def _printed(spread: Spread | None, digits: int) -> str:
    return "" if spread is None else spread.text(digits)


@dataclass(frozen=True)
class TerminalTable:
    """Baselines, then models, beside the paper's numbers for the same data; columns that do not fit are left out.

    Names of models are never cut; the note below the table names the columns left out.
    """

    content: ExperimentTable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        """The fullest table that fits, or the smallest there is."""
        unlimited = options.update(width=_ANY_WIDTH)
        for table in self._ever_narrower():
            if Measurement.get(console, unlimited, table).maximum <= options.max_width:
                break
        yield table

    def _ever_narrower(self) -> Iterator[Table]:
        headings = self.content.headings
        yield self._with(headings, headings)
        spared = [heading for heading in _SPARED if heading in headings]
        for count in range(len(spared) + 1):
            kept = [heading for heading in headings if heading not in spared[:count]]
            yield self._with(kept, [_SHORT_HEADINGS.get(heading, heading) for heading in kept])

    def _with(self, kept: Sequence[str], printed: Sequence[str]) -> Table:
        """The table with these of its columns, under headings as they are printed."""
        table = Table(
            title=Text(self.content.title, style="table.title"),
            caption=Text(self._note(kept), style="table.caption"),
            box=box.HORIZONTALS,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        for number, heading in enumerate(printed):
            table.add_column(heading, justify="right" if number else "left", no_wrap=number == 0)
        places = [self.content.headings.index(heading) for heading in kept]
        for rows in self.content.sections.values():
            for row in rows:
                table.add_row(*(Text(row[place]) for place in places))
            table.add_section()
        return table

    def _note(self, kept: Sequence[str]) -> str:
        left_out = [heading for heading in self.content.headings if heading not in kept]
        words = [f"Not shown in so narrow a terminal: {', '.join(left_out)} (see tables.md)."] if left_out else []
        return " ".join([self.content.note, *words]).strip()


def markdown(tables: Iterable[ExperimentTable]) -> str:
    """All tables, each under its title."""
    return "\n".join(_markdown_table(table) for table in tables)


def _markdown_table(table: ExperimentTable) -> str:
    width = len(table.headings)
    lines = [f"### {table.title}", "", markdown_line(table.headings), markdown_line(["---", *["---:"] * (width - 1)])]
    for section, rows in table.sections.items():
        lines.append(markdown_line([f"**{section}**", *[""] * (width - 1)]))
        lines += [markdown_line(row) for row in rows]
    if table.note:
        lines += ["", _escape_markdown(table.note)]
    return "\n".join([*lines, ""])


def markdown_line(cells: Iterable[str]) -> str:
    """A row of a table.

    >>> markdown_line(["a", "b"])
    '| a | b |'
    """
    return "| " + " | ".join(_escape_markdown(cell) for cell in cells) + " |"


def _escape_markdown(words: str) -> str:
    """A bar would end a cell, a line a row; underscores and stars of section names are meant as they are.

    >>> _escape_markdown("a|b")
    'a\\\\|b'
    """
    return words.replace("|", "\\|").replace("\n", " ")


def latex(tables: Iterable[ExperimentTable]) -> str:
    """All tables, each a float of its own."""
    return "\n".join(_latex_table(table) for table in tables)


def escape_latex(words: str) -> str:
    """Words as LaTeX prints them; a sign that pdfLaTeX may not know is left out.

    >>> escape_latex("15.6 ± 0.4 %")
    '15.6 $\\\\pm$ 0.4 \\\\%'
    """
    return "".join(_SIGNS.get(sign, sign if sign.isascii() else "") for sign in words)


def _latex_table(table: ExperimentTable) -> str:
    width = len(table.headings)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{escape_latex(f'{table.title}. {table.note}'.strip())}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}", r"\toprule", _latex_line(table.headings)]
    for section, rows in table.sections.items():
        lines += [r"\midrule", rf"\multicolumn{{{width}}}{{l}}{{\emph{{{escape_latex(section)}}}}} \\"]
        lines += [_latex_line(row) for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _latex_line(cells: Iterable[str]) -> str:
    return " & ".join(escape_latex(cell) for cell in cells) + r" \\"
