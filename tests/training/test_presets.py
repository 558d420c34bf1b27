"""What a default fit is given to work with."""

import math

import pytest

from mogul.objective import Analytic
from mogul.training import NoiseUpdate
from mogul.training.defaults import default_mean, preset, with_defaults


@pytest.mark.parametrize(
    ("num_rows", "epochs"),
    [(50, 60), (2_500, 12), (15_068, 40), (25_000, 40), (50_000, 30), (75_000, 20), (500_000, 3), (10_000_000, 3)],
)
def test_a_default_fit_has_a_budget_of_steps_and_some_passes_at_least(num_rows: int, epochs: int) -> None:
    assert preset("default", "n-sbgprn", num_rows=num_rows).epochs == epochs


@pytest.mark.parametrize("model", ["mogp", "n-sbgprn", "n-dgp"])
def test_more_rows_never_have_more_epochs_within_a_precision(model: str) -> None:
    for some in ((50, 250, 1_000, 2_500), (2_501, 20_000, 100_000, 400_000, 2_000_000)):
        epochs = [preset("default", model, num_rows=num_rows).epochs for num_rows in some]
        assert epochs == sorted(epochs, reverse=True)


def test_annealing_leaves_most_of_the_epochs() -> None:
    config = preset("default", "dgp", num_rows=1_000_000)
    assert config.anneal_epochs <= math.ceil(config.epochs / 5)


def test_many_rows_in_groups_are_gone_through_less_often() -> None:
    def epochs(num_rows: int, *, grouped: bool) -> int:
        return preset("default", "mogp", num_rows=num_rows, grouped=grouped).epochs

    assert epochs(15_068, grouped=True) < epochs(15_068, grouped=False)
    assert epochs(200, grouped=True) == epochs(200, grouped=False)


def test_rows_in_groups_take_smaller_steps() -> None:
    def rate(num_rows: int, name: str = "default", *, grouped: bool) -> float:
        return preset(name, "mogp", num_rows=num_rows, grouped=grouped).learning_rate

    assert rate(5000, grouped=True) < rate(5000, grouped=False)
    assert rate(200, grouped=True) == rate(200, grouped=False)
    assert rate(5000, "paper", grouped=True) == rate(5000, "paper", grouped=False)


@pytest.mark.parametrize(
    ("model", "num_rows", "num_inducing"),
    [
        ("n-sbgprn", 2_501, 200),
        ("n-sbgprn", 2_500, None),
        ("mogp+gprn+n-sbgprn", 15_068, 200),
        ("auto", 15_068, 200),
        ("gprn", 15_068, None),
        ("dgp", 15_068, None),
        ("mogp-lvm", 15_068, 50),
    ],
)
def test_many_rows_have_200_inducing_points_where_the_paper_has_400_on_one_layer(
    model: str, num_rows: int, num_inducing: int | None
) -> None:
    assert with_defaults({}, model, None, 14, num_rows).get("num_inducing") == num_inducing


def test_inducing_points_that_are_given_and_those_of_the_paper_stay() -> None:
    assert with_defaults({"num_inducing": 70}, "mogp", None, 14, 15_068)["num_inducing"] == 70
    assert "num_inducing" not in with_defaults({}, "mogp", "paper", 14, 15_068)


def test_paper_fast_has_the_papers_models_and_objective_and_another_way_to_its_optimum() -> None:
    for model in ("mogp", "gprn", "n-mogp", "dgp", "n-sbgprn", "mogp-lvm"):
        sizes = with_defaults({}, model, "paper-fast", 14, 15_068)
        assert sizes == with_defaults({}, model, "paper", 14, 15_068)
        assert default_mean(model, "paper-fast") == "paper"
        ours, papers = preset("paper-fast", model, num_rows=15_068), preset("paper", model, num_rows=15_068)
        assert ours.objective == papers.objective == "elbo"
        assert isinstance(ours.expectation, Analytic)
        assert (ours.num_starts, ours.updates) == (1, (NoiseUpdate(),))
        assert ours.epochs < papers.epochs


def test_the_papers_gprn_has_one_set_of_inducing_points() -> None:
    for name in ("paper", "paper-fast"):
        assert with_defaults({}, "gprn", name, 14, 15_068)["shared_inducing"]
        assert "shared_inducing" not in with_defaults({}, "mogp", name, 14, 15_068)
    assert "shared_inducing" not in with_defaults({}, "gprn", None, 14, 15_068)


def test_rates_warm_up_after_an_exact_start_and_for_many_rows_without_groups() -> None:
    def schedule(num_rows: int, name: str = "default", *, grouped: bool = False) -> str:
        return preset(name, "n-sbgprn", num_rows=num_rows, grouped=grouped).schedule

    assert {schedule(2_000), schedule(15_068)} == {"cosine"}
    assert {schedule(15_068, grouped=True), schedule(15_068, "paper")} == {"steps"}
