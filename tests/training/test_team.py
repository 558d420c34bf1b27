"""Workers that train together find what one finds alone, and none is left waiting for another that is gone."""

import shutil
from pathlib import Path

import pytest
import torch
from tests.helpers.row_tables import frame, write
from tests.helpers.teams import (
    Found,
    from_files,
    in_team,
    killed_in_its_third_epoch,
    not_a_number,
    one_step,
    resumed,
    steps_and_a_training,
)

from mogul.errors import ConfigError, MogulError
from mogul.training.team import Team, device_by_name

# Whole fits in other processes, whose lines quicker tests run too.
pytestmark = pytest.mark.no_cover


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("team")
    write(frame(4000), folder / "rows")
    return folder


@pytest.fixture(scope="module")
def both(folder: Path) -> list[Found]:
    found, codes = in_team(steps_and_a_training, folder)
    assert codes == [0, 0]
    return found


def test_two_workers_take_the_step_of_one_with_all_rows(both: list[Found]) -> None:
    alone = one_step(Team())
    assert len(alone) > 100
    for name, value in alone.items():
        for worker in both:
            torch.testing.assert_close(worker[name], value, rtol=1e-10, atol=1e-10, msg=f"{name}: {{}}".format)


def test_two_workers_train_the_model_of_one(both: list[Found], folder: Path) -> None:
    alone = from_files(Team(), folder)
    for name, value in alone.items():
        assert torch.equal(both[0][name], both[1][name]), name
        torch.testing.assert_close(both[0][name], value, rtol=1e-4, atol=1e-5, msg=f"{name}: {{}}".format)


@pytest.mark.long
@pytest.mark.parametrize("count", [2, 3])
def test_the_others_of_a_killed_worker_end_and_any_number_goes_on(both: list[Found], folder: Path, count: int) -> None:
    """With the same number of workers to the same model, bit for bit."""
    shutil.rmtree(folder / "states", ignore_errors=True)
    _, codes = in_team(killed_in_its_third_epoch, folder)
    assert codes == [1, 9]
    assert list((folder / "states").iterdir())
    found, codes = in_team(resumed, folder, count)
    assert codes == [0] * count
    for name, value in from_files(Team(), folder).items():
        if count == 2:
            assert torch.equal(found[0][name], both[0][name]), name
        torch.testing.assert_close(found[0][name], value, rtol=1e-4, atol=1e-5)


def test_trouble_of_one_worker_is_everyones(tmp_path: Path) -> None:
    _, codes = in_team(not_a_number, tmp_path)
    assert codes == [0, 3]
    trouble, lost = (tmp_path / "said.txt").read_text(encoding="utf-8").splitlines()
    assert "gradient's norm must be finite" in trouble
    assert "All 2 workers must be there until training ends; worker 0 lost another" in lost


def test_a_worker_that_cannot_reach_the_first_says_so() -> None:
    there = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}
    with pytest.raises(ConfigError, match=r"must reach the first of them at 127.0.0.1:9 within 1 s; worker 1 of 2"):
        Team.of_environment(there, seconds=1.0)
    with pytest.raises(ConfigError, match="MASTER_PORT is not set"):
        Team.of_environment({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"})


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cpu:0", ""])
def test_devices_are_checked(name: str) -> None:
    with pytest.raises(MogulError, match="device must be cpu, cuda"):
        device_by_name(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_device_that_is_not_there_is_refused() -> None:
    assert device_by_name("auto").type in ("cpu", "mps")
    with pytest.raises(MogulError, match="device must be there; got 'cuda'"):
        device_by_name("cuda")
