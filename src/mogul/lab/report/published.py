"""What of a run is kept in a repository: small files, and the numbers of all runs that are kept."""

import shutil
from pathlib import Path

import pandas as pd

from mogul.errors import ConfigError, DataError
from mogul.lab.report.results import COLUMNS
from mogul.storage.atomic import require_folder, write_whole

# Records hold predictions of many rows, and the page a plotting library: both are large, and can be made again.
_KEPT = ("results.csv", "summary.csv", "timings.csv", "configurations.jsonl", "tables.md", "figures/*.png")


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


def read_published(folder: Path) -> pd.DataFrame:
    """The rows of FOLDER/*/results.csv, with the name of the run in `run`; none may be there twice."""
    frames = [_read(path) for path in sorted(folder.glob("*/results.csv"))]
    if not frames:
        return pd.DataFrame(columns=[*COLUMNS, "run"])
    frame = pd.concat(frames, ignore_index=True)
    keys = [name for name in COLUMNS if name not in ("kind", "noise_floor", "value")]
    twice = frame[frame.duplicated(keys, keep=False)]
    if len(twice):
        row, runs = twice.iloc[0], " and ".join(twice.run.unique())
        raise DataError(
            f"A number must be published once; {row.label} on {row.dataset}, {row.split}, is in {runs} more than once. "
            "Remove the others."
        )
    return frame


def _copy(source: Path, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda partial: shutil.copyfile(source, partial))
    return path


def _read(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, keep_default_na=False)
    if list(frame.columns) != COLUMNS:
        raise DataError(f"{path} must have the columns {', '.join(COLUMNS)}; it has others. Publish the run again.")
    return frame.assign(run=path.parent.name)
