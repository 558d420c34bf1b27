"""One model in training: epochs, rates, weights, and what happens when numbers run away."""

import itertools
import math

import pytest
import torch

from mogul.core.moments import Marginals
from mogul.data import Batch
from mogul.errors import FitError, NumericalError
from mogul.models import build
from mogul.models.model import Model
from mogul.objective import Analytic, Elbo, MonteCarlo
from mogul.training import EpochRecord, NoiseUpdate, Run, TrainingConfig

both_models = pytest.mark.parametrize("name", ["mogp", "n-mogp"])
NUM_ROWS = 20


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def waves(dtype: torch.dtype = torch.float64) -> Batch:
    """Two noisy waves; a few values are missing."""
    x = torch.linspace(-1.5, 1.5, NUM_ROWS, dtype=dtype)[:, None]
    y = torch.cat([torch.sin(3 * x), torch.cos(2 * x)], dim=1)
    y = y + 0.1 * torch.randn(y.shape, generator=seeded(), dtype=dtype)
    y[3, 0] = y[7, 1] = float("nan")
    return Batch.of(x, y)


def start(name: str = "mogp", batch: Batch | None = None, **settings: object) -> Run:
    batch = waves() if batch is None else batch
    model = build(name, batch.x, batch.y.shape[1], seeded(1), num_inducing=8)
    return Run(model, batch, TrainingConfig(**settings), seeded(2))


def train(run: Run, until: int) -> list[EpochRecord]:
    seen: list[EpochRecord] = []
    run.train(until, seen.append)
    return seen


def bound(model: Model, batch: Batch) -> float:
    return Elbo(Analytic(), num_data=len(batch))(model, batch, seeded()).total().item()


class NoLikelihood:
    """Nothing to learn from: the objective is −w·KL + log prior."""

    num_samples = 1

    def signal(self, model, x, generator):
        exact = Analytic().signal(model, x, generator)
        return Marginals(exact.mean.detach(), exact.var.detach())


NO_LIKELIHOOD = {"expectation": NoLikelihood()}


class Poisoned:
    """The expected log likelihood of nobody's data."""

    num_samples = 1

    def __init__(self, value: float) -> None:
        self.value = value

    def signal(self, model, x, generator):
        exact = Analytic().signal(model, x, generator)
        return Marginals(exact.mean, self.value * exact.var)


@pytest.mark.no_cover  # many steps on lines that other tests run too
@both_models
@pytest.mark.parametrize("ell", [Analytic(), MonteCarlo(10)], ids=["analytic", "monte-carlo"])
def test_the_bound_rises(name, ell):
    run = start(name, epochs=40, batch_size=7, learning_rate=0.05, expectation=ell)
    before = bound(run.model, waves())
    records = train(run, 40)
    assert bound(run.model, waves()) > before + 20
    assert records[-1].elbo > records[0].elbo + 20


def test_training_goes_on_from_where_it_was():
    whole, parts = (start(epochs=5, batch_size=7) for _ in range(2))
    train(whole, 5)
    train(parts, 2)
    train(parts, 5)
    for first, second in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        assert torch.equal(first, second)
    assert [record.elbo for record in whole.records] == [record.elbo for record in parts.records]


def test_epochs_are_counted_over_all_calls():
    run = start(epochs=9)
    assert [record.epoch for record in train(run, 3)] == [0, 1, 2]
    assert [record.epoch for record in train(run, 5)] == [3, 4]
    assert train(run, 5) == []
    assert [record.epoch for record in run.records] == [0, 1, 2, 3, 4]
    assert {record.start for record in run.records} == {0}


@pytest.mark.parametrize(("batch_size", "num_steps"), [(1, 20), (7, 3), (20, 1), (1000, 1)])
def test_an_epoch_is_one_step_for_each_minibatch(batch_size, num_steps, monkeypatch: pytest.MonkeyPatch):
    run = start(batch_size=batch_size, epochs=2)
    steps, step = [], torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self, *rest: (steps.append(1), step(self, *rest))[1])
    train(run, 1)
    assert len(steps) == num_steps


@both_models
def test_the_first_record_of_a_full_batch_is_the_bound_at_the_start(name):
    run = start(name, batch_size=NUM_ROWS, anneal_epochs=4)
    terms = Elbo(Analytic(), num_data=NUM_ROWS)(run.model, waves(), seeded())
    expected = [terms.total().item(), terms.ell.item(), terms.kl_global.item(), terms.log_prior.item()]
    record = train(run, 1)[0]
    assert [record.elbo, record.ell, record.kl, record.log_prior] == pytest.approx(expected, rel=1e-12)
    assert record.elbo == pytest.approx(record.ell - record.kl + record.log_prior, rel=1e-12)


@both_models
def test_an_epoch_of_uneven_minibatches_is_weighted_by_rows(name):
    run = start(name, batch_size=13, learning_rate=1e-12)
    expected = bound(run.model, waves())
    assert train(run, 1)[0].elbo == pytest.approx(expected, rel=1e-8)


def test_starts_are_compared_by_their_last_epoch():
    run = start(epochs=3)
    train(run, 2)
    assert run.objective == run.records[1].elbo != run.records[0].elbo


def test_records_follow_the_settings():
    config = {"epochs": 6, "learning_rate": 0.02, "milestones": (0.5,), "decay": 0.1, "anneal_epochs": 1}
    records = train(start(**config), 6)
    assert [record.learning_rate for record in records] == pytest.approx([0.02] * 3 + [0.002] * 3)
    assert [record.kl_weight for record in records] == pytest.approx([0.5] + [1.0] * 5)
    assert all(record.seconds > 0 for record in records)
    assert all(record.jitter == pytest.approx(1e-8) for record in records)


def test_parameters_move_at_the_rate_of_the_epoch():
    # Adam's steps are as long as its rate wherever the gradient keeps its direction, as it does without data.
    run = start(
        batch_size=NUM_ROWS, epochs=4, learning_rate=1e-4, milestones=(0.5,), decay=0.01, expectation=NoLikelihood()
    )
    weights, places = run.model.head.mixing.mean, []
    for epoch in range(5):
        train(run, epoch)
        places.append(weights.detach().clone())
    lengths = [(second - first).abs().mean().item() for first, second in itertools.pairwise(places)]
    assert lengths == pytest.approx([1e-4, 1e-4, 1e-6, 1e-6], rel=0.01)


@pytest.mark.parametrize(("epoch", "weight"), [(0, 0.25), (1, 0.5), (2, 0.75), (3, 1.0), (4, 1.0)])
def test_gradients_feel_the_annealed_weight_of_the_kl(epoch, weight):
    run = start(batch_size=NUM_ROWS, anneal_epochs=3, expectation=NoLikelihood())
    train(run, epoch)
    before = run.model.head.mixing.mean.detach().clone()
    train(run, epoch + 1)
    # KL = ½ Σ mean² + …, per datum.
    torch.testing.assert_close(run.model.head.mixing.mean.grad, weight * before / NUM_ROWS, rtol=1e-10, atol=1e-14)


@both_models
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_an_objective_that_is_not_finite_is_an_error_with_a_remedy(name, value):
    run = start(name, expectation=Poisoned(value), learning_rate=0.25)
    with pytest.raises(FitError, match=r"must be finite; it is -?(inf|nan) in epoch 1\. Likely cause: values far from"):
        train(run, 1)
    assert all(torch.isfinite(parameter).all() for parameter in run.model.parameters())
    assert run.records == []


@both_models
@pytest.mark.parametrize("parameter", ["prior.inducing_points", "head.mixing.mean", "head.noise.log_precision"])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_poisoned_parameter_is_an_error(name, parameter, value):
    run = start(name)
    with torch.no_grad():
        run.model.get_parameter(parameter).view(-1)[0] = value
    with pytest.raises(
        NumericalError, match=r"must be finite; it (is|holds) .*Lower (the learning rate|learning_rate)"
    ):
        run.advance()
    with pytest.raises(FitError, match=r"must be finite; it (is|holds) .*\. Likely cause: values far from"):
        train(run, 1)


@both_models
def test_an_absurd_rate_in_float32_is_an_error(name):
    run = start(name, waves(torch.float32), precision="float32", learning_rate=1e30, epochs=5)
    with pytest.raises(NumericalError, match=r"must be .*; it .*\. "):
        train(run, 5)


class InfiniteSlope:
    """A finite value with an infinite slope: √0."""

    num_samples = 1

    def signal(self, model, x, generator):
        mixing, exact = model.head.mixing.mean, Analytic().signal(model, x, generator)
        return Marginals(exact.mean + (mixing - mixing.detach()).abs().sum().sqrt(), exact.var)


def test_a_gradient_that_is_not_finite_is_an_error():
    run = start(expectation=InfiniteSlope(), batch_size=NUM_ROWS)
    with pytest.raises(NumericalError):
        train(run, 1)


def test_a_step_in_pieces_is_a_step():
    """The gradient, the terms and the noise of a batch are the same, however many rows are at work at once."""
    batch, found = waves(), []
    for rows_at_once in (len(batch), 6, 1):
        model = build("n-mogp", batch.x, 2, seeded(), num_inducing=5, num_hidden=4)
        run = Run(model, batch, TrainingConfig(updates=(NoiseUpdate(),), learning_rate=1e-3), seeded(1))
        assert run._rows_at_once > len(batch)  # by itself, it would be one piece
        run._rows_at_once = rows_at_once
        terms = run.step(batch)
        gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        noise = model.head.noise.log_precision.detach().clone()
        found.append((gradient, terms.total().detach(), terms.ell.detach(), terms.misfit, noise))
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("updates", [(), (NoiseUpdate(),)])
def test_an_exact_start_is_put_back_where_steps_make_the_bound_worse(updates: tuple[NoiseUpdate, ...]) -> None:
    batch = waves()
    run = start(batch=batch, start="exact", epochs=1, learning_rate=5.0, decay=1.0, updates=updates)
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    train(run, until=1)
    assert run.kept_epochs is None
    torch.testing.assert_close(run.model.state_dict(), before, rtol=0, atol=0)


def test_an_exact_start_is_left_where_steps_make_the_bound_better() -> None:
    batch = waves()
    run = start(batch=batch, start="exact", epochs=30, learning_rate=0.03)
    before = bound(run.model, batch)
    train(run, until=30)
    assert bound(run.model, batch) > before + 1
