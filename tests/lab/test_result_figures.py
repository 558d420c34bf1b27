"""Figures with the paper's axes, from the records of jobs."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from tests.helpers.sample_results import record, results_of, sample_results

from mogul.lab.experiments.lines import Spread
from mogul.lab.report.figures import Sweep, sweep_figure, sweep_of, table_figure, write_figures
from mogul.lab.report.frame import Board, BoardRow, Results, boards


def board_of(results: Results, key: str) -> Board:
    return next(board for board in boards(results) if board.key == key)


def swept(board: Board) -> Sweep:
    found = sweep_of(board)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def sample() -> Results:
    return sample_results(num_rows=5)


def test_hidden_units_are_drawn_as_in_the_paper(sample):
    board = board_of(sample, "hidden-units-kuka-random-fast")
    figure = sweep_figure(board, swept(board))
    assert [panel.get_ylabel() for panel in figure.axes] == ["test LL", "test MRMSE"]
    assert {panel.get_xlabel() for panel in figure.axes} == {"number of hidden units H"}
    level = {line.get_label(): (line.get_linestyle(), line.get_color()) for line in figure.axes[0].get_lines()}
    assert (level["MOGP"], level["DGP"]) == (("--", "black"), (":", "black"))
    assert level["MOGP + linear"][0] == "--"
    assert level["MOGP + linear"][1] != "black"
    assert level["least squares"] == ("-.", "black")
    assert "mean" not in level  # of the baselines, the one to beat
    curves = {drawn.get_label(): drawn.lines[0] for drawn in figure.axes[0].containers}
    assert set(curves) == {"N-MOGP", "N-SBGPRN", "N-DGP"}
    np.testing.assert_array_equal(curves["N-MOGP"].get_xdata(), [4, 8, 12, 16, 20])
    assert curves["N-MOGP"].get_linestyle() == "-"


def test_little_data_shows_training_and_test_scores(sample):
    sweep = swept(board_of(sample, "small-data-rhythmic-arm-random-fast"))
    assert sweep.panels == ("ll", "train_ll")
    assert sweep.axis == "number of training rows N_data"
    assert {curve.label: curve.dash for curve in sweep.curves} == {"MOGP": "dash", "N-MOGP": "solid"}
    assert not any(curve.is_level for curve in sweep.curves)


def test_a_point_of_a_sweep_is_the_mean_over_its_runs(tmp_path):
    rng = np.random.default_rng(0)
    jobs = [
        record("N-MOGP", "model", "n-mogp", 0, 0.1, 1, rng, settings={"num_hidden": 4}, seed=seed) for seed in (0, 1)
    ]
    for job, ll in zip(jobs, (1.0, 3.0), strict=True):
        job["metrics"]["ll"] = ll
    (curve,) = swept(boards(results_of(jobs))[0]).curves
    assert curve.values("ll") == [(4.0, Spread(2.0, pytest.approx(2**0.5)))]


def test_a_table_without_settings_is_no_sweep(sample):
    assert sweep_of(board_of(sample, "regression-kuka-random-fast")) is None


def test_a_table_is_drawn_best_at_the_top(sample):
    board = board_of(sample, "regression-kuka-random-fast")
    panel = table_figure(board).axes[0]
    names = [text.get_text() for text in panel.get_yticklabels()]
    assert names[-1] == "N-SBGPRN + linear"
    assert names[0] == "mean"
    assert {text.get_text() for text in panel.get_legend().get_texts()} == {"ours", "the paper", "baseline"}


def test_a_straggler_does_not_squash_the_rest():
    scores = {"a": 45.0, "b": 44.0, "c": 43.0, "d": -280.0}
    lines = tuple(BoardRow(label, "model", scores={"ll": Spread(ll, None)}) for label, ll in scores.items())
    board = Board("regression", "kuka", "random", "fast", lines)
    assert [board.bar(line) for line in lines] == [
        1.0,
        pytest.approx(2 / 3, abs=1e-3),
        pytest.approx(1 / 3, abs=1e-3),
        0,
    ]
    panel = table_figure(board).axes[0]
    assert panel.get_xlim()[0] > 40
    assert [text.get_text() for text in panel.texts] == ["← −280.0"]


def test_every_figure_is_written_twice(tmp_path):
    rng = np.random.default_rng(0)
    odd = record("costs $x$ and $", "model", "mogp", 1.0, 0.1, 1, rng, dataset="my data/set")
    units = record("N-MOGP", "model", "n-mogp", 1, 0.1, 1, rng, experiment="hidden-units", settings={"num_hidden": 4})
    failed = record("MOGP", "model", "mogp", 1, 0.1, 1, rng, experiment="synthetic", metrics={}, error="no")
    ranked = boards(results_of([odd, units, failed]))
    paths = write_figures(tmp_path, ranked)
    assert [path.name for path in paths] == [
        f"{stem}.{kind}"
        for stem in ("regression-my-data-set-random-fast", "hidden-units-kuka-random-fast")
        for kind in ("png", "svg")
    ]
    assert all(path.stat().st_size > 1000 for path in paths)


def test_a_folder_without_jobs_has_no_figures(tmp_path):
    assert write_figures(tmp_path, boards(results_of([]))) == []


def test_each_preset_has_its_figure(tmp_path):
    rng = np.random.default_rng(0)
    presets = ("fast", "paper")
    found = boards(results_of([record("MOGP", "model", "mogp", 1, 0.1, 1, rng, preset=preset) for preset in presets]))
    assert [board.preset for board in found] == list(presets)
    titles = [table_figure(board).get_suptitle() for board in found]
    rows = "15,068 training and 5,000 test rows"
    assert titles == [f"regression: kuka, random rows, preset {preset}\n{rows}" for preset in presets]


def test_title_and_axis_are_not_cut_beside_long_labels(tmp_path):
    label = "MLP ensemble + linear, noise by the nets, and more of it"
    settings = {"preset": "default", "config": {"units": "standardised", "noise_floor": "none"}}
    (board,) = boards(results_of([record(label, "model", "mogp", 1, 0.1, 1, np.random.default_rng(0), **settings)]))
    figure = table_figure(board)
    FigureCanvasAgg(figure).draw()
    (title,) = (text for text in figure.texts if text.get_text() == figure.get_suptitle())
    for text in (title, figure.axes[0].xaxis.label):
        extent = text.get_window_extent()
        assert 0 <= extent.x0 < extent.x1 <= figure.bbox.width


@pytest.mark.parametrize("units", ["original", "standardised"])
def test_an_axis_tells_the_units_of_its_own_scores(units):
    config = {"units": units, "noise_floor": "none"}
    job = record("MOGP", "model", "mogp", 1, 0.1, 1, np.random.default_rng(0), experiment="synthetic", config=config)
    (board,) = boards(results_of([job]))
    assert table_figure(board).axes[0].get_xlabel() == f"test LL per datapoint, {units} units"


def test_a_sweep_of_rows_tells_from_how_few_to_how_many(sample):
    board = board_of(sample, "small-data-rhythmic-arm-random-fast")
    assert board.details == "250 to 2,000 training and 5,000 test rows, standardised units"


def test_the_bar_and_the_best_leave_out_what_has_no_score():
    lines = [
        BoardRow("a", "model", scores={"ll": Spread(10.0, None)}),
        BoardRow("b", "model", scores={"ll": Spread(8.0, None)}),
    ]
    board = Board("regression", "kuka", "random", "fast", (*lines, BoardRow("c", "model")))
    assert [board.bar(line) for line in board.rows] == [1.0, 0.0, None]
    best = board.best("model")
    assert best is not None
    assert best.label == "a"
    assert board.best("baseline") is None


def test_the_papers_lines_come_with_their_spread():
    rng = np.random.default_rng(0)
    (board,) = boards(results_of([record("MOGP", "model", "mogp", 16.0, 0.1, 1, rng)]))
    (theirs,) = [row for row in board.rows if row.kind == "paper"]
    assert theirs.scores["ll"] == Spread(15.64, 0.4)
    assert set(theirs.scores) == {"ll", "mrmse"}
    assert theirs.jobs == ()
