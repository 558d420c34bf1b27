"""The panel: what is recorded is not measured again, and the page shows where mogul loses."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import panel
from benchmarks.panel import Record, add_record, read_records
from benchmarks.panel_data import DATA, Fold, PanelData
from benchmarks.panel_page import losses, panel_page

from mogul.data import Dataset


def test_a_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.linspace(0, 1, 30)[:, None]
    fold = Fold(Dataset(x, np.sin(6 * x)), Dataset(x[:9] + 0.01, np.sin(6 * x[:9])))
    monkeypatch.setitem(DATA, "edm", PanelData(3, lambda folder, number: fold))
    path = tmp_path / "panel.csv"
    first = list(panel.run(["edm"], ["least-squares"], 1, tmp_path, path))
    again = list(panel.run(["edm"], ["least-squares", "mean"], 2, tmp_path, path))
    assert [each.key for each in first] == [("edm", 0, "least-squares")]
    assert [each.key for each in again] == [("edm", 0, "mean"), ("edm", 1, "least-squares"), ("edm", 1, "mean")]
    assert {each.key for each in read_records(path)} == {each.key for each in first + again}
    assert [each.name for each in tmp_path.iterdir()] == ["panel.csv"]


def test_the_page_shows_where_mogul_loses(tmp_path: Path) -> None:
    ours = Record("edm", 0, "mogul", 9, 3, ll=-1.0, crps=0.3, energy=0.4, arrmse=0.7, coverage=0.95, seconds=2.0)
    for record in (ours, replace(ours, method="trees", ll=-2.0, arrmse=0.6)):
        records = add_record(tmp_path / "panel.csv", record)
    plain = [vars(record) for record in records]
    assert losses("edm", plain) == [("trees", "arrmse", 0.7, 0.6, 1)]
    assert "| edm | extra trees | aRRMSE | 0.700 | 0.600 | 1 |" in panel_page(plain)
