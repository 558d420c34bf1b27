"""Write the README's table of results anew from the runs that are kept here.

python results/table.py
"""

from pathlib import Path

from mogul.lab.report.overview import overview, read_published, with_overview

RESULTS = Path(__file__).resolve().parent
README = RESULTS.parent / "README.md"


def main() -> None:
    """The table between the README's two markers."""
    text = README.read_text(encoding="utf-8")
    README.write_text(with_overview(text, overview(read_published(RESULTS), RESULTS.name)), encoding="utf-8")


if __name__ == "__main__":
    main()
