"""The frozen predictor: the model's own predictions, sooner."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tests.helpers.perturbing import perturbed
from tests.helpers.random_models import (
    NUM_INPUTS,
    NUM_OUTPUTS,
    NUM_POINTS,
    assert_predicts_as,
    moments,
    points,
    random_model,
    slopes,
)

import mogul.fitted.predictor
from mogul.errors import ConfigError, ShapeError
from mogul.fitted.predictor import Predictor
from mogul.heads import BayesianMixing, ConstantNoise, Head, Identity
from mogul.models import names
from mogul.models.model import Model, Observed
from mogul.priors import CIQ, Cholesky, IndependentGPs, randomise
from mogul.priors.kernels import rbf

SHALLOW = [name for name in names() if "dgp" not in name]
DEEP = [name for name in names() if "dgp" in name]


class TestShallow:
    """Closed-form models."""

    @pytest.mark.parametrize("name", SHALLOW)
    def test_equals_the_model(self, name):
        assert_predicts_as(random_model(name))

    def test_equals_the_model_where_q_is_wider_than_the_prior(self):
        model = random_model("mogp")
        with torch.no_grad():
            model.prior.variational_root.mul_(3).add_(torch.eye(7, dtype=torch.float64))
        predictor = assert_predicts_as(model)
        assert predictor.frozen.prior.added.shape[-1] > 0

    def test_equals_the_model_with_inducing_points_of_each_gp(self):
        generator = torch.Generator().manual_seed(0)
        z = torch.randn(2, 5, NUM_INPUTS, generator=generator, dtype=torch.float64)
        gps = randomise(IndependentGPs(rbf(NUM_INPUTS), z, 2, mean="linear"), generator, spread=1.0, scale=0.3)
        head = Head(Identity(2), BayesianMixing(NUM_OUTPUTS, 2, generator), ConstantNoise(NUM_OUTPUTS))
        assert_predicts_as(Model(Observed(), gps, head).double())

    @pytest.mark.parametrize("solver", [Cholesky(jitter=1e-3), CIQ(jitter=1e-2)])
    def test_equals_the_model_with_its_solver(self, solver):
        assert_predicts_as(random_model("mogp", solver=solver), tolerance=1e-9 if solver.jitter < 1e-2 else 1e-4)

    def test_float32_is_close_to_float64(self):
        model = random_model("mogp", torch.float32)
        low, high = Predictor.of(model), Predictor.of(model, precision=torch.float64)
        assert low.mean(points(torch.float32)).dtype == torch.float32
        for found, expected in zip(low.mean_std(points()), high.mean_std(points()), strict=True):
            torch.testing.assert_close(found.double(), expected, atol=2e-5, rtol=2e-5)

    def test_is_faithful_to_the_jitter_that_a_float32_model_needs(self):
        model = random_model("mogp", torch.float32, num_inducing=20)
        with torch.no_grad():
            model.prior.inducing_points.mul_(0.05)  # crowded: the jitter is what keeps q(u) in bounds
            x = 0.05 * points(torch.float32)
        torch.testing.assert_close(Predictor.of(model).mean(x), moments(model, x)[0], atol=5e-3, rtol=5e-3)

    def test_later_changes_to_the_model_do_not_matter(self):
        model = random_model("sbgprn")
        predictor = Predictor.of(model)
        before = predictor.mean(points())
        perturbed(model, torch.Generator().manual_seed(3), 0.2)
        torch.testing.assert_close(predictor.mean(points()), before, rtol=0, atol=0)

    def test_the_model_is_not_changed(self):
        model = random_model("n-mogp")
        before = copy.deepcopy(model.state_dict())
        Predictor.of(model.train())
        assert model.training
        assert all(parameter.requires_grad for parameter in model.parameters())
        assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())

    def test_dropout_is_off(self):
        model = random_model("sbgprn", dropout=0.5)
        torch.testing.assert_close(Predictor.of(model.train()).mean(points()), moments(model, points())[0])


class TestDeep:
    """Models whose inner layers are drawn."""

    @pytest.mark.parametrize("name", DEEP)
    def test_agrees_with_many_draws(self, name):
        model, num_samples = random_model(name), 2000
        found_mean, found_std = Predictor.of(model, num_samples).mean_std(points())
        mean, std = moments(model, points(), 20_000)
        # Rows share their noise, so they err together: bounds for the worst of them.
        assert ((found_mean - mean).abs() < 5 * std / num_samples**0.5).all()
        assert (found_std / std - 1).abs().max() < 5 / num_samples**0.5

    def test_is_the_same_at_each_call_and_for_each_seed_another(self):
        model = random_model("dgp")
        predictor = Predictor.of(model, 4, seed=1)
        first, again = predictor.mean_std(points()), predictor.mean_std(points())
        assert torch.equal(first[0], again[0])
        assert torch.equal(first[1], again[1])
        assert torch.equal(Predictor.of(model, 4, seed=1).mean_std(points())[0], first[0])
        assert not torch.equal(Predictor.of(model, 4, seed=2).mean(points()), first[0])

    def test_a_row_does_not_depend_on_those_beside_it(self):
        predictor = Predictor.of(random_model("n-dgp"), 5)
        torch.testing.assert_close(predictor.mean(points())[2:3], predictor.mean(points()[2:3]))

    def test_three_layers(self):
        model = random_model("dgp", layers=[(2, 6), (3, 5), (2, 4)])
        mean, std = moments(model, points(), 20_000)
        assert ((Predictor.of(model, 1000).mean(points()) - mean).abs() < 5 * std / 1000**0.5).all()


class TestJacobian:
    """∂mean/∂x."""

    @pytest.mark.parametrize("name", names())
    def test_equals_finite_differences(self, name):
        predictor = Predictor.of(random_model(name), 4)
        found = predictor.jacobian(points())
        assert found.shape == (NUM_POINTS, NUM_OUTPUTS, NUM_INPUTS)
        torch.testing.assert_close(found, slopes(predictor, points()), atol=1e-6, rtol=1e-6)

    def test_leaves_no_graph_behind(self):
        predictor, x = Predictor.of(random_model("n-sbgprn")), points().requires_grad_()
        assert not predictor.jacobian(x).requires_grad
        assert not predictor.mean(x).requires_grad
        assert x.grad is None
        assert all(not p.requires_grad and p.grad is None for p in predictor.parameters())

    @pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
    def test_works_where_gradients_are_off(self, mode):
        predictor = Predictor.of(random_model("mogp"))
        with mode():
            found = predictor.jacobian(points())
        torch.testing.assert_close(found, predictor.jacobian(points()))


class TestRows:
    """One row, many rows, none."""

    @pytest.mark.parametrize("name", ["mogp", "gprn", "n-mogp", "dgp"])
    def test_chunks_do_not_show(self, name, monkeypatch):
        predictor = Predictor.of(random_model(name), 3)
        whole = *predictor.mean_std(points()), predictor.mean(points()), predictor.jacobian(points())
        monkeypatch.setattr(mogul.fitted.predictor, "_NUMBERS_AT_ONCE", 1)
        parts = *predictor.mean_std(points()), predictor.mean(points()), predictor.jacobian(points())
        for one, other in zip(whole, parts, strict=True):
            torch.testing.assert_close(one, other)

    def test_a_chunk_is_bounded(self, monkeypatch):
        predictor, sizes = Predictor.of(random_model("mogp")), []
        forward = predictor.forward
        monkeypatch.setattr(mogul.fitted.predictor, "_NUMBERS_AT_ONCE", 2 * predictor._numbers_per_row)
        monkeypatch.setattr(predictor, "forward", lambda x: (sizes.append(len(x)), forward(x))[1])
        predictor.mean_std(points())
        assert sizes == [2, 2, 2]

    def test_no_rows_give_no_rows(self):
        predictor, none = Predictor.of(random_model("mogp")), points()[:0]
        assert predictor.mean_std(none)[1].shape == predictor.mean(none).shape == (0, NUM_OUTPUTS)
        assert predictor.jacobian(none).shape == (0, NUM_OUTPUTS, NUM_INPUTS)

    def test_inputs_are_not_modified_and_results_are_plain_tensors(self):
        predictor, x = Predictor.of(random_model("n-mogp")), points()
        mean, std = predictor.mean_std(x)
        predictor.jacobian(x)
        assert torch.equal(x, points())
        weight = torch.ones((), dtype=torch.float64, requires_grad=True)
        (weight * mean / std).sum().backward()  # which tensors of inference_mode would refuse
        assert weight.grad is not None

    @pytest.mark.parametrize("name", ["mogp", "n-sbgprn", "gprn", "dgp"])
    def test_threads_may_share_a_predictor(self, name):
        predictor = Predictor.of(random_model(name), 3)
        batches = [points() + 0.1 * number for number in range(12)]
        expected = [(*predictor.mean_std(x), predictor.jacobian(x)) for x in batches]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda x: (*predictor.mean_std(x), predictor.jacobian(x)), batches))
        for one, other in zip(expected, found, strict=True):
            assert all(torch.equal(left, right) for left, right in zip(one, other, strict=True))


class TestExport:
    """Through torch.export, with any number of rows."""

    @pytest.mark.filterwarnings("ignore")  # torch's own
    @pytest.mark.parametrize("name", ["mogp", "sbgprn", "dgp", "n-mogp"])
    def test_an_exported_program_says_the_same(self, name):
        predictor = Predictor.of(random_model(name), 3)
        shapes = ({0: torch.export.Dim("N")},)
        program = torch.export.export(predictor, (points(),), dynamic_shapes=shapes).module()
        for num_points in (1, 2, 9):
            x = points(num_points=num_points)
            for found, expected in zip(program(x), predictor.mean_std(x), strict=True):
                torch.testing.assert_close(found, expected)

    @pytest.mark.filterwarnings("ignore")  # torch's own
    def test_one_row_alone_can_be_exported(self):
        predictor, row = Predictor.of(random_model("mogp")), points(num_points=1)
        found = torch.export.export(predictor, (row,)).module()(row)
        torch.testing.assert_close(found[1], predictor.mean_std(row)[1])


class TestMistakes:
    """Rule, value, remedy."""

    def test_wrong_number_of_inputs(self):
        with pytest.raises(ShapeError, match=r"x must be \(N, D\) with D = 3; got \(6, 2\). For one row use x\[None\]"):
            Predictor.of(random_model("mogp")).mean_std(points()[:, :2])

    def test_precision_that_is_none(self):
        with pytest.raises(ConfigError, match=r"torch.float32 or torch.float64; got torch.float16. Leave it out"):
            Predictor.of(random_model("mogp"), precision=torch.float16)

    def test_no_draws(self):
        with pytest.raises(ConfigError, match="num_samples must be at least 1; got 0"):
            Predictor.of(random_model("dgp"), 0)

    def test_negative_seed(self):
        with pytest.raises(ConfigError, match="seed must be at least 0; got -1"):
            Predictor.of(random_model("dgp"), seed=-1)

    def test_nothing_to_freeze(self):
        model = random_model("mogp")
        del model.prior
        model.prior = object()
        with pytest.raises(ConfigError, match="must hold IndependentGPs to be frozen; it has none"):
            Predictor.of(model)
