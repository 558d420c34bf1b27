"""The audit finds what was put there."""

import json

import numpy as np
import pytest

from mogul.data import Dataset
from mogul.data.splits import GroupedData
from mogul.lab.datasets.audit import audit


@pytest.fixture
def rows() -> np.ndarray:
    """Forty different rows of three inputs and two outputs."""
    return np.random.default_rng(0).normal(size=(40, 5))


def group(rows: np.ndarray, num_test: int = 10) -> GroupedData:
    return GroupedData("demo", Dataset(rows[:, :3], rows[:, 3:]), np.repeat([1, 2, 3, 4, 5], 8), num_test)


def test_clean_data_are_found_clean(rows: np.ndarray) -> None:
    found = audit(group(rows))
    assert (found.num_rows, found.num_inputs, found.num_outputs, found.num_groups) == (40, 3, 2, 5)
    assert found.repeated_rows == found.rows_with_a_twin == found.rows_with_an_input_twin == 0
    assert found.test_rows_with_a_twin_in_training == found.missing_values == 0
    assert found.constant_columns == ()
    assert set(found.zero_shares.values()) == {0.0}


def test_repeats_and_twins_are_counted_apart(rows: np.ndarray) -> None:
    rows[[1, 2]] = rows[0]
    rows[4] = rows[3]
    found = audit(group(rows))
    assert (found.repeated_rows, found.rows_with_a_twin) == (3, 5)


def test_equal_inputs_with_other_outputs_are_no_repeat(rows: np.ndarray) -> None:
    rows[1, :3] = rows[0, :3]
    found = audit(group(rows))
    assert (found.repeated_rows, found.rows_with_an_input_twin) == (0, 2)


def test_missing_values_equal_each_other_and_zero_has_no_sign(rows: np.ndarray) -> None:
    rows[[0, 1], 3] = np.nan
    rows[0, 0], rows[1, 0] = 0.0, -0.0
    rows[1, [1, 2, 4]] = rows[0, [1, 2, 4]]
    found = audit(group(rows))
    assert (found.missing_values, found.repeated_rows) == (2, 1)
    assert found.zero_shares["x0"] == pytest.approx(2 / 40)


def test_leaks_are_test_rows_with_a_twin_in_training(rows: np.ndarray) -> None:
    clean = group(rows)
    train, test = clean.random_split(seed=0).rows(clean.groups)
    rows[test[0]] = rows[train[0]]
    rows[test[1], :3] = rows[train[1], :3]
    rows[test[2]] = rows[test[3]]
    found = audit(group(rows))
    assert found.test_rows == 10
    assert found.test_rows_with_a_twin_in_training == 1
    assert found.test_rows_with_an_input_twin_in_training == 2


def test_leaks_across_groups_are_found(rows: np.ndarray) -> None:
    rows[39] = rows[0]
    assert audit(group(rows)).test_rows_with_a_twin_across_groups == 1


def test_one_group_leaks_into_no_other(rows: np.ndarray) -> None:
    alone = GroupedData("demo", Dataset(None, rows), np.ones(40, dtype=np.int64), num_test=10)
    found = audit(alone)
    assert (found.num_inputs, found.num_groups, found.test_rows_with_a_twin_across_groups) == (0, 1, 0)


def test_constant_columns_are_named_and_all_is_plain(rows: np.ndarray) -> None:
    rows[:, 2], rows[:, 4] = 7.0, 1.0
    found = json.loads(json.dumps(audit(group(rows)).to_json()))
    assert found["constant_columns"] == ["x2", "y1"]
