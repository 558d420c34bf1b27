"""`mogul export`: from a model file to a program, and back to a comparison."""

import json
from pathlib import Path

import pytest
from tests.helpers.arm import QUICK, arm_folder
from tests.helpers.terminal import assert_refused, command

pytest.importorskip("onnxruntime", reason="mogul[export] is not installed")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run `mogul` in a folder with a table."""
    arm_folder(tmp_path, monkeypatch)
    return command(monkeypatch, capsys)


def test_a_model_file_becomes_a_program_that_can_be_verified(run):
    assert run("fit", "arm.csv", "--targets", "force,torque", "--model", "mogp", "--out", "arm.mogul", *QUICK).code == 0
    exported = run("export", "arm.mogul", "arm.onnx", "--json")
    assert exported.code == 0, exported.err
    assert json.loads(exported.out)["differences"]["mean"] < 1e-5
    again = run("export", "--verify", "arm.onnx", "arm.csv")
    assert again.code == 0, again.err
    assert "arm.onnx agrees with its model on 40 rows" in again.out
    assert_refused(run("export", "arm.mogul", "arm.onnx"), "exists")
    assert_refused(run("export", "arm.mogul", "arm.txt"), "FILE must end in .onnx; got arm.txt. Try arm.onnx")
    assert_refused(
        run("export", "arm.mogul", "b.onnx", "--precision", "float16"), "precision must be float32 or float64"
    )
    assert_refused(run("export", "arm.csv", "b.onnx"), "arm.csv")
    assert not Path("b.onnx").exists()
    assert_refused(run("export", "--verify", "arm.csv", "arm.csv"), "must be an ONNX program")
    assert_refused(run("export", "--verify", "arm.onnx", "arm.csv", "--jacobian"), "--verify takes a file as it is")
    assert_refused(run("export", "arm.mogul", "b.onnx", "--model", "arm.mogul"), "are for --verify")
    Path("narrow.csv").write_text("angle,gravity\n1,2\n")
    assert_refused(run("export", "--verify", "arm.onnx", "narrow.csv"), "'load' is not in")
    Path("gap.csv").write_text("angle,gravity,load\n1,9.81,\n")
    assert_refused(run("export", "--verify", "arm.onnx", "gap.csv"), "load")
    Path("arm.mogul").rename("other.mogul")
    assert_refused(run("export", "--verify", "arm.onnx", "arm.csv"), "there is no arm.mogul. Name it by --model")
