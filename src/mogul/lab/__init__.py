"""The laboratory: the paper's experiments, benchmark data, baselines and report pages.

Running experiments and writing reports needs the extra `mogul[lab]`; data sets, baselines and the demo do not.
"""

from mogul.errors import require_extra

EXTRA = ("jinja2", "joblib", "plotly")


def require_laboratory() -> None:
    """Check that the packages of `mogul[lab]` are installed."""
    require_extra("The laboratory", "lab", *EXTRA)
