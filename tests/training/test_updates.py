"""Closed-form updates: towards the optimum of the bound, and never past what is observed."""

import itertools
from dataclasses import dataclass

import pytest
import torch

from mogul.data import Batch
from mogul.errors import ConfigError, UnknownNameError
from mogul.models import build
from mogul.models.model import Model
from mogul.objective import Analytic, Elbo, MonteCarlo
from mogul.training import NaturalGradient, NoiseUpdate, Run, Step, TrainingConfig, Update
from mogul.training.defaults import preset


def rows(missing: bool = False) -> Batch:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 2, generator=generator, dtype=torch.float64)
    y = torch.randn(20, 3, generator=generator, dtype=torch.float64) * torch.tensor([0.5, 1.0, 2.0]).double()
    if missing:
        y[:9, 1] = torch.nan
    return Batch.of(x, y)


def model_for(batch: Batch, name: str = "n-mogp"):
    return build(name, batch.x, 3, torch.Generator().manual_seed(1), num_inducing=8, num_top_inducing=6)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", ["mogp", "n-mogp", "n-sbgprn", "dgp"])
def test_a_full_update_is_the_optimum_of_the_bound(name, missing):
    batch = rows(missing)
    model, elbo = model_for(batch, name), Elbo(Analytic(num_samples=3), num_data=20)
    terms = elbo(model, batch, torch.Generator().manual_seed(2))
    NoiseUpdate(rate=1.0).apply(model, Step(0, batch, terms, num_data=20))
    after = elbo(model, batch, torch.Generator().manual_seed(2))
    assert after.total() > terms.total()
    (gradient,) = torch.autograd.grad(after.ell, model.head.noise.log_precision)
    torch.testing.assert_close(gradient, torch.zeros(3).double(), rtol=0, atol=1e-9)


def test_an_output_that_the_batch_lacks_keeps_its_noise():
    batch = rows()
    batch.observed[:, 2] = False
    model = model_for(batch)
    terms = Elbo(Analytic(), num_data=20)(model, batch, torch.Generator())
    before = model.head.noise.var.detach().clone()
    NoiseUpdate(rate=0.5).apply(model, Step(0, batch, terms, num_data=20))
    assert model.head.noise.var[2] == before[2]
    assert (model.head.noise.var[:2] != before[:2]).all()


def test_the_optimiser_leaves_the_noise_to_the_update():
    batch = rows()
    config = TrainingConfig(epochs=2, batch_size=20, learning_rate=0.5, updates=(NoiseUpdate(rate=1e-12),))
    run = Run(model_for(batch), batch, config, torch.Generator().manual_seed(3))
    before = run.model.head.noise.var.detach().clone()
    run.train(1, lambda record: None)
    torch.testing.assert_close(run.model.head.noise.var.detach(), before)


@pytest.mark.parametrize("rate", [0.0, 1.5])
def test_a_rate_outside_its_range_is_refused(rate):
    with pytest.raises(ConfigError, match=r"rate must be in \(0, 1\]; got"):
        NoiseUpdate(rate=rate)


@pytest.mark.parametrize(
    ("model", "expectation"),
    [
        ("mogp", MonteCarlo(250)),
        ("dk-n-sbgprn", MonteCarlo(250)),
        ("dgp", MonteCarlo(5)),
        ("n-dgp", MonteCarlo(5)),
        ("gprn", Analytic()),
        ("n-mogp-lvm", Analytic()),
        ("dgp-lvm", Analytic(5)),
    ],
)
def test_the_papers_protocol(model, expectation):
    config = preset("paper", model, seed=4)
    assert config.expectation == expectation
    assert (config.epochs, config.num_starts, config.updates, config.seed) == (250, 5, (), 4)
    assert 0.01 <= config.learning_rate <= 0.05
    deep = "dgp" in model
    assert (config.batch_size, config.anneal_epochs) == ((1000, 20) if deep else (500, 0))


def test_an_unknown_preset_is_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'paper'"):
        preset("papre", "mogp")


def conjugate() -> tuple[Model, Batch]:
    """One GP, one output and a known weight of one: everything that the updates set is conjugate to the rest."""
    generator = torch.Generator().manual_seed(5)
    x = torch.rand(20, 1, generator=generator, dtype=torch.float64) * 6
    y = torch.sin(x) + 0.1 * torch.randn(20, 1, generator=generator, dtype=torch.float64)
    y[3] = torch.nan
    model = build("mogp", x, 1, generator, num_inducing=7, latent_mean="zero")
    with torch.no_grad():
        model.head.mixing.mean.fill_(1)
        model.head.mixing.log_scale.fill_(-40)
    return model, Batch.of(x, y)


def climb(model: Model, batch: Batch, updates: list[Update]) -> list[float]:
    """The full-batch bound before each update and after the last, each from fresh gradients."""
    elbo, values = Elbo(Analytic(), num_data=len(batch)), []
    for number, update in enumerate(updates):
        model.zero_grad()
        terms = elbo(model, batch, torch.Generator())
        values.append(terms.total().item())
        (-terms.total() / len(batch)).backward()
        update.apply(model, Step(number, batch, terms, len(batch)))
    return [*values, elbo(model, batch, torch.Generator()).total().item()]


NOISE = NoiseUpdate(rate=1.0)


class TestTheBound:
    """On a conjugate problem no closed-form update lowers it."""

    @pytest.mark.parametrize("rate", [0.1, 0.3, 1.0])
    def test_natural_gradients_do_not_lower_it(self, rate):
        values = climb(*conjugate(), [NaturalGradient(rate, ramp_steps=0, parts=("inducing",))] * 12)
        assert values[1] > values[0]
        assert min(b - a for a, b in itertools.pairwise(values)) > -1e-9

    def test_one_full_natural_step_is_as_good_as_many(self):
        once, often = (climb(*conjugate(), [NaturalGradient(1.0, 0, ("inducing",))] * count)[-1] for count in (1, 9))
        assert once == pytest.approx(often, abs=1e-7)

    @pytest.mark.parametrize("rate", [0.05, 0.5, 1.0])
    def test_noise_updates_do_not_lower_it(self, rate):
        values = climb(*conjugate(), [NoiseUpdate(rate)] * 12)
        assert values[1] > values[0]
        assert min(b - a for a, b in itertools.pairwise(values)) > -1e-9

    @pytest.mark.parametrize("rate", [0.3, 1.0])
    def test_both_in_turn_do_not_lower_it(self, rate):
        values = climb(*conjugate(), [NaturalGradient(rate, 0, ("inducing",)), NOISE] * 12)
        assert min(b - a for a, b in itertools.pairwise(values)) > -1e-9
        assert values[-1] > values[2] + 1

    @pytest.mark.parametrize("name", ["mogp", "n-mogp"])
    def test_natural_gradients_of_every_part_do_not_lower_it_where_they_are_short(self, name):
        """All parts at once is no conjugate problem, but a short step along an ascent direction still climbs."""
        batch = rows(missing=True)
        values = climb(model_for(batch, name), batch, [NaturalGradient(0.01, ramp_steps=0)] * 30)
        assert min(b - a for a, b in itertools.pairwise(values)) > -1e-9
        assert values[-1] > values[0] + 1


class TestNaturalGradient:
    """Which posteriors, and how far."""

    @pytest.mark.parametrize(
        ("parts", "names"),
        [
            (("inducing",), {"prior.variational_mean", "prior.variational_root"}),
            (("mixing",), {"head.mixing.mean", "head.mixing.log_scale"}),
            (("biases",), {"head.features.bias_mean", "head.features.bias_log_scale"}),
        ],
    )
    def test_it_owns_and_moves_its_parts_alone(self, parts, names):
        batch = rows()
        model, update = model_for(batch), NaturalGradient(0.1, 0, parts)
        named = dict(model.named_parameters())
        assert {name for name, value in named.items() if any(value is owned for owned in update.owns(model))} == names
        before = {name: value.detach().clone() for name, value in named.items()}
        climb(model, batch, [update])
        assert {name for name, value in named.items() if not torch.equal(value, before[name])} == names

    def test_by_default_it_owns_every_normal_posterior(self):
        model = model_for(rows(), "dgp")
        assert len(NaturalGradient().owns(model)) == 6  # two layers and the mixing: a mean and a scale each

    def test_its_length_rises_from_a_thousandth_over_the_ramp(self):
        """Measured by the step of q(u)'s mean, which for the same gradient is the rate times nearly the same vector."""
        sizes = []
        for number in (0, 4, 9, 10, 500):
            model, batch = conjugate()
            start = model.prior.variational_mean.detach().clone()
            terms = Elbo(Analytic(), num_data=20)(model, batch, torch.Generator())
            (-terms.total() / 20).backward()
            # So short that the covariance, which is the other factor, does not notice.
            NaturalGradient(1e-7, ramp_steps=10, parts=("inducing",)).apply(model, Step(number, batch, terms, 20))
            sizes.append((model.prior.variational_mean.detach() - start).norm().item())
        shares = [size / sizes[-1] for size in sizes]
        assert shares == pytest.approx([1000 ** (-10 / 11), 1000 ** (-6 / 11), 1000 ** (-1 / 11), 1.0, 1.0], rel=1e-3)

    def test_training_numbers_its_steps(self):
        """The ramp goes on over epochs and over calls of `train`."""
        seen = []

        @dataclass(frozen=True)
        class Watch:
            def owns(self, model):
                return []

            def apply(self, model, step):
                seen.append((step.number, len(step.batch), step.num_data))

        batch = rows()
        config = TrainingConfig(epochs=3, batch_size=10, updates=(Watch(),))
        run = Run(model_for(batch), batch, config, torch.Generator().manual_seed(3))
        run.train(2, lambda record: None)
        run.train(3, lambda record: None)
        assert seen == [(number, 10, 20) for number in range(6)]

    @pytest.mark.parametrize("name", ["mogp", "n-mogp", "n-sbgprn", "gprn", "n-dgp"])
    def test_a_training_with_both_updates_stays_finite_and_climbs(self, name):
        batch = rows(missing=True)
        config = TrainingConfig(epochs=6, batch_size=10, updates=(NoiseUpdate(), NaturalGradient(0.1, 10)))
        run = Run(model_for(batch, name), batch, config, torch.Generator().manual_seed(3))
        run.train(6, lambda record: None)
        assert all(bool(torch.isfinite(parameter).all()) for parameter in run.model.parameters())
        assert run.records[-1].elbo > run.records[0].elbo

    @pytest.mark.parametrize("rate", [0.0, 1.5])
    def test_a_rate_outside_its_range_is_refused(self, rate):
        with pytest.raises(ConfigError, match=r"rate must be in \(0, 1\]; got"):
            NaturalGradient(rate=rate)

    @pytest.mark.usefixtures("as_a_user_calls")
    def test_other_bad_settings_are_refused(self):
        with pytest.raises(ConfigError, match="ramp_steps must be at least 0"):
            NaturalGradient(ramp_steps=-1)
        with pytest.raises(UnknownNameError, match="Did you mean 'mixing'"):
            NaturalGradient(parts=("mixin",))

    def test_both_kinds_are_updates(self):
        assert isinstance(NaturalGradient(), Update)
        assert isinstance(NoiseUpdate(), Update)
