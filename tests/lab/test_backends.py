"""The same jobs give the same records wherever joblib sends them; real clusters are for `make test-cluster`."""

import io
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console
from tests.helpers.small_jobs import small, tasks

from mogul.errors import ConfigError
from mogul.lab.experiments.backends import ClusterError, jobs_on, require_backend
from mogul.lab.experiments.declarations import experiment
from mogul.lab.experiments.record import Store
from mogul.lab.experiments.request import SplitChoice
from mogul.lab.experiments.run import Provenance, run_all
from mogul.lab.report.frame import Results, results_frame
from mogul.lab.report.tables import result_line


def test_names_and_addresses_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mogul.errors.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"--backend must be one of loky, dask, ray; got 'spark'"):
        require_backend("spark", None)
    with pytest.raises(ConfigError, match="--address is for dask and ray; got tcp://a:1 for loky"):
        require_backend("loky", "tcp://a:1")
    for name, package in (("dask", "distributed"), ("ray", "ray")):
        with pytest.raises(ConfigError, match=rf"needs the extra mogul\[{name}\]; {package} is not installed"):
            require_backend(name, None)


def results(folder: Path, backend: str, num_splits: int) -> pd.DataFrame:
    """Scores of jobs of an experiment by two workers."""
    chosen = {"models": ("mogp",), "baselines": ("mean", "least-squares"), "linear": False, "epochs": 2}
    jobs = tasks(small(experiment("regression")), splits=SplitChoice(tuple(range(num_splits))), **chosen)
    store = Store(folder / backend)
    run_all(
        jobs, store, 2, Provenance({}, None), Console(file=io.StringIO()), result_line, require_backend(backend, None)
    )
    assert len(store.read()) == len(jobs)
    frame = results_frame(Results.of(store.read().values()))
    return frame.drop(columns=[name for name in frame.columns if "second" in name])


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_cluster_gives_the_results_of_this_machine(tmp_path: Path, backend: str, package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed: make test-cluster")
    here, there = (results(tmp_path, name, num_splits=5) for name in ("loky", backend))
    pd.testing.assert_frame_equal(here, there)


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_out_of_reach_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("mogul.lab.experiments.backends._SECONDS", 1)
    with (
        pytest.raises(ClusterError, match=r"Dask scheduler must be reached within 1 s; tcp://127.0.0.1:9 was not"),
        jobs_on("dask", "tcp://127.0.0.1:9", 2),
    ):
        pass
