"""At the end of training, closed-form noise is at its optimum over all rows."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from tests.helpers.sameness import same_training

from mogul import Dataset, TrainingConfig, fit
from mogul.data import Batch
from mogul.errors import MogulWarning, NumericalError
from mogul.models import build
from mogul.objective import Analytic, objective_by_name
from mogul.training import Fitted, NoiseUpdate, Run, Stopping
from mogul.training.fit import train_more
from mogul.training.loop import held_out_score
from mogul.training.noise import LevelSearch

CONFIG = TrainingConfig(epochs=3, batch_size=10, num_starts=1, updates=(NoiseUpdate(),))
NOISES = ["constant", "gp", "net", "student-t", "low-rank"]


def rows(num_rows: int = 60) -> Dataset:
    """Two waves, one with missing values, and an outlier of a hundred times the noise."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (num_rows, 2))
    y = np.column_stack([np.sin(2 * x[:, 0]), x[:, 1] ** 2]) + 0.1 * rng.standard_normal((num_rows, 2))
    y[::5, 1] = np.nan
    y[3, 0] += 10
    return Dataset(x, y)


def trained(
    data: Dataset | None = None, config: TrainingConfig = CONFIG, model: str = "mogp", **options: Any
) -> Fitted:
    return fit(data or rows(), model=model, config=config, num_inducing=8, **({"noise": "constant"} | options))


def batch_of(fitted: Fitted, data: Dataset) -> Batch:
    return fitted.scaling.batch(data, torch.float64)


def total(fitted: Fitted, data: Dataset, log_precision: torch.Tensor, objective: str = "elbo") -> float:
    """The objective over all rows at another level, by training's own estimate from all rows at once."""
    level, own = fitted.model.head.noise.log_precision.data, fitted.model.head.noise.log_precision.detach().clone()
    level.copy_(log_precision)
    with torch.no_grad():
        terms = objective_by_name(objective)(Analytic(), data.num_rows)(
            fitted.model, batch_of(fitted, data), torch.Generator().manual_seed(0)
        )
    level.copy_(own)
    return float(terms.total())


class TestOptimum:
    """Held against optima that were found in other ways."""

    def test_constant_noise_is_the_mean_square(self):
        data, fitted = rows(), trained()
        batch = batch_of(fitted, data)
        with torch.no_grad():
            q = fitted.model.prior(batch.x, 1, torch.Generator())
            signal = fitted.model.head.moments(q, batch.x, torch.Generator())
        square = (fitted.model.mean.residual(batch.y, batch.x) - signal.mean).square() + signal.var
        expected = [float(column[seen].mean()) for column, seen in zip(square.T, batch.observed.T, strict=True)]
        np.testing.assert_allclose(fitted.model.head.noise.var.detach(), expected, rtol=1e-9)

    @pytest.mark.parametrize("objective", ["elbo", "balanced", "predictive"])
    @pytest.mark.parametrize("noise", NOISES)
    @pytest.mark.filterwarnings("ignore:objective='balanced' needs noise:mogul.errors.MogulWarning")
    def test_it_is_where_a_search_ends(self, noise: str, objective: Any):
        data = rows()
        fitted = trained(config=replace(CONFIG, objective=objective), noise=noise)
        found = fitted.model.head.noise.log_precision.detach().clone()
        best = minimize(
            lambda level: -total(fitted, data, torch.as_tensor(level), objective), found.numpy() + 0.3, method="BFGS"
        )
        np.testing.assert_allclose(found, best.x, atol=2e-4)
        assert total(fitted, data, found, objective) >= -best.fun - 1e-9 * abs(best.fun)

    @pytest.mark.parametrize("noise", NOISES)
    def test_pieces_make_no_difference(self, noise: str):
        fitted, data = trained(noise=noise), rows()
        elbo, batch = objective_by_name("elbo")(Analytic(), 60), batch_of(fitted, data)
        fitted.model.head.noise.log_precision.data += 1
        each = [LevelSearch.of(fitted.model, elbo, batch, size, torch.Generator()).log_precision() for size in (7, 60)]
        torch.testing.assert_close(*each)

    @pytest.mark.parametrize("start", [-12.0, 12.0])
    def test_it_is_found_from_afar(self, start: float):
        """A Student-t's level is searched by expectation maximisation, whose steps are small beside this."""
        fitted, data = trained(noise="student-t"), rows()
        elbo, batch = objective_by_name("elbo")(Analytic(), 60), batch_of(fitted, data)
        expected = fitted.model.head.noise.log_precision.detach().clone()
        fitted.model.head.noise.log_precision.data += start
        found = LevelSearch.of(fitted.model, elbo, batch, 60, torch.Generator()).log_precision()
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)

    def test_draws_of_inner_layers_are_many(self):
        """A level by 60 rows and 32 passes against one by 2,000: both are means, the errors of which are known."""
        data, fitted = rows(), trained(model="dgp", num_top_inducing=6)
        batch, model = batch_of(fitted, data), fitted.model
        with torch.no_grad():
            signal = model.head.moments(model.prior(batch.x, 2000, torch.Generator()), batch.x, torch.Generator())
            square = (model.mean.residual(batch.y, batch.x) - signal.mean).square() + signal.var
        seen = batch.observed.double()
        each = (square * seen).sum(1) / seen.sum(0)  # a level for each draw
        error = each.std(0) * math.sqrt(1 / 32 + 1 / 2000)
        gap = (model.head.noise.var.detach() - each.mean(0)).abs()
        assert (gap < 4 * error).all()

    def test_an_output_that_was_never_observed_keeps_its_level(self):
        batch = Batch.of(torch.randn(20, 2, dtype=torch.float64), torch.full((20, 2), math.nan, dtype=torch.float64))
        batch.y[:, 0], batch.observed[:, 0] = torch.arange(20.0), True
        model = build("mogp", batch.x, 2, torch.Generator().manual_seed(1), num_inducing=5)
        elbo = objective_by_name("elbo")(Analytic(), 20)
        found = LevelSearch.of(model, elbo, batch, 20, torch.Generator()).log_precision()
        before = model.head.noise.log_precision.detach()
        assert found[1] == before[1]
        assert found[0] != before[0]


class TestEnd:
    """When the pass is made, and what it must not spoil."""

    @pytest.mark.parametrize("noise", NOISES)
    def test_an_outlier_costs_nothing(self, noise: str, monkeypatch: pytest.MonkeyPatch):
        ended = trained(noise=noise)
        monkeypatch.setattr(Run, "_settle_noise", lambda run: None)
        averaged = trained(noise=noise)
        level = averaged.model.head.noise.log_precision.detach()
        assert total(ended, rows(), level) < total(ended, rows(), ended.model.head.noise.log_precision.detach())

    def test_without_closed_form_noise_nothing_is_done(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(Run, "_settle_noise", lambda run: pytest.fail("It is Adam's."))
        trained(config=replace(CONFIG, updates=()))

    def test_more_training_ends_there_too(self):
        fitted, other = trained(), rows(90)
        more = train_more(fitted, other, epochs=2)
        found = more.model.head.noise.log_precision.detach()
        assert total(more, other, found) > max(total(more, other, found + gap) for gap in (-0.01, 0.01))

    def test_an_interrupted_training_is_no_worse(self, monkeypatch: pytest.MonkeyPatch):
        def interrupt(record: Any, model: Any) -> None:
            if record.epoch == 1:
                raise KeyboardInterrupt

        with pytest.warns(MogulWarning, match="interrupted after 2"):
            ended = trained(on_epoch=interrupt)
        monkeypatch.setattr(Run, "_settle_noise", lambda run: None)
        with pytest.warns(MogulWarning, match="interrupted after 2"):
            averaged = trained(on_epoch=interrupt)
        level = averaged.model.head.noise.log_precision.detach()
        assert total(ended, rows(), level) < total(ended, rows(), ended.model.head.noise.log_precision.detach())

    @pytest.mark.parametrize("trouble", ["moments", "score"])
    def test_trouble_leaves_the_level_as_it_was(self, trouble: str, monkeypatch: pytest.MonkeyPatch):
        def fail(*arguments: Any) -> Any:
            raise NumericalError("It broke. Mend it.")

        config = replace(CONFIG, stopping=Stopping(held_out=0.2))
        with monkeypatch.context() as patch:
            patch.setattr(Run, "_settle_noise", lambda run: None)
            averaged = trained(config=config)
        with monkeypatch.context() as patch:
            patch.setattr(*((LevelSearch, "of") if trouble == "moments" else (Run, "_held_out_score_now")), fail)
            spared = trained(config=config)
        assert same_training(spared, averaged)

    @pytest.mark.parametrize("outlier", [True, False])
    def test_held_out_rows_have_the_last_word(self, outlier: bool, monkeypatch: pytest.MonkeyPatch):
        """An outlier that is trained on makes more noise than they have; a level that lags is too high for them."""
        data, held_out, rate = rows(), np.arange(40, 60), 0.3
        if not outlier:
            data.y[3, 0] -= 10
            rate = 1e-3
        scores: list[float] = []

        def seen(*arguments: Any) -> float:
            scores.append(held_out_score(*arguments))
            return scores[-1]

        monkeypatch.setattr("mogul.training.loop.held_out_score", seen)
        config = replace(CONFIG, stopping=Stopping(), updates=(NoiseUpdate(rate),))
        fitted = trained(data, config=config, held_out=held_out)
        *_, before, after = scores
        watched = batch_of(fitted, data.rows(held_out))
        assert (before > after) == outlier
        assert held_out_score(fitted.model, watched, torch.Generator()) == pytest.approx(max(before, after))
        assert fitted.history.held_out == pytest.approx(max(before, after) * int(watched.observed.sum()) / 20)

    @pytest.mark.parametrize("noise", ["gp", "student-t"])
    @pytest.mark.parametrize("stopping", [None, Stopping(held_out=0.2)])
    def test_a_finished_training_is_given_back_bit_for_bit(self, tmp_path: Path, noise: str, stopping: Any):
        config = replace(CONFIG, stopping=stopping, num_starts=2, start_epochs=1, num_kept=2, objective="predictive")
        plain = trained(config=config, noise=noise)
        for _ in range(3):
            assert same_training(trained(config=config, noise=noise, checkpoint=tmp_path), plain)
