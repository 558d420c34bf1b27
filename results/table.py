"""Write the tables of results anew from the runs that are kept here: all of them to docs, ten rows to the README.

python results/table.py
"""

from pathlib import Path

import pandas as pd

from mogul.lab.experiments.lines import numbers
from mogul.lab.report.overview import overview, read_published, with_overview

RESULTS = Path(__file__).resolve().parent
README = RESULTS.parent / "README.md"
PAGE = RESULTS.parent / "docs" / "results.md"
BEGIN, END = "<!-- summary: written by results/table.py -->", "<!-- end of summary -->"
# What the README shows of each data set and split: the default's line, and the strongest other line by log likelihood.
SHOWN = (
    ("default-preset", "kuka", "random", "N-SBGPRN + linear + GP noise"),
    ("default-preset", "kuka", "by trajectory", "MOGP & GPRN & N-SBGPRN + linear + GP noise"),
    ("default-preset", "f-baxter", "random", "N-SBGPRN + linear + GP noise"),
    ("default-preset", "f-baxter", "by trajectory", "MOGP & GPRN & N-SBGPRN + linear + GP noise"),
)
HEADINGS = ("data", "split, runs", "mogul", "least squares", "the paper's best", "strongest rival")


def summary() -> str:
    """At most ten rows: log likelihood / MRMSE of the default, least squares, the paper's best and a rival."""
    rows = [_from_runs(*shown) for shown in SHOWN] + _against_trees()
    lines = [HEADINGS, ("---",) * len(HEADINGS), *rows]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return f"{BEGIN}\n\n{table}\n\n{END}"


def _from_runs(run: str, dataset: str, split: str, line: str) -> tuple[str, ...]:
    frame = pd.read_csv(RESULTS / run / "summary.csv", keep_default_na=False)
    frame = frame[(frame["dataset"] == dataset) & (frame["split"] == split)]
    scores = frame.pivot(index="label", columns="metric", values="mean").astype(float)
    kinds = frame.drop_duplicates("label").set_index("label")
    rivals = scores.loc[[label for label in scores.index if kinds.loc[label, "kind"] == "baseline"]]
    runs = int(kinds.loc[line, "splits"])
    return (
        dataset,
        f"{split}, {runs}",
        _cell(scores.loc[line]),
        _cell(scores.loc["least squares"]),
        _papers_best(dataset) if split == "random" else "–",
        f"{rivals['ll'].idxmax()}: {_cell(rivals.loc[rivals['ll'].idxmax()])}",
    )


def _against_trees() -> list[tuple[str, ...]]:
    """Data sets where forests win, which no run of an experiment holds."""
    frame = pd.read_csv(RESULTS / "rivals.csv")
    return [
        (
            row.data,
            f"{row.split}, {row.runs}",
            f"{row.ll:.2f} / {row.mrmse:.3f}",
            f"{row.line_ll:.2f} / {row.line_mrmse:.3f}",
            "–",
            f"{row.rival}: {row.rival_ll:.2f} / {row.rival_mrmse:.3f}",
        )
        for row in frame.itertuples()
    ]


def _papers_best(dataset: str) -> str:
    """The highest test log likelihood in the paper's tables for these data."""
    known = [
        number.mean
        for (experiment, _, data, metric), number in numbers().items()
        if (experiment, metric) == ("regression", "LL") and data.lower() == dataset
    ]
    return f"{max(known):.2f}"


def _cell(scores: "pd.Series[float]") -> str:
    return f"{scores['ll']:.2f} / {scores['mrmse']:.3f}"


def with_summary(text: str) -> str:
    """The README with its table written anew."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + summary() + after


def main() -> None:
    """The tables between the markers of both pages."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_overview(page, overview(read_published(RESULTS), RESULTS.name)), encoding="utf-8")
    README.write_text(with_summary(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
