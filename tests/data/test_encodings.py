"""Input columns of any kind as numbers: as scikit-learn and pandas have them, and safe for new levels and gaps."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from mogul import MultiOutputGPRegressor, fit, load
from mogul.data.encodings.encoding import InputEncoding, rows_to_keep
from mogul.data.sources.given import given_data
from mogul.data.sources.reading import Reading
from mogul.data.sources.sentinels import with_gaps
from mogul.data.sources.table import Table
from mogul.errors import ConfigError, DataError, FileError, MogulWarning, ShapeError, UnknownNameError
from mogul.storage import header
from mogul.storage.header import read_header

RNG = np.random.default_rng(0)
HOURS = pd.date_range("2023-05-01", periods=500, freq="29h")
FRAME = pd.DataFrame(
    {
        "size": np.where(RNG.random(500) < 0.1, np.nan, RNG.normal(5, 2, 500)),
        "site": RNG.choice(["north", "south", "west"], 500),
        "town": [f"town {number}" for number in RNG.integers(0, 25, 500)],
        "wet": RNG.random(500) < 0.5,
        "when": HOURS,
    }
)


def test_categories_are_scikit_learns_one_hot():
    encoding = InputEncoding.of(FRAME[["site"]])
    np.testing.assert_array_equal(
        encoding.apply(FRAME), OneHotEncoder(sparse_output=False).fit_transform(FRAME[["site"]])
    )
    assert encoding.features == ["site=north", "site=south", "site=west"]


def test_gaps_are_scikit_learns_mean_and_indicator():
    expected = SimpleImputer(add_indicator=True).fit_transform(FRAME[["size"]])
    np.testing.assert_allclose(InputEncoding.of(FRAME[["size"]]).apply(FRAME), expected, rtol=1e-12)


def test_dates_are_a_trend_and_cycles_by_pandas():
    encoding = InputEncoding.of(FRAME[["when"]])
    days, *waves = encoding.apply(FRAME).T
    np.testing.assert_allclose(days, (HOURS - HOURS[0]) / pd.Timedelta(days=1))
    assert [name.partition("(")[2] for name in encoding.features[1::2]] == [
        "hour, sin)",
        "weekday, sin)",
        "day of year, sin)",
    ]
    hour = np.arctan2(waves[0], waves[1]) % (2 * np.pi) * 24 / (2 * np.pi)
    np.testing.assert_allclose((hour - HOURS.hour + 12) % 24 - 12, 0, atol=1e-6)
    week = np.arctan2(waves[2], waves[3]) % (2 * np.pi) * 7 / (2 * np.pi)
    monday = week[HOURS.day_of_week == 0].round(6) % 7
    assert np.ptp((monday - monday.min()) % 7) < 1  # a day's place in the week is the same in every week


@pytest.mark.parametrize(
    ("step", "cycles"),
    [("1min", []), ("1h", ["hour", "weekday"]), ("1D", ["weekday", "day of year"]), ("7D", ["day of year"])],
)
def test_a_cycle_needs_rows_that_resolve_it(step, cycles):
    when = pd.date_range("2024-01-01", periods=500, freq=step)
    features = InputEncoding.of(pd.DataFrame({"t": when})).features
    assert features == ["t (days)", *(f"t ({cycle}, {wave})" for cycle in cycles for wave in ("sin", "cos"))]


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d %H:%M", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%d.%m.%Y %H.%M.%S", "%Y-%m-%dT%H:%M:%S"]
)
def test_texts_are_the_dates_they_stand_for(form):
    texts = pd.DataFrame({"when": HOURS.strftime(form)})
    np.testing.assert_allclose(InputEncoding.of(texts).apply(texts), InputEncoding.of(FRAME[["when"]]).apply(FRAME))


def test_more_levels_have_points_that_are_nearly_equally_far_apart():
    encoding = InputEncoding.of(FRAME[["town"]])
    points = np.unique(encoding.apply(FRAME), axis=0)
    assert points.shape == (FRAME["town"].nunique(), 8)
    distances = np.linalg.norm(points[:, None] - points, axis=-1)[~np.eye(len(points), dtype=bool)]
    np.testing.assert_allclose(distances, np.sqrt(2), atol=0.75)
    assert distances.std() < 0.3


@pytest.mark.parametrize("num_levels", [1, 2, 3, 10])
def test_a_new_level_is_as_far_from_each_level_as_these_are_from_each_other(num_levels):
    levels = pd.DataFrame({"site": [f"s{number}" for number in range(num_levels)] * 2})
    encoding = InputEncoding.of(levels)
    with pytest.warns(MogulWarning, match="Levels of 'site' .* 'new' in 1 rows of X is not"):
        new = encoding.apply(pd.DataFrame({"site": ["new"]}))
    np.testing.assert_allclose(np.linalg.norm(encoding.apply(levels) - new, axis=1), np.sqrt(2))


def test_a_new_level_is_farther_from_random_points_than_these_are_from_each_other():
    encoding = InputEncoding.of(FRAME[["town"]])
    points = np.unique(encoding.apply(FRAME), axis=0)
    with pytest.warns(MogulWarning, match="Levels of 'town'"):
        new = encoding.apply(pd.DataFrame({"town": ["new"]}))
    nearest = (np.linalg.norm(points[:, None] - points, axis=-1) + 9 * np.eye(len(points))).min(axis=1)
    assert np.linalg.norm(points - new, axis=1).min() > nearest.max()


def test_an_encoding_is_json_and_back():
    frame = FRAME.assign(time=HOURS.strftime("%H:%M"), site=FRAME["site"].where(FRAME.index % 7 > 0))
    frame.loc[3, "when"] = pd.NaT
    encoding = InputEncoding.of(frame, missing={"size": (-9.0, "n/a")})
    again = InputEncoding.from_plain(json.loads(json.dumps(encoding.plain())))
    assert again.plain() == encoding.plain()
    np.testing.assert_array_equal(again.apply(frame), encoding.apply(frame))


def test_what_is_encoded_already_passes():
    encoding = InputEncoding.of(FRAME)
    matrix = encoding.apply(FRAME)
    np.testing.assert_array_equal(encoding.apply(matrix), matrix)
    np.testing.assert_array_equal(encoding.apply(FRAME.to_numpy(dtype=object)), matrix)
    with pytest.raises(ShapeError, match="must have the 5 columns of training, size, site, town, wet, when; got shape"):
        encoding.apply(np.zeros((2, 3)))
    with pytest.raises(DataError, match="'wet' is not there"):
        encoding.apply(FRAME.drop(columns="wet"))


def test_a_gap_that_training_had_not_is_refused():
    encoding = InputEncoding.of(FRAME[["site", "wet"]].astype({"wet": float}))
    with pytest.raises(DataError, match=r"'wet' of X is missing in row 2\. Drop"):
        encoding.apply(FRAME[["site"]].assign(wet=[1.0, np.nan, *[0.0] * 498]))


def test_rows_with_gaps_may_be_dropped_or_refused():
    with pytest.warns(MogulWarning, match="were dropped"):
        data, labels = given_data(FRAME, FRAME["wet"], groups=FRAME["site"], reading=Reading(missing_inputs="drop"))
    known = FRAME["size"].notna()
    assert data.num_rows == known.sum()
    assert list(labels) == list(FRAME["site"][known])
    with pytest.raises(DataError, match=r"'size' in rows .* choose --missing-inputs mean or drop"):
        rows_to_keep(FRAME, "refuse", "t.csv", "--missing-inputs")


def test_numbers_may_be_named_as_categories():
    frame = pd.DataFrame({"rock": [1, 2, 5, 2.0]})
    assert InputEncoding.of(frame, ["rock"]).features == ["rock=1", "rock=2", "rock=5"]
    assert InputEncoding.of(frame.astype("category")).features == ["rock=1", "rock=2", "rock=5"]
    with pytest.raises(UnknownNameError, match="categories must be one of rock"):
        InputEncoding.of(frame, ["rok"])


def test_numbers_that_stand_for_gaps_are_found_beyond_doubt_and_named_in_doubt():
    rng = np.random.default_rng(1)
    columns = {"far": rng.normal(0, 1, 90), "wide": rng.uniform(0, 900, 90), "zeros": rng.exponential(1, 90).round(1)}
    for values in columns.values():
        values[::9] = -200
    columns["zeros"][1::2] = 0
    table = with_gaps(Table("t.csv", columns), list(columns), [], "--missing")
    assert dict(table.missing) == dict.fromkeys(columns, (-200.0,))
    assert np.isnan(table.columns["wide"]).sum() == 10
    only = with_gaps(Table("t.csv", {"wide": columns["wide"]}), ["wide"], [], "--missing")
    assert not only.missing
    doubtful = rng.normal(0, 1, 90)
    doubtful[::9] = -9
    (doubt,) = with_gaps(Table("t.csv", {"a": doubtful}), ["a"], [], "--missing").doubts
    assert "'a' is -9 in 10 rows" in doubt
    assert doubt.endswith("--missing -9.")
    given = with_gaps(Table("t.csv", {"a": doubtful, "b": ["?", "x"] * 45}), ["a", "b"], ["-9", "?"], "--missing")
    assert np.isnan(given.columns["a"]).sum() == 10
    assert given.columns["b"].isna().sum() == 45
    assert with_gaps(Table("t.csv", columns), list(columns), ["none"], "--missing").missing == {}


def test_counts_skewed_values_and_flags_are_left_alone():
    rng = np.random.default_rng(2)
    columns = {
        "count": rng.poisson(0.5, 400).astype(float),
        "skewed": np.exp(rng.normal(0, 1.5, 400)).round(2),
        "flag": (rng.random(400) < 0.05).astype(float),
        "angle": rng.integers(-180, 180, 400).astype(float),
        "stars": rng.integers(1, 6, 400).astype(float),
    }
    table = with_gaps(Table("t.csv", columns), list(columns), [], "--missing")
    assert not table.missing
    assert not [doubt for doubt in table.doubts if "gap" in doubt]


def test_values_far_out_are_named_with_their_row():
    values = np.random.default_rng(3).normal(20, 1, 300)
    values[41] = 2000
    (doubt,) = with_gaps(Table("t.csv", {"T": values}), ["T"], [], "--missing").doubts
    assert "'T' is 2000 in row 42" in doubt


def test_a_long_table_is_pandas_pivot_with_repeated_values_in_rows_of_their_own():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {"x": rng.integers(0, 8, 40), "run": rng.choice(["a", "b"], 40), "task": rng.choice(["u", "v"], 40)}
    )
    frame["value"] = rng.random(40)
    wide, tasks = Reading(long=("task", "value")).wide(Table("here", dict(frame.items())), None, None, None)
    assert tasks == ["u", "v"]
    melted = wide.frame(["x", "run", "u", "v"]).melt(["x", "run"], var_name="task", value_name="value").dropna()
    order = ["x", "run", "task", "value"]
    pd.testing.assert_frame_equal(
        melted[order].sort_values(order, ignore_index=True),
        frame[order].sort_values(order, ignore_index=True),
        check_dtype=False,
    )
    most = frame.groupby(["x", "run", "task"]).size().groupby(["x", "run"]).max()
    assert len(wide.columns["x"]) == most.sum()


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, 40), "kind": rng.choice(["a", "b"], 40)})
    return frame, np.sin(3 * frame["x"]) + (frame["kind"] == "b") + 0.05 * rng.standard_normal(40)


def test_estimator_function_and_file_agree(rows, tmp_path, monkeypatch):
    frame, y = rows
    fitted = fit(frame, y, noise="constant")
    regressor = MultiOutputGPRegressor(noise="constant").fit(frame, y)
    assert (regressor.predict(frame) == fitted.predictor().mean(frame)[:, 0]).all()
    assert regressor.n_features_in_ == 2
    assert regressor.score(frame, y) > 0.9
    with pytest.raises(ValueError, match="feature names should match"):
        regressor.predict(frame[["x"]])
    regressor.save(tmp_path / "e.mogul")
    again = MultiOutputGPRegressor.load(tmp_path / "e.mogul")
    assert (again.predict(frame.iloc[::-1]) == regressor.predict(frame.iloc[::-1])).all()
    fitted.save(tmp_path / "m.mogul")
    assert (load(tmp_path / "m.mogul").predict(frame).mean == fitted.predict(frame).mean).all()
    np.testing.assert_allclose(fitted.log_density(frame, y), fitted.predict(frame).log_density(np.array(y)[:, None]))
    # Versions that know nothing of encodings refuse the file; files without one stay as they were.
    assert read_header(tmp_path / "m.mogul")["format"] == 3
    fit(frame[["x"]], y, noise="constant").save(tmp_path / "plain.mogul")
    assert read_header(tmp_path / "plain.mogul")["format"] == 1
    monkeypatch.setattr(header, "FORMAT_WITH_CHAIN", 2)  # the newest that this version reads
    with pytest.raises(FileError, match="must have format 2 or older"):
        load(tmp_path / "m.mogul")


def test_own_validation_rows_are_encoded_as_training_rows_are(rows):
    frame, y = rows
    own = (frame.iloc[:8].assign(kind="b"), y.iloc[:8])  # with one of two levels
    fitted = fit(frame.iloc[8:], y.iloc[8:], validation=own, noise="constant")
    assert fitted.input_names == ["x", "kind=a", "kind=b"]
    assert MultiOutputGPRegressor(noise="constant").fit(frame.iloc[8:], y.iloc[8:], validation=own).fitted_ is not None


def test_an_estimator_cannot_drop_rows(rows):
    frame, y = rows
    with pytest.raises(ConfigError, match="must be 'mean' or 'refuse' in an estimator"):
        MultiOutputGPRegressor(missing_inputs="drop").fit(frame, y)
