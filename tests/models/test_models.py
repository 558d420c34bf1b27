"""Models by name: the compositions, their sizes and their starts."""

import pytest
import torch
from tests.helpers.gradients import assert_finite_nonzero_gradients
from torch import Tensor

from mogul import models, nonlinearities
from mogul.data import Batch
from mogul.errors import ConfigError
from mogul.heads import BayesianMixing, ConstantNoise, Identity, Neural
from mogul.means.linear import ZeroMean
from mogul.models.model import Model
from mogul.nonlinearities import Erf, LeakyReLU, Quadrature
from mogul.objective import Analytic, Elbo
from mogul.priors import ConstantMean, IndependentGPs, LinearMean
from mogul.priors.means import principal_directions
from mogul.registry import names
from mogul.training import Run, TrainingConfig

both_models = pytest.mark.parametrize("name", ["mogp", "n-mogp"])


def points(num_rows: int = 30, num_inputs: int = 3, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(num_rows, num_inputs, generator=torch.Generator().manual_seed(4), dtype=dtype)


def build(name: str, num_outputs: int = 5, seed: int = 0, x: Tensor | None = None, **options: object) -> Model:
    return models.build(name, points() if x is None else x, num_outputs, torch.Generator().manual_seed(seed), **options)


def test_the_papers_models_have_their_names():
    families = ["mogp", "gprn", "dgp", "sbgprn", "n-mogp", "n-sbgprn", "n-dgp"]
    assert list(models.FAMILIES) == families
    expected = {f"{kernel}{family}{inputs}" for kernel in ("", "dk-") for family in families for inputs in ("", "-lvm")}
    assert set(models.names()) == expected
    assert len(models.names()) == 28


@pytest.mark.parametrize("name", models.FAMILIES)
def test_every_recipe_says_what_it_is_and_where_it_comes_from(name):
    recipe = models.FAMILIES[name]
    assert len(recipe.description) > 10
    assert recipe.equation == name.replace("-", "")
    assert recipe.nonlinearity in nonlinearities.names()


def test_mogp_mixes_gps_with_constant_means():
    model = build("mogp")
    assert isinstance(model.prior, IndependentGPs)
    assert isinstance(model.head.features, Identity)
    assert isinstance(model.head.mixing, BayesianMixing)
    assert isinstance(model.head.noise, ConstantNoise)
    assert "prior.mean.constant" in dict(model.named_parameters())


def test_n_mogp_has_hidden_units_with_biases_in_place_of_means():
    model = build("n-mogp")
    assert isinstance(model.head.features, Neural)
    assert model.head.features.nonlinearity == Erf(shift=1.0)
    assert "prior.mean.constant" not in dict(model.named_parameters())
    assert not model.prior.mean.constant.any()


@both_models
@pytest.mark.parametrize(("num_outputs", "num_latents"), [(1, 1), (2, 1), (5, 3), (8, 4)])
def test_sizes_follow_from_the_number_of_outputs(name, num_outputs, num_latents):
    model = build(name, num_outputs)
    num_features = 2 * num_outputs if name.startswith("n-") else num_latents
    assert model.prior.num_latents == num_latents
    assert model.head.features.num_features == num_features
    assert model.head.mixing.mean.shape == (num_outputs, num_features)
    assert model.head.noise.var.shape == (num_outputs,)


@both_models
def test_sizes_can_be_chosen(name):
    model = build(name, 2, num_latents=4, num_hidden=7, num_inducing=6)
    assert model.prior.num_latents == 4
    assert model.prior.inducing_points.shape == (6, 3)
    assert model.head.features.num_features == (7 if name == "n-mogp" else 4)


@both_models
def test_there_are_four_hundred_inducing_points_or_as_many_as_rows(name):
    assert build(name, x=points(401, 1)).prior.inducing_points.shape == (400, 1)
    assert build(name, x=points(11, 1)).prior.inducing_points.shape == (11, 1)


@both_models
def test_equal_rows_share_an_inducing_point(name):
    x = points(3).repeat(4, 1)
    assert build(name, x=x).prior.inducing_points.shape == (3, 3)


@both_models
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_everything_is_in_the_precision_of_the_inputs(name, dtype):
    model = build(name, x=points(dtype=dtype))
    assert {tensor.dtype for tensor in model.state_dict().values() if tensor.is_floating_point()} == {dtype}
    assert model.moments(points(dtype=dtype), 1, torch.Generator()).var.dtype == dtype


@pytest.mark.parametrize("nonlinearity", [LeakyReLU(0.1), Quadrature(torch.sin)], ids=["leaky", "quadrature"])
def test_any_nonlinearity_can_be_used(nonlinearity):
    model = build("n-mogp", nonlinearity=nonlinearity)
    assert model.head.features.nonlinearity is nonlinearity
    assert torch.isfinite(model.moments(points(), 1, torch.Generator()).var).all()


@pytest.mark.parametrize("nonlinearity", nonlinearities.names())
def test_a_nonlinearity_can_be_named(nonlinearity):
    model = build("n-mogp", nonlinearity=nonlinearity)
    assert model.head.features.nonlinearity == nonlinearities.by_name(nonlinearity)


@both_models
def test_a_start_is_random_and_decided_by_the_generator_alone(name):
    torch.manual_seed(0)
    first = build(name, num_inducing=5).state_dict()
    torch.manual_seed(1)
    again, other = build(name, num_inducing=5).state_dict(), build(name, num_inducing=5, seed=1).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    random = {"prior.inducing_points", "prior.variational_mean", "head.mixing.mean"}
    if name == "n-mogp":
        random |= {"head.features.hidden_weights", "head.features.bias_mean"}
    assert {key for key in first if not torch.equal(first[key], other[key])} == random


@both_models
def test_building_leaves_the_inputs_alone(name):
    x = points(8)
    model = build(name, x=x)
    with torch.no_grad():
        model.prior.inducing_points.zero_()
    assert torch.equal(x, points(8))


class TestLayers:
    """Any depth, by `layers`."""

    layers = ((3, 10), (2, 8), (4, 6))

    @pytest.mark.parametrize("name", ["dgp", "n-dgp", "dk-dgp"])
    def test_each_layer_has_its_sizes(self, name):
        model = build(name, layers=self.layers)
        found = model.prior.layers
        assert [(layer.num_latents, layer.variational_mean.shape[1]) for layer in found] == list(self.layers)
        # The first lives on the inputs, each other on the functions below it.
        assert [layer.inducing_points.shape[-1] for layer in found] == [3, 3, 2]
        assert model.prior.num_latents == 4
        if name != "n-dgp":
            assert model.head.features.num_features == 4

    @pytest.mark.parametrize("name", ["dgp", "n-dgp", "dgp-lvm"])
    def test_every_parameter_of_a_deeper_model_has_a_finite_nonzero_gradient(self, name):
        x = points()
        model = build(name, x=x, layers=self.layers)
        y = torch.randn(30, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        terms = Elbo(Analytic(num_samples=3), num_data=30)(model, Batch.of(x, y), torch.Generator().manual_seed(2))
        terms.total().backward()
        assert_finite_nonzero_gradients(model)

    def test_a_deeper_model_trains(self):
        x = points()
        y = torch.sin(x @ torch.ones(3, 5, dtype=torch.float64))
        config = TrainingConfig(epochs=8, batch_size=15, expectation=Analytic(2))
        run = Run(build("dgp", x=x, layers=self.layers), Batch.of(x, y), config, torch.Generator().manual_seed(3))
        run.train(8, lambda record: None)
        assert run.records[-1].elbo > run.records[0].elbo

    def test_by_default_there_are_two_of_the_four_sizes(self):
        sizes = {"num_latents": 3, "num_inducing": 10, "num_top_latents": 2, "num_top_inducing": 8}
        one, two = build("dgp", **sizes), build("dgp", layers=((3, 10), (2, 8)))
        assert len(one.prior.layers) == 2
        assert all(torch.equal(value, two.state_dict()[key]) for key, value in one.state_dict().items())

    def test_inner_layers_have_the_inner_mean(self):
        model = build("dgp", layers=self.layers, inner_mean="linear", latent_mean="zero")
        assert [type(layer.mean) for layer in model.prior.layers] == [LinearMean, LinearMean, ConstantMean]

    def test_a_linear_mean_starts_at_the_principal_directions_of_what_is_below_it(self):
        x = points() * torch.tensor([10.0, 1.0, 0.1], dtype=torch.float64)
        first, second, _ = (
            layer.mean for layer in build("dgp", x=x, layers=self.layers, inner_mean="linear").prior.layers
        )
        torch.testing.assert_close(first.weights, principal_directions(x, first.weights.shape[1]))
        below = x @ first.weights.detach()
        torch.testing.assert_close(second.weights, principal_directions(below, second.weights.shape[1]))

    @pytest.mark.parametrize("layer", [(0, 5), (2, 0), (2, -1), (1.5, 3)])
    @pytest.mark.usefixtures("as_a_user_calls")
    def test_a_bad_size_is_refused_with_its_layer(self, layer):
        with pytest.raises(ConfigError, match=r"of layer 2 must be"):
            build("dgp", layers=((3, 10), layer))


@pytest.mark.parametrize("name", ["mogp", "n-mogp", "gprn", "dgp"])
@pytest.mark.parametrize("mean", ["zero", "constant"])
def test_the_means_of_latent_gps_can_be_chosen(name, mean):
    model = build(name, latent_mean=mean)
    learnt = {key for key, _ in model.named_parameters() if key.startswith("prior.") and key.endswith("mean.constant")}
    assert bool(learnt) == (mean == "constant")


def test_by_default_a_model_stands_on_nothing():
    model = build("mogp")
    assert isinstance(model.mean, ZeroMean)
    assert model.mean.scale.tolist() == [1.0] * 5


CHANGES = {
    "ard": False,  # of latent inputs only
    "num_hidden": 3,
    "nonlinearity": Erf(0.123),
    "correlated_mixing": True,
    "dropout": 0.3,
    "num_mixing_inducing": 3,
    "shared_inducing": True,
    "num_top_latents": 3,
    "num_top_inducing": 3,
    "layers": [(2, 4), (2, 4), (2, 4)],
    "inner_mean": "linear",
    "num_sites": 3,
    "num_noise_latents": 2,
    "num_noise_inducing": 3,
    "noise_rank": 3,
}


def anatomy(model: Model) -> object:
    """Sizes and kinds of all that a model is made of."""
    modules = [
        (type(each), getattr(each, "dropout", None), getattr(each, "nonlinearity", None)) for each in model.modules()
    ]
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    return shapes, modules, len(list(model.parameters()))  # those that parts share count once


@pytest.mark.parametrize("name", models.FAMILIES)
def test_a_model_is_changed_by_the_options_that_it_uses_and_by_no_other(name):
    plain = anatomy(build(name, x=points(12)))
    without_use = {option for option, value in CHANGES.items() if anatomy(build_changed(name, option, value)) == plain}
    assert without_use == models.unused_options(name)


@pytest.mark.parametrize("noise", names("noise"))
def test_a_noise_is_changed_by_the_options_that_it_uses_and_by_no_other(noise):
    plain = anatomy(build("mogp", x=points(12), noise=noise))
    options = {option: CHANGES[option] for option in ("num_noise_latents", "num_noise_inducing", "noise_rank")}
    changed = {
        option: anatomy(build("mogp", x=points(12), noise=noise, **{option: options[option]})) for option in options
    }
    without_use = {option for option, found in changed.items() if found == plain}
    assert without_use == models.unused_options("mogp", noise) & options.keys()


def build_changed(name: str, option: str, value: object) -> Model:
    if option == "layers" and not models.FAMILIES[name].deep:
        return build(name, x=points(12))  # which refuses them by itself
    return build(name, x=points(12), **{option: value})
