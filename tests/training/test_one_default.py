"""`mogul.fit`, the estimator and the command line give the same model for the same data, bit for bit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import mogul
from mogul import MultiOutputGPRegressor
from mogul.cli.fit import fit_file
from mogul.errors import ConfigError, DataError, ShapeError
from mogul.training import FitRequest, Fitted
from mogul.training.defaults import default_model, preset, with_defaults

INPUTS, OUTPUTS = ["time", "load"], ["left", "right"]
ONCE: dict[str, Any] = {"epochs": 1, "num_starts": 1, "num_inducing": 5}


def table(num_rows: int = 24) -> pd.DataFrame:
    """Two inputs, two outputs with gaps, and four runs in words."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (num_rows, 2))
    y = np.column_stack([np.sin(2 * x[:, 0]), 5 * np.cos(x[:, 1])]) + 0.1 * rng.standard_normal((num_rows, 2))
    y[::5, 1] = np.nan
    frame = pd.DataFrame(np.hstack([x, y]), columns=[*INPUTS, *OUTPUTS])
    return frame.assign(run=np.array(list("abcd"))[np.arange(num_rows) * 4 // num_rows])


def arrays(num_rows: int = 24) -> tuple[np.ndarray, np.ndarray]:
    frame = table(num_rows)
    return np.ascontiguousarray(frame[INPUTS]), np.ascontiguousarray(frame[OUTPUTS])


# How many rows, arguments of `mogul.fit` and of the estimator, and whether rows come in groups.
CASES: dict[str, tuple[int, dict[str, Any], bool]] = {
    "few rows": (24, {}, False),
    "many rows": (2600, {}, False),
    "a named model": (24, {"model": "n-mogp"}, False),
    "groups": (40, {}, True),
    "calibrated": (24, {"calibrate": 0.25}, False),
    "groups, calibrated": (40, {"calibrate": 0.25}, True),
    "auto": (24, {"model": "auto"}, False),
    "auto by groups": (40, {"noise": "auto"}, True),
    "the paper's": (24, {"preset": "paper"}, False),
    "another objective": (24, {"objective": "balanced"}, False),
}


@pytest.mark.filterwarnings("ignore:The kernel matrix of the inducing points needed a jitter")
@pytest.mark.parametrize("case", CASES)
def test_one_default_for_all_who_ask(case: str, tmp_path: Path):
    num_rows, asked, grouped = CASES[case]
    path = tmp_path / "table.csv"
    columns = [*INPUTS, *OUTPUTS, *(["run"] if grouped else [])]
    table(num_rows)[columns].to_csv(path, index=False)
    frame = pd.read_csv(path)
    x, y = frame[INPUTS].to_numpy(), frame[OUTPUTS].to_numpy()
    labels = frame["run"].to_numpy() if grouped else None
    ours = mogul.fit(x, y, groups=labels, epochs=1, seed=3, **asked)
    estimator = MultiOutputGPRegressor(epochs=1, random_state=3, **asked).fit(x, y, groups=labels)
    of_file = mogul.fit(path, targets=OUTPUTS, groups="run" if grouped else None, epochs=1, seed=3, **asked)
    on_command_line = _by_command(path, tmp_path / "model", asked, grouped)
    for other in (estimator.fitted_, of_file, on_command_line):
        assert_same(ours, other, x[:50])


def _by_command(path: Path, out: Path, asked: dict[str, Any], grouped: bool) -> Fitted:
    """What `mogul fit` writes."""
    options = {name: asked[name] for name in ("noise",) if name in asked}
    settings = {"epochs": 1, "objective": asked.get("objective", "elbo")}
    given = {name: asked[name] for name in ("model", "preset", "calibrate") if name in asked}
    request = FitRequest(seed=3, check=True, options=options, settings=settings, **given)
    fit_file(path, OUTPUTS, INPUTS, out, request, groups="run" if grouped else None)
    return mogul.load(out)


def assert_same(one: Fitted, other: Fitted, x: np.ndarray) -> None:
    """The same model, to the last bit of what it predicts and of its intervals."""
    assert one.model_name == other.model_name
    assert one.history.num_rows == other.history.num_rows
    first, second = one.predict(x, 20), other.predict(x, 20)
    np.testing.assert_array_equal(first.mean, second.mean)
    np.testing.assert_array_equal(first.var, second.var)
    if one.calibration is not None or other.calibration is not None:
        np.testing.assert_array_equal(one.interval(x, 0.5), other.interval(x, 0.5))


CONTAINERS: dict[str, Callable[[pd.DataFrame], Fitted]] = {
    "a data set": lambda frame: mogul.fit(mogul.Dataset(frame[INPUTS], frame[OUTPUTS]), **ONCE),
    "frames": lambda frame: mogul.fit(frame[INPUTS], frame[OUTPUTS], **ONCE),
    "frames of polars": lambda frame: mogul.fit(
        pl.DataFrame(frame[INPUTS].to_numpy(), schema=INPUTS), pl.from_dict(dict(frame[OUTPUTS])), **ONCE
    ),
    "a frame": lambda frame: mogul.fit(frame.drop(columns="run"), targets=OUTPUTS, **ONCE),
    "a frame, inputs named": lambda frame: mogul.fit(frame, targets=OUTPUTS, inputs=INPUTS, **ONCE),
    "a frame of polars": lambda frame: mogul.fit(
        pl.from_dict({name: frame[name].to_list() for name in frame}), targets=OUTPUTS, inputs=INPUTS, **ONCE
    ),
    "tensors": lambda frame: mogul.fit(
        torch.as_tensor(frame[INPUTS].to_numpy(copy=True)), torch.as_tensor(frame[OUTPUTS].to_numpy(copy=True)), **ONCE
    ),
    "lists": lambda frame: mogul.fit(frame[INPUTS].to_numpy().tolist(), frame[OUTPUTS].to_numpy().tolist(), **ONCE),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_container_does_not_matter(container: str):
    x, y = arrays()
    given = CONTAINERS[container](table())
    assert_same(mogul.fit(x, y, **ONCE), given, x)
    named = container not in ("tensors", "lists")
    assert given.output_names == (OUTPUTS if named else ["y0", "y1"])
    assert given.input_names == (INPUTS if named else ["x0", "x1"])


@pytest.mark.parametrize("as_path", [str, Path])
@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_a_path_is_read_as_the_command_line_reads_it(as_path: type, ending: str, tmp_path: Path):
    path, frame = tmp_path / f"table.{ending}", table().drop(columns="run")
    if ending == "csv":
        frame.to_csv(path, index=False)
        frame = pd.read_csv(path)
    elif ending == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        np.savez(path, **{name: frame[name].to_numpy() for name in frame})
    assert_same(
        mogul.fit(as_path(path), targets=OUTPUTS, **ONCE),
        mogul.fit(frame[INPUTS], frame[OUTPUTS], **ONCE),
        frame[INPUTS].to_numpy(),
    )


def test_one_output_may_have_one_axis():
    x, y = arrays()
    assert_same(mogul.fit(x, y[:, 0], **ONCE), mogul.fit(x, y[:, :1], **ONCE), x)
    one = mogul.fit(table().drop(columns=["run", "right"]), targets="left", **ONCE)
    assert_same(one, mogul.fit(x, y[:, :1], **ONCE), x)


def test_groups_may_be_a_column_or_labels():
    frame, (x, y) = table(), arrays()
    by_name = mogul.fit(frame, targets=OUTPUTS, groups="run", **ONCE)
    by_label = mogul.fit(frame[INPUTS], frame[OUTPUTS], groups=frame["run"], **ONCE)
    assert_same(by_name, by_label, x)
    assert by_name.history.retrained
    assert not mogul.fit(x, y, **ONCE).history.retrained


def test_groups_may_be_a_column_of_x_beside_y():
    polars = pytest.importorskip("polars")
    frame, (x, y) = table(), arrays()
    by_array = mogul.fit(x, y, groups=frame["run"].to_numpy(), **ONCE)
    beside = frame[["time", "run", "load"]]
    for inputs in (beside, polars.DataFrame({name: beside[name].to_numpy() for name in beside})):
        by_name = mogul.fit(inputs, frame[OUTPUTS], groups="run", **ONCE)
        assert by_name.input_names == INPUTS
        assert_same(by_name, by_array, x)


def test_rows_of_ones_own_say_when_to_stop():
    x, y = arrays()
    pair = mogul.fit(x[:18], y[:18], validation=(x[18:], y[18:]), **ONCE)
    data_set = mogul.fit(x[:18], y[:18], validation=mogul.Dataset(x[18:], y[18:]), **ONCE)
    places = mogul.fit(x, y, held_out=np.arange(18, 24), **ONCE)
    estimator = MultiOutputGPRegressor(**ONCE).fit(x[:18], y[:18], validation=(x[18:], y[18:])).fitted_
    assert pair.history.held_out is not None
    for other in (data_set, places, estimator):
        assert_same(pair, other, x)


def test_outputs_alone_are_enough_for_latent_inputs():
    _, y = arrays()
    small = ONCE | {"num_inputs": 1}
    alone = mogul.fit(None, y, model="mogp-lvm", **small)
    frame = mogul.fit(table()[OUTPUTS], targets=OUTPUTS, model="mogp-lvm", **small)
    np.testing.assert_array_equal(alone.predict([[0.5]]).mean, frame.predict([[0.5]]).mean)


def test_a_request_as_in_the_paper_has_its_noise_and_sizes():
    x, y = arrays()
    config = replace(preset("paper", "mogp", seed=0, num_rows=24).within(1), num_starts=1)
    request = FitRequest("mogp", config, as_in_paper=True, options={"num_inducing": 5})
    assert_same(request.fit(mogul.Dataset(x, y)), mogul.fit(x, y, model="mogp", preset="paper", **ONCE), x)


def test_the_default_is_what_the_presets_say():
    x, y = arrays()
    fitted = mogul.fit(x, y, **ONCE)
    assert fitted.model_name == default_model(24, 2)
    assert fitted.blueprint is not None
    assert fitted.blueprint.options["num_latents"] == with_defaults({}, "mogp", None, 2, 24)["num_latents"]


X, Y = arrays()
REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no outputs": ({"X": X}, DataError, "must be outputs to learn; got a ndarray alone. Give them as Y, or .* targets"),
    "a model in place of Y": (
        {"X": mogul.Dataset(X, Y), "Y": "mogp"},
        ConfigError,
        "Y must be left out beside a Dataset, .*; got 'mogp'. To name a model, write model='mogp'",
    ),
    "Y beside a path": (
        {"X": "t.csv", "Y": Y},
        ConfigError,
        "Y must be left out .* 't.csv'; got ndarray. Name columns",
    ),
    "targets beside Y": ({"X": X, "Y": Y, "targets": "left"}, ConfigError, "targets must be left out beside Y, which"),
    "inputs beside Y": ({"X": X, "Y": Y, "inputs": ["a"]}, ConfigError, "inputs must be left out beside Y, .* a list"),
    "targets of an array": ({"X": X, "targets": "left"}, ConfigError, "columns of a DataFrame .* got a ndarray as X"),
    "unknown target": (
        {"X": table(), "targets": "lef"},
        DataError,
        "targets must name columns of X; 'lef' is not among",
    ),
    "a group among inputs": (
        {"X": table(), "targets": OUTPUTS, "groups": "time", "inputs": INPUTS},
        ConfigError,
        "groups must be a separate column; 'time'",
    ),
    "no such file": ({"X": "no.csv", "targets": "left"}, OSError, "The table must exist; no.csv is not a file. Check"),
    "no targets": (
        {"X": table(), "targets": []},
        ConfigError,
        r"targets must name the columns .* got none. X has time,",
    ),
    "one axis": (
        {"X": X[:, 0], "Y": Y},
        ShapeError,
        r"X must be \(rows, columns\); .* For one column use X\[:, None\], for one row X\[None\]",
    ),
    "too few rows": ({"X": X[1:], "Y": Y}, ShapeError, "the same number of rows; got 23 and 24"),
    "no share": ({"X": X, "Y": Y, "calibrate": 2}, ConfigError, "calibrate must be a share .*; got 2. Try 0.1"),
    "held out twice": (
        {"X": X, "Y": Y, "held_out": np.arange(3), "calibrate": 0.2},
        ConfigError,
        "held_out says which rows are held out, and calibrate draws some; got both. Leave one",
    ),
    "latent and groups": (
        {"X": None, "Y": Y, "model": "mogp-lvm", "groups": np.arange(24)},
        ConfigError,
        "groups needs a model with observed inputs, .*; got mogp-lvm. Leave it out",
    ),
    "groups by name of an array": (
        {"X": X, "Y": Y, "groups": "run"},
        ConfigError,
        "groups names a column of a DataFrame; got 'run' and a ndarray as X. Give a label for each row",
    ),
    "unknown groups beside Y": (
        {"X": table()[["run"]], "Y": Y, "groups": "ran"},
        DataError,
        "groups must name columns of X; 'ran' is not among",
    ),
    "own rows and groups": (
        {"X": X, "Y": Y, "validation": (X, Y), "groups": np.arange(24)},
        ConfigError,
        "rows to validate on, or groups to take them from; got both. Leave one",
    ),
    "odd config": (
        {"X": X, "Y": Y, "config": {"epochs": 1}},
        ConfigError,
        "config must be a mogul.TrainingConfig; got",
    ),
    "no epochs": ({"X": X, "Y": Y, "epochs": 0}, ConfigError, "epochs must be at least 1; got 0. Pass a positive"),
}


@pytest.mark.usefixtures("as_a_user_calls")
@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused(case: str):
    arguments, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        mogul.fit(**arguments)
