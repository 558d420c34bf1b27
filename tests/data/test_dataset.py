"""Data in every form that people have them, and the scaling that is learnt from them."""

import numpy as np
import pandas as pd
import pytest
import torch

from mogul.data import Dataset, Scaling, Standardiser
from mogul.errors import DataError
from mogul.training import fit

X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
Y = np.array([[1.0, np.nan], [0.0, 7.0], [1.0, 8.0]])


@pytest.fixture
def frame() -> pd.DataFrame:
    """Outputs with names, one of them partly missing."""
    return pd.DataFrame({"torque": [1.0, 2.0, 3.0, np.nan], "speed": [5.0, 6.0, 7.0, 8.0]})


@pytest.fixture
def named(frame: pd.DataFrame) -> Dataset:
    return Dataset(pd.DataFrame({"angle": [0.0, 1.0, 2.0, 3.0]}), frame)


@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        torch.as_tensor,
        lambda values: torch.as_tensor(values).requires_grad_(),
        lambda values: torch.as_tensor(values, dtype=torch.float32),
        np.ndarray.tolist,
        lambda values: tuple(map(tuple, values)),
        pd.DataFrame,
        lambda values: np.asfortranarray(values),
        lambda values: values.astype(object),
        lambda values: values.astype(np.float16),
    ],
    ids=["array", "tensor", "grad", "float32", "lists", "tuples", "frame", "fortran", "object", "float16"],
)
def test_every_container_gives_the_same_float64_matrices(convert):
    data = Dataset(convert(X), convert(Y))
    np.testing.assert_array_equal(data.x, X)
    np.testing.assert_array_equal(data.y, Y)
    assert data.x.dtype == data.y.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.bool_])
def test_integers_and_booleans_become_float64(dtype):
    values = np.array([[0, 1], [1, 1]]).astype(dtype)
    data = Dataset(values, torch.as_tensor(values))
    np.testing.assert_array_equal(data.x, [[0.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(data.y, data.x)
    assert data.x.dtype == data.y.dtype == np.float64


@pytest.mark.parametrize(
    ("dtype", "values"), [("Int64", [1, None, 3]), ("Float64", [1.0, None, 3.0]), ("boolean", [True, None, False])]
)
def test_a_nullable_column_has_nan_where_pandas_has_na(dtype, values):
    y = pd.DataFrame({"a": pd.array(values, dtype=dtype), "b": [1.0, 2.0, 3.0]})
    data = Dataset(X, y)
    expected = [np.nan if value is None else float(value) for value in values]
    np.testing.assert_array_equal(data.y, np.column_stack([expected, [1.0, 2.0, 3.0]]))
    assert data.num_missing == 1


def test_na_in_an_input_is_an_error_that_names_its_place():
    x = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": pd.array([1, None, 3], dtype="Int64")})
    with pytest.raises(DataError, match="column 'b' holds nan in row 1"):
        Dataset(x, Y)


def test_none_in_a_list_is_a_missing_output():
    data = Dataset([[1.0], [2.0]], [[None], [2.0]])
    np.testing.assert_array_equal(data.y, [[np.nan], [2.0]])


def test_sizes_and_missing_values_are_counted():
    data = Dataset(X[:, :1], Y)
    assert (data.num_rows, data.num_inputs, data.num_outputs, data.num_missing) == (3, 1, 2, 1)


def test_a_frame_keeps_its_names_and_an_array_gets_numbered_ones(named: Dataset):
    assert named.input_names == ["angle"]
    assert named.output_names == ["torque", "speed"]
    plain = Dataset(X, Y)
    assert plain.input_names == ["x0", "x1"]
    assert plain.output_names == ["y0", "y1"]


def test_names_that_are_not_strings_become_strings():
    assert Dataset(pd.DataFrame({3: [1.0], ("a", 1): [2.0]}), [[1.0]]).input_names == ["3", "('a', 1)"]


def test_a_data_set_is_a_copy_of_what_it_was_made_from():
    x, y = X.copy(), torch.as_tensor(Y.copy())
    data = Dataset(x, y)
    x[:], y[:] = -1.0, -1.0
    np.testing.assert_array_equal(data.x, X)
    np.testing.assert_array_equal(data.y, Y)


def test_rows_keep_values_order_and_names(named: Dataset):
    part = named.rows(np.array([2, 0]))
    np.testing.assert_array_equal(part.x, [[2.0], [0.0]])
    np.testing.assert_array_equal(part.y, [[3.0, 7.0], [1.0, 5.0]])
    assert (part.input_names, part.output_names) == (named.input_names, named.output_names)


def test_a_split_puts_every_row_on_one_side_with_its_outputs():
    x = np.arange(50.0)[:, None]
    train, test = Dataset(x, 2 * x).split(0.3, seed=1)
    assert (train.num_rows, test.num_rows) == (35, 15)
    np.testing.assert_array_equal(np.sort(np.concatenate([train.x, test.x]), axis=0), x)
    np.testing.assert_array_equal(train.y, 2 * train.x)
    np.testing.assert_array_equal(test.y, 2 * test.x)
    assert np.any(np.diff(test.x[:, 0]) < 0), "rows should be in random order"


def test_a_split_is_decided_by_its_seed():
    data = Dataset(np.arange(50.0)[:, None], np.ones((50, 1)))
    first, again, other = (data.split(0.5, seed)[0].x for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_some_rows_may_lack_an_output_until_one_trains_on_them(named: Dataset):
    part = named.rows(np.array([3]))
    with pytest.raises(DataError) as caught:
        fit(part, model="mogp")
    assert "'torque'" in str(caught.value)


def test_a_masked_output_is_a_missing_output():
    data = Dataset([[1.0], [2.0]], np.ma.masked_array([[1.0], [99.0]], mask=[[False], [True]]))
    np.testing.assert_array_equal(data.y, [[1.0], [np.nan]])


def test_a_bfloat16_tensor_is_accepted():
    data = Dataset(torch.as_tensor(X, dtype=torch.bfloat16), Y)
    np.testing.assert_array_equal(data.x, X)


class TestStandardiser:
    """Zero mean, unit variance, and back."""

    values = np.random.default_rng(0).normal([5.0, -300.0, 2e-3], [2.0, 40.0, 1e-5], (200, 3))

    def test_columns_get_zero_mean_and_unit_variance(self):
        standard = Standardiser.of(self.values).apply(self.values)
        np.testing.assert_allclose(standard.mean(0), 0.0, atol=1e-12)
        np.testing.assert_allclose(standard.std(0), 1.0, rtol=1e-12)

    def test_undo_is_the_inverse_of_apply(self):
        units = Standardiser.of(self.values)
        fresh = np.random.default_rng(1).normal(size=(7, 3))
        np.testing.assert_allclose(units.undo(units.apply(self.values)), self.values, rtol=1e-14)
        np.testing.assert_allclose(units.apply(units.undo(fresh)), fresh, rtol=1e-8, atol=1e-10)

    def test_undo_takes_leading_axes(self):
        units = Standardiser.of(self.values)
        draws = np.random.default_rng(1).normal(size=(4, 7, 3))
        np.testing.assert_array_equal(units.undo(draws), np.stack([units.undo(draw) for draw in draws]))

    @pytest.mark.parametrize("value", [0.0, 0.1, -1e8, 1e-30, 123456.789])
    def test_a_constant_column_is_centred_and_keeps_its_scale(self, value):
        values = np.full((97, 1), value)
        units = Standardiser.of(values)
        assert units.scale == 1.0
        np.testing.assert_allclose(units.apply(values), 0.0, atol=1e-15 * max(1.0, abs(value)))

    def test_one_row_counts_as_constant(self):
        units = Standardiser.of(np.array([[3.0, -2.0]]))
        np.testing.assert_array_equal(units.shift, [3.0, -2.0])
        np.testing.assert_array_equal(units.scale, [1.0, 1.0])

    def test_missing_values_are_ignored_and_stay_missing(self):
        holes = self.values.copy()
        holes[::3, 1] = np.nan
        units, kept = Standardiser.of(holes), self.values[np.arange(200) % 3 != 0, 1]
        np.testing.assert_allclose(units.shift[1], kept.mean(), rtol=1e-14)
        np.testing.assert_allclose(units.scale[1], kept.std(), rtol=1e-14)
        np.testing.assert_array_equal(np.isnan(units.apply(holes)), np.isnan(holes))

    @pytest.mark.parametrize("factor", [1e-9, 1e9])
    def test_the_unit_of_a_column_does_not_matter(self, factor):
        values = self.values[:, :1]
        np.testing.assert_allclose(
            Standardiser.of(factor * values).apply(factor * values), Standardiser.of(values).apply(values), rtol=1e-9
        )

    def test_a_column_in_a_tiny_unit_is_not_constant(self):
        farads = np.array([[1e-13], [2e-13], [3e-13]])
        np.testing.assert_allclose(Standardiser.of(farads).apply(farads).std(), 1.0)


class TestScaling:
    """Learnt on training data once, used on all."""

    def test_test_data_are_scaled_by_the_training_data(self):
        train, test = Dataset(X, X), Dataset(X + 10.0, X - 10.0)
        batch = Scaling.of(train).batch(test, torch.float64)
        np.testing.assert_allclose(batch.x, (X + 10.0 - X.mean(0)) / X.std(0), rtol=1e-14)
        np.testing.assert_allclose(batch.y, (X - 10.0 - X.mean(0)) / X.std(0), rtol=1e-14)

    def test_a_batch_has_zero_for_missing_outputs_and_says_so(self):
        batch = Scaling.of(Dataset(X, Y)).batch(Dataset(X, Y), torch.float64)
        assert batch.observed.tolist() == [[True, False], [True, True], [True, True]]
        assert batch.y[0, 1] == 0.0
        np.testing.assert_allclose(batch.y[1:, 1], [-1.0, 1.0], rtol=1e-14)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_a_batch_has_the_precision_asked_for(self, dtype):
        batch = Scaling.of(Dataset(X, Y)).batch(Dataset(X, Y), dtype)
        assert batch.x.dtype == batch.y.dtype == dtype


def test_a_data_set_prints_as_five_lines():
    lines = repr(Dataset([[0.0, 1.0], [2.0, 3.0]], [[1.0], [np.nan]])).splitlines()
    assert lines == [
        "2 rows",
        "Inputs   2: x0, x1",
        "Outputs  1: y0",
        "Values   50.0% missing",
        "Ranges   of outputs: 1 to 1",
    ]
