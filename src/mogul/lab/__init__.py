"""The laboratory: the paper's experiments, benchmark data, baselines and report pages.

Running experiments and writing reports needs the extra `mogul[lab]`; data sets, baselines and the demo do not.
"""

from importlib.util import find_spec

from mogul.errors import ConfigError

EXTRA = ("jinja2", "joblib", "plotly")


def require_extra() -> None:
    """Check that the packages of `mogul[lab]` are installed."""
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"The laboratory needs the packages {', '.join(EXTRA)}; {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not installed. Run pip install 'mogul[lab]'."
        )
