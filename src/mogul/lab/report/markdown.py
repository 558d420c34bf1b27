"""Tables in Markdown."""

from collections.abc import Iterable

from mogul.lab.report.experiment_tables import ExperimentTable


def markdown(tables: Iterable[ExperimentTable]) -> str:
    """All tables, each under its title."""
    return "\n".join(_table(table) for table in tables)


def _table(table: ExperimentTable) -> str:
    width = len(table.headings)
    lines = [f"### {table.title}", "", markdown_line(table.headings), markdown_line(["---", *["---:"] * (width - 1)])]
    for section, rows in table.sections.items():
        lines.append(markdown_line([f"**{section}**", *[""] * (width - 1)]))
        lines += [markdown_line(row) for row in rows]
    if table.note:
        lines += ["", _escape(table.note)]
    return "\n".join([*lines, ""])


def markdown_line(cells: Iterable[str]) -> str:
    """A row of a table.

    >>> markdown_line(["a", "b"])
    '| a | b |'
    """
    return "| " + " | ".join(_escape(cell) for cell in cells) + " |"


def _escape(words: str) -> str:
    """A bar would end a cell, a line a row; underscores and stars of section names are meant as they are.

    >>> _escape("a|b")
    'a\\\\|b'
    """
    return words.replace("|", "\\|").replace("\n", " ")
