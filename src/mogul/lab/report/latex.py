"""Tables in LaTeX, with booktabs: `\\input` them into a document that loads it."""

from collections.abc import Iterable

from mogul.lab.report.experiment_tables import ExperimentTable

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


def latex(tables: Iterable[ExperimentTable]) -> str:
    """All tables, each a float of its own."""
    return "\n".join(_table(table) for table in tables)


def escape(words: str) -> str:
    """Words as LaTeX prints them; a sign that pdfLaTeX may not know is left out.

    >>> escape("15.6 ± 0.4 %")
    '15.6 $\\\\pm$ 0.4 \\\\%'
    """
    return "".join(_SIGNS.get(sign, sign if sign.isascii() else "") for sign in words)


def _table(table: ExperimentTable) -> str:
    width = len(table.headings)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{escape(f'{table.title}. {table.note}'.strip())}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}", r"\toprule", _line(table.headings)]
    for section, rows in table.sections.items():
        lines += [r"\midrule", rf"\multicolumn{{{width}}}{{l}}{{\emph{{{escape(section)}}}}} \\"]
        lines += [_line(row) for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _line(cells: Iterable[str]) -> str:
    return " & ".join(escape(cell) for cell in cells) + r" \\"
