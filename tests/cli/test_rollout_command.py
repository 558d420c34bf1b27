"""`mogul dynamics` and `mogul rollout`, from a table to a fan."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mogul import cli
from mogul.cli.runner import run
from mogul.dynamics import Dynamics


def call(*arguments: object) -> str:
    result = CliRunner().invoke(cli.app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    torque = rng.uniform(-1, 1, 50)
    speed = np.concatenate([np.cumsum(torque[:25]), np.cumsum(torque[25:])])
    frame = pd.DataFrame({"run": np.repeat(["a", "b"], 25), "speed": speed, "torque": np.roll(torque, -1)})
    frame.to_csv(folder / "arm.csv", index=False)
    pd.DataFrame({"speed": [0.5]}).to_csv(folder / "start.csv", index=False)
    pd.DataFrame({"torque": [1.0, 1.0]}).to_csv(folder / "actions.csv", index=False)
    out = call(
        *("dynamics", folder / "arm.csv", "--state", "speed", "--action", "torque", "--groups", "run", "--dt", ".5"),
        *("--noise", "constant", "--kernel", "rbf", "--quiet", "--out", folder / "arm.mogul", "--json"),
    )
    assert json.loads(out)["trajectories"] == 2
    return folder


def test_a_fan_is_written_as_a_table_and_a_picture(folder):
    files = folder / "arm.mogul", folder / "start.csv", "--actions", folder / "actions.csv"
    call("rollout", *files, "--out", folder / "fan.csv", "--plot", folder / "fan.png", "--particles", 50)
    fan = pd.read_csv(folder / "fan.csv")
    assert list(fan) == ["step", "time", "speed", "speed_std", "speed_q0.05", "speed_q0.95"]
    assert fan["time"].tolist() == [0, 0.5, 1]
    np.testing.assert_allclose(fan["speed"], [0.5, 1.5, 2.5], atol=0.05)
    direct = Dynamics.load(folder / "arm.mogul").rollout([0.5], np.ones((2, 1)), num_particles=50)
    np.testing.assert_allclose(fan["speed"], direct.mean[:, 0], atol=1e-12)
    assert (folder / "fan.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(call("rollout", *files, "--json"))["step"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        ("velocity\n0.5\n", [], "START must name columns of"),
        ("speed\n\n", [], "at least one row"),
        ("speed\n0\n1\n", ["--plot", "two.png"], "fan of one start; got 2"),
        ("speed\n0\n", ["--plot", "fan.txt"], "--plot must end in .png"),
        ("speed\n0\n", ["--method", "exact"], "method must be one of functions"),
        ("speed\nx\n", [], "START|'speed'"),
    ],
)
def test_what_is_wrong_is_one_line(folder, tmp_path, monkeypatch, capsys, table, options, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.csv").write_text(table)
    arguments = ["rollout", str(folder / "arm.mogul"), "own.csv", "--actions", str(folder / "actions.csv"), *options]
    assert run(cli.app, arguments) == 2
    error = capsys.readouterr().err
    assert pytest.importorskip("re").search(words, error), error
    assert "Traceback" not in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.csv"]
