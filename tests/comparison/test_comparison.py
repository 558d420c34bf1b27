"""Cross-validation: every row held out once, gaps row by row, and a plain word when a line would do."""

import math

import numpy as np
import pytest

from mogul.comparison.crossval import (
    LEAST_SQUARES,
    MEAN,
    Entry,
    Leaderboard,
    _standard_error,
    compare,
    folds,
    group_folds,
    time_folds,
)
from mogul.comparison.rivals import LeastSquares
from mogul.core.check import OutputScores
from mogul.data import Dataset
from mogul.errors import ConfigError, DataError, NumericalError
from mogul.training import FitRequest

QUICK = FitRequest(settings={"epochs": 2})


def data(num_rows: int = 40, slope: float = 3.0) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (num_rows, 2))
    return Dataset(x, slope * x @ [[1.0, 0.5], [0.0, 1.0]] + 0.1 * rng.standard_normal((num_rows, 2)))


def entry(label: str, behind: float, error: float) -> Entry:
    return Entry(label, -behind, 0.1, behind, error, 1.0, 1.0, {0.5: 0.5}, 0.0)


def test_every_row_is_held_out_once():
    splits = folds(11, 4, seed=1)
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(11))
    for train, test in splits:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(11))
    assert not np.array_equal(splits[0][1], folds(11, 4, seed=2)[0][1])


def test_folds_of_time_learn_from_the_past_alone():
    times = np.random.default_rng(0).permutation(np.repeat(np.arange(12.0), 2))
    splits = time_folds(times, 3)
    assert len(splits) == 3
    for train, test in splits:
        assert times[train].max() < times[test].min()
    held_out = np.concatenate([test for _, test in splits])
    np.testing.assert_array_equal(np.sort(times[held_out]), np.repeat(np.arange(3.0, 12.0), 2))
    with pytest.raises(ConfigError, match="fewer than the different times, 12; got 12"):
        time_folds(times, 12)


@pytest.mark.parametrize("number", [1, 0, 12])
def test_folds_must_have_rows(number):
    with pytest.raises(ConfigError, match=f"at most the number of rows, 11; got {number}"):
        folds(11, number, seed=0)


def test_least_squares_scores_what_its_own_evaluation_says():
    """In one split, standardised: LL in original units plus the log of the scales."""
    rows = data()
    train, test = folds(40, 5, seed=0)[0]
    board = compare(rows, [], [(train, test)], QUICK)
    scores = LeastSquares.fit(rows.rows(train)).evaluate(rows.rows(test))
    scale = rows.y[train].std(0)
    assert board[LEAST_SQUARES].ll == pytest.approx(scores.ll + np.log(scale).sum())
    assert board[LEAST_SQUARES].coverage == pytest.approx(scores.coverage)


def test_gaps_are_between_the_same_rows_and_the_best_comes_first():
    board = compare(data(), ["mogp"], folds(40, 3, seed=0), QUICK)
    assert [each.label for each in board.entries] == sorted(
        (each.label for each in board.entries), key=lambda label: -board[label].ll
    )
    assert {each.label for each in board.entries} == {"mogp", LEAST_SQUARES, MEAN}
    best = board.entries[0]
    assert (best.behind, best.behind_error) == (0, 0)
    for each in board.entries:
        assert each.behind == pytest.approx(best.ll - each.ll)
        assert math.isfinite(each.behind_error)
    assert board[MEAN].behind_error < math.hypot(board[MEAN].ll_error, best.ll_error)
    assert board[MEAN].mrmse == pytest.approx(1.0, abs=0.2)


def test_each_output_is_scored_in_its_own_units():
    rows = data()
    rows.y[3, 1] = np.nan
    board = compare(rows, [], folds(40, 4, seed=0), QUICK)
    for label in (LEAST_SQUARES, MEAN):
        unseen, scores = board.unseen[label], board[label].outputs
        assert [each.num_known for each in scores] == [40, 39]
        error = unseen.mean - rows.y[unseen.places]
        np.testing.assert_allclose([each.rmse for each in scores], np.sqrt(np.nanmean(error**2, axis=0)))
    # Predictions of a row are those of the fold that held it out.
    train, test = folds(40, 4, seed=0)[2]
    at = np.searchsorted(np.sort(board.unseen[MEAN].places), test)
    ordered = board.unseen[MEAN].mean[np.argsort(board.unseen[MEAN].places)]
    np.testing.assert_allclose(ordered[at], np.tile(np.nanmean(rows.y[train], axis=0), (len(test), 1)))


def test_importance_names_the_input_that_matters():
    rows = data(60)
    rows.y = np.sin(4 * rows.x[:, :1]) * [1.0, 2.0] + 0.01 * np.random.default_rng(1).standard_normal((60, 2))
    board = compare(rows, ["mogp"], folds(60, 2, seed=0), FitRequest())
    assert board.entries[0].label == "mogp"
    assert board.importance is not None
    assert board.importance.overall[0] > 1.0 > 0.1 > board.importance.overall[1]
    assert compare(rows, [], folds(60, 2, seed=0), QUICK).importance is None


def test_words_for_a_manager_follow_the_scores():
    def words(model: float, line: float, mean: float, inside: float = 0.95, behind: float = 1.0) -> str:
        scores = (OutputScores("y", 1000, 1.0, 0.5, inside),)
        entries = [
            Entry(label, 0.0, 0.1, gap, 0.1, error, 1.0, {0.95: inside}, 0.0, outputs=scores)
            for label, error, gap in (("mogp", model, 0.0), (LEAST_SQUARES, line, behind), (MEAN, mean, 2.0))
        ]
        return Leaderboard(entries).in_words

    told = words(0.25, 0.5, 1.0)
    assert "errors of mogp were 75 % smaller than those of always saying the mean" in told
    assert "50 % smaller than those of a straight line; 95 of 100 true values were inside its 95 % bands" in told
    assert told.endswith("as it should be.")
    assert words(0.5, 0.4, 1.0).endswith(
        "Errors of least squares were 20 % smaller than its own, with less telling bands."
    )
    assert words(0.25, 0.5, 1.0, inside=0.34).endswith(
        "34 of 100 true values were inside its 95 % bands, so they are too narrow."
    )
    assert words(0.25, 0.5, 1.0, inside=1.0).endswith("so they are wider than need be.")
    assert "errors of a straight line were 50 % smaller than those of always" in words(0.49, 0.5, 1.0, behind=0.01)


def test_a_linear_truth_is_called_linear():
    verdict = compare(data(), ["mogp"], folds(40, 3, seed=0), QUICK).verdict
    assert "least squares" in verdict.lower()
    assert "A line would do" in verdict


def test_nothing_to_learn_is_called_that():
    assert "Nothing here beats the mean" in compare(data(slope=0.0), [], folds(40, 4, seed=0), QUICK).verdict


@pytest.mark.parametrize(
    ("behind", "error", "says"),
    [
        (0.04, 0.01, "Least squares is as good as the best: it is 0.04 ± 0.01 nats per row behind mogp"),
        (0.3, 0.31, "Least squares is as good as the best"),
        (0.3, 0.29, "mogp is the best: least squares is 0.30 ± 0.29 nats per row behind"),
        (0.06, 0.01, "mogp is the best"),
    ],
)
def test_a_tie_is_within_a_twentieth_or_a_standard_error(behind, error, says):
    board = Leaderboard([entry("mogp", 0.0, 0.0), entry(LEAST_SQUARES, behind, error), entry(MEAN, 2.0, 0.1)])
    assert board.verdict.startswith(says)


def test_least_squares_may_win():
    board = Leaderboard([entry(LEAST_SQUARES, 0.0, 0.0), entry("mogp", 0.5, 0.1), entry(MEAN, 2.0, 0.1)])
    assert board.verdict.startswith("Least squares is the best: mogp is 0.50 ± 0.10 nats per row behind")


def test_the_mean_may_win():
    board = Leaderboard([entry(MEAN, 0.0, 0.0), entry("mogp", 0.5, 0.1), entry(LEAST_SQUARES, 2.0, 0.1)])
    assert board.verdict == "Nothing here beats the mean: mogp is 0.50 ± 0.10 nats per row behind it."


def test_a_model_that_breaks_down_does_not_take_the_others_with_it(monkeypatch: pytest.MonkeyPatch):
    def fail(*arguments: object, **options: object) -> None:
        raise NumericalError("broke down; here. Do this.")

    monkeypatch.setattr(FitRequest, "fit", fail)
    board = compare(data(), ["mogp"], folds(40, 2, seed=0), QUICK)
    assert board.failures == {"mogp": "broke down; here. Do this."}
    assert {each.label for each in board.entries} == {LEAST_SQUARES, MEAN}
    assert board.to_json()["verdict"] == board.verdict


def test_outputs_that_training_would_never_see_are_refused_before_any_training(monkeypatch: pytest.MonkeyPatch):
    rows = data()
    rows.y[1:, 0] = np.nan
    monkeypatch.setattr(FitRequest, "fit", None)
    with pytest.raises(DataError, match="'y0' has none among the"):
        compare(rows, ["mogp"], folds(40, 2, seed=0), QUICK)


def test_missing_outputs_are_left_out():
    rows = data()
    rows.y[::3, 1] = np.nan
    rows.y[4] = np.nan  # a row without any
    board = compare(rows, [], folds(40, 4, seed=0), QUICK)
    assert all(math.isfinite(each.ll) and math.isfinite(each.mrmse) for each in board.entries)


def test_a_budget_of_epochs_is_kept():
    fitted = FitRequest("mogp", preset="paper", seed=5, settings={"epochs": 3}).fit(data())
    assert len(fitted.history.elbo) == 3
    assert fitted.blueprint is not None
    assert fitted.blueprint.config is not None
    assert fitted.blueprint.config.seed == 5
    assert not hasattr(fitted.model.mean, "weights"), "the paper has no plane"


def test_groups_are_held_out_whole_and_once() -> None:
    groups = np.random.default_rng(0).integers(0, 7, 60)
    splits = group_folds(groups, 3, seed=1)
    assert sorted(np.concatenate([held_out for _, held_out in splits])) == list(range(60))
    for kept, held_out in splits:
        assert not set(groups[kept]) & set(groups[held_out])
        assert len(kept) + len(held_out) == 60
    with pytest.raises(ConfigError, match="at most the number of groups, 7; got 8"):
        group_folds(groups, 8, seed=1)


def test_errors_of_rows_in_groups_are_those_of_a_simulation() -> None:
    """20 groups of 10 rows that share most of what they are off by: the spread of means over draws of all of it."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 10)
    draws = rng.normal(size=(2000, 20))[:, groups] + 0.3 * rng.normal(size=(2000, 200))
    told = np.mean([_standard_error(each, groups) for each in draws])
    assert told == pytest.approx(draws.mean(1).std(), rel=0.05)
    alone = np.mean([_standard_error(each, np.arange(200)) for each in draws])
    assert alone < 0.4 * told
    each = draws[0]
    assert _standard_error(each, np.arange(200)) == pytest.approx(each.std(ddof=1) / 200**0.5)
    assert _standard_error(each, np.zeros(200, dtype=np.int64)) == _standard_error(each, np.arange(200))
    assert _standard_error(each[:1], groups[:1]) == np.inf
