"""Tables of numbers in several files, for what reads them in parts."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

INPUTS, TARGETS = ("a", "b", "c"), ("y", "z")


def frame(num_rows: int = 3000, seed: int = 0) -> pd.DataFrame:
    """Three inputs of different scales, two outputs that are nearly linear, one of them with gaps."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (num_rows, 3)) * [1.0, 100.0, 0.01] + [0.0, 5000.0, 3.0]
    y = np.stack([3 * x[:, 0] + 0.01 * x[:, 1], np.sin(2 * x[:, 0]) + 100 * x[:, 2]], axis=1)
    table = pd.DataFrame(np.hstack([x, y + 0.05 * rng.standard_normal(y.shape)]), columns=[*INPUTS, *TARGETS])
    table.loc[::7, "z"] = np.nan
    return table


def write(table: pd.DataFrame, folder: Path, suffix: str = ".parquet", num_files: int = 3) -> Path:
    """The table in several files of a folder; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, rows in enumerate(np.array_split(np.arange(len(table)), num_files)):
        part, path = table.iloc[rows], folder / f"part{place}{suffix}"
        if suffix == ".parquet":
            part.to_parquet(path, index=False, row_group_size=250)
        elif suffix == ".csv":
            part.to_csv(path, index=False)
        else:
            content = pa.Table.from_pandas(part, preserve_index=False)
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, content.schema) as writer:
                writer.write_table(content, max_chunksize=300)
    return folder
