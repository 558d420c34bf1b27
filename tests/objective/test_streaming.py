"""Streaming updates of q(u): the closed form of conjugate models, optima of the ELBO, and old rows that stay known."""

import math

import numpy as np
import pytest
import torch

import mogul
from mogul.data import Batch
from mogul.errors import ConfigError
from mogul.models import build
from mogul.models.model import Model
from mogul.objective import Analytic, Elbo
from mogul.objective.streaming import stream

NUM_ROWS, NUM_INDUCING, PRECISION = 40, 12, 50.0


def rows(seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(NUM_ROWS, 2, generator=generator, dtype=torch.float64)
    noise = 0.1 * torch.randn(NUM_ROWS, 2, generator=generator, dtype=torch.float64)
    return Batch.of(x, torch.stack([x[:, 0].sin(), x.prod(1)], 1) + noise)


def at_the_prior(name: str, **options: object) -> Model:
    """A model that knows nothing yet."""
    generator = torch.Generator().manual_seed(1)
    sizes = {"num_latents": 2, "num_inducing": NUM_INDUCING, **options}
    model = build(name, rows().x, 2, generator, **sizes).double().eval()
    with torch.no_grad():
        model.prior.variational_mean.zero_()
        model.prior.variational_root.copy_(torch.eye(NUM_INDUCING).expand(2, -1, -1))
        model.head.noise.log_precision.fill_(math.log(PRECISION))
    return model


def conjugate() -> Model:
    """Two outputs, each its own GP, with noise that is known."""
    model = at_the_prior("mogp")
    with torch.no_grad():
        model.head.mixing.mean.copy_(torch.eye(2))
        model.head.mixing.log_scale.fill_(-20.0)
    return model


def posterior(model: Model) -> tuple[torch.Tensor, torch.Tensor]:
    root = model.prior.variational_root.detach().tril()
    return model.prior.variational_mean.detach(), root @ root.mT


def still(model: Model, batch: Batch) -> Model:
    return stream(model, batch, move=False).model


class TestClosedForm:
    def test_all_rows_from_the_prior_give_the_exact_posterior(self):
        batch, model = rows(), conjugate()
        mean, cov = posterior(still(model, batch))
        gps = model.prior
        with torch.no_grad():
            jitter = 1e-8 * torch.eye(NUM_INDUCING)
            factor = torch.linalg.cholesky(gps.kernel(gps.inducing_points).to_dense() + jitter)
            cross = gps.kernel(gps.inducing_points, batch.x).to_dense()
            white = torch.linalg.solve_triangular(factor, cross, upper=False)
            exact = torch.linalg.inv(torch.eye(NUM_INDUCING) + PRECISION * white @ white.mT)
            target = (exact @ (PRECISION * white @ batch.y.T.unsqueeze(-1))).squeeze(-1)
        torch.testing.assert_close(cov, exact, atol=1e-10, rtol=0)
        torch.testing.assert_close(mean, target, atol=1e-9, rtol=0)

    def test_rows_may_come_in_any_parts(self):
        batch, model = rows(), conjugate()
        at_once = posterior(still(model, batch))
        for part in torch.arange(NUM_ROWS).split([1, 25, 14]):
            model = still(model, batch.rows(part))
        for found, expected in zip(posterior(model), at_once, strict=True):
            torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)

    def test_missing_outputs_teach_nothing(self):
        batch = rows()
        gaps = batch.y.clone()
        gaps[::2, 1] = math.nan
        mean, _ = posterior(still(conjugate(), Batch.of(batch.x, gaps)))
        first, _ = posterior(still(conjugate(), batch))
        second, _ = posterior(still(conjugate(), batch.rows(torch.arange(1, NUM_ROWS, 2))))
        torch.testing.assert_close(mean[0], first[0], atol=1e-9, rtol=0)
        torch.testing.assert_close(mean[1], second[1], atol=1e-9, rtol=0)

    def test_the_noise_level_is_the_mean_over_old_and_new_rows(self):
        batch, model = rows(), conjugate()
        learnt = stream(model, batch, 160, move=False).model
        fixed = still(model, batch)
        with torch.no_grad():
            signal = fixed.moments(batch.x, 1, torch.Generator())
            new = ((batch.y - signal.mean).square() + signal.var).mean(0)
        expected = (160 / PRECISION + NUM_ROWS * new) / (160 + NUM_ROWS)
        torch.testing.assert_close(torch.exp(-learnt.head.noise.log_precision), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("name", "options", "slope"),
    [
        ("mogp", {}, 0.1),
        ("mogp", {"noise": "low-rank"}, 0.1),
        ("gprn", {}, 0.1),
        ("sbgprn", {}, 0.1),
        ("n-mogp", {"num_hidden": 4}, 1.0),
        ("n-sbgprn", {}, 1.0),
    ],
)
def test_from_the_prior_it_is_the_optimum_of_the_elbo(name, options, slope):
    """Where the gradient by q(u) vanishes: the slopes before are 50 and more."""
    batch, model = rows(), at_the_prior(name, **options)
    before = steepest(model, batch)
    assert before > 50
    assert steepest(still(model, batch), batch) < slope


def steepest(model: Model, batch: Batch) -> float:
    objective = Elbo(Analytic(), NUM_ROWS)(model, batch, torch.Generator())
    parts = model.prior.variational_mean, model.prior.variational_root
    mean, root = torch.autograd.grad(objective.ell - objective.kl_global, parts)
    return float(max(mean.abs().max(), root.tril().abs().max()))


def test_random_noise_counts_by_its_mean_variance():
    """Few rows almost without noise would outweigh all others."""
    batch, model = rows(), at_the_prior("mogp", noise="student-t")
    plain = at_the_prior("mogp")
    with torch.no_grad():
        plain.head.mixing.load_state_dict(model.head.mixing.state_dict())
        var = model.head.noise(batch.x, torch.Generator()).var
        plain.head.noise.log_precision.copy_(-var.log())
        plain.head.noise.floor_var.zero_()
    for found, expected in zip(posterior(still(model, batch)), posterior(still(plain, batch)), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


class TestFitted:
    """In the user's units: a sine that goes on."""

    x = np.linspace(0, 3, 60)[:, None]
    later = x + 3

    @staticmethod
    def outputs(x):
        noise = 0.05 * np.random.default_rng(int(x[0, 0])).normal(size=(len(x), 2))
        return np.hstack([np.sin(3 * x), np.cos(2 * x)]) + noise

    def test_new_rows_are_learnt_and_old_ones_are_not_forgotten(self, tmp_path):
        options = {"noise": "constant", "kernel": "rbf", "check": False}
        first = mogul.fit(self.x, self.outputs(self.x), **options)
        second = first.update(self.later, self.outputs(self.later))
        whole = mogul.fit(
            np.vstack([self.x, self.later]), np.vstack([self.outputs(x) for x in (self.x, self.later)]), **options
        )
        data = [mogul.Dataset(x, self.outputs(x)) for x in (self.x, self.later)]
        before, after, anew = ([fitted.evaluate(each).ll for each in data] for fitted in (first, second, whole))
        assert after[0] > before[0] - 0.5
        assert after[1] > before[1] + 5
        assert after[1] > anew[1] - 1
        assert len(first.model.prior.inducing_points) < len(second.model.prior.inducing_points) <= 30
        assert second.history.num_rows == 120
        second.save(tmp_path / "later.mogul")
        assert (mogul.load(tmp_path / "later.mogul").predict(self.x).std == second.predict(self.x).std).all()
        assert first.evaluate(data[0]).ll == before[0]  # the first model is left as it is

    def test_every_member_of_a_mixture_learns(self):
        model = mogul.fit(self.x, self.outputs(self.x), model="mogp+sbgprn", noise="constant", epochs=2, check=False)
        updated = model.update(self.later, self.outputs(self.later))
        error = np.abs(updated.predict(self.later).mean - self.outputs(self.later)).mean()
        assert error < 0.3 < np.abs(model.predict(self.later).mean - self.outputs(self.later)).mean()

    def test_partial_fit_updates(self):
        regressor = mogul.MultiOutputGPRegressor("mogp", noise="constant", check=False)
        regressor.fit(self.x, self.outputs(self.x))
        old = regressor.score(self.x, self.outputs(self.x))
        regressor.partial_fit(self.later, self.outputs(self.later))
        assert regressor.score(self.x, self.outputs(self.x)) > old - 0.01
        assert regressor.score(self.later, self.outputs(self.later)) > 0.95

    @pytest.mark.parametrize("model", ["dgp", "mogp-lvm"])
    def test_models_that_cannot_are_refused_with_the_remedy(self, model):
        sizes = {"epochs": 1, "num_starts": 1, "num_inducing": 5, "check": False}
        fitted = mogul.fit(self.x, self.outputs(self.x), model=model, **sizes)
        with pytest.raises(ConfigError, match="Fit anew with all rows"):
            fitted.update(self.x, self.outputs(self.x))
