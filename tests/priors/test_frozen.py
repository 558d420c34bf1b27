"""Frozen GPs and kernels equal those they were made of: any kernel works, some are quick."""

import copy

import gpytorch
import pytest
import torch
from tests.helpers.random_models import (
    NUM_INPUTS,
    NUM_OUTPUTS,
    NUM_POINTS,
    assert_predicts_as,
    points,
    random_model,
    slopes,
)

from mogul.heads import BayesianMixing, ConstantNoise, Head, Identity
from mogul.models.model import Model, Observed
from mogul.priors import IndependentGPs, randomise
from mogul.priors._frozen import FrozenAny, FrozenGPs, FrozenRadial, FrozenRBF, FrozenWarp, freeze_kernel
from mogul.priors.kernels import DeepKernel, kernel_by_name, rbf


class TestKernels:
    """Any kernel works; some are quick."""

    KERNELS = (
        rbf(NUM_INPUTS, 2),
        rbf(NUM_INPUTS, ard=False),
        DeepKernel(rbf(NUM_INPUTS, 2), NUM_INPUTS, torch.Generator().manual_seed(0)),
        gpytorch.kernels.MaternKernel(batch_shape=torch.Size([2])),
        gpytorch.kernels.RBFKernel(active_dims=(0, 2)),
        DeepKernel(gpytorch.kernels.MaternKernel(), NUM_INPUTS, torch.Generator().manual_seed(0)),
        gpytorch.kernels.LinearKernel(),
        *(kernel_by_name(name, NUM_INPUTS, 2) for name in ("matern32", "matern52", "rq", "periodic")),
        kernel_by_name("rbf*linear+matern32", NUM_INPUTS, 2),
    )
    ROUGH = kernel_by_name("matern12", NUM_INPUTS, 2)  # without slopes at inducing points

    @pytest.mark.parametrize("kernel", [*KERNELS, ROUGH], ids=lambda kernel: type(kernel).__name__)
    def test_a_frozen_kernel_equals_the_kernel(self, kernel):
        kernel, z, x = copy.deepcopy(kernel).double(), points(), points(num_points=2) + 3
        frozen = freeze_kernel(kernel, z)
        expected = kernel(x, z).to_dense().reshape(-1, 2, NUM_POINTS)
        torch.testing.assert_close(frozen.forward(x), expected, atol=1e-12, rtol=1e-10)
        variance = kernel(x.unsqueeze(0), diag=True).reshape(-1, 2)
        torch.testing.assert_close(frozen.variance(x).expand_as(variance), variance)

    @pytest.mark.parametrize(
        ("kernel", "kind"),
        [(KERNELS[0], FrozenRBF), (KERNELS[2], FrozenWarp), (KERNELS[3], FrozenAny), (KERNELS[7], FrozenRadial)],
    )
    def test_each_kind_takes_its_way(self, kernel, kind):
        assert isinstance(freeze_kernel(copy.deepcopy(kernel).double(), points()), kind)

    @pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
    def test_a_model_with_it_is_predicted(self, kernel):
        generator = torch.Generator().manual_seed(0)
        gps = IndependentGPs(copy.deepcopy(kernel).double(), points(), 2, white_noise=0.1)
        randomise(gps, generator, spread=1.0, scale=0.3)
        head = Head(Identity(2), BayesianMixing(NUM_OUTPUTS, 2, generator), ConstantNoise(NUM_OUTPUTS))
        predictor = assert_predicts_as(Model(Observed(), gps, head).double(), tolerance=1e-7)
        torch.testing.assert_close(predictor.jacobian(points()), slopes(predictor, points()), atol=1e-6, rtol=1e-6)

    def test_far_away_is_the_prior(self):
        model = random_model("mogp")
        frozen = FrozenGPs(model.prior, 1, torch.Generator())
        q = frozen.forward(points() + 1e6, 1, torch.Generator())
        assert torch.allclose(q.mean, model.prior.mean(points()))
        assert torch.allclose(q.var, model.prior.kernel.outputscale.expand(NUM_POINTS, -1))

    @pytest.mark.parametrize("num_inducing", [47, 100, 203])
    def test_equals_the_model_with_several_blocks_of_inducing_points(self, num_inducing):
        x = torch.randn(num_inducing, NUM_INPUTS, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        gps = IndependentGPs(rbf(NUM_INPUTS, 2), x, num_latents=2)
        with torch.no_grad():
            gps.variational_mean.normal_(generator=torch.Generator().manual_seed(4))
            gps.variational_root.mul_(0.5)
        frozen = FrozenGPs(gps.double(), 1, torch.Generator()).double()
        found, expected = (prior(points(), 1, torch.Generator()) for prior in (frozen, gps))
        torch.testing.assert_close(found.mean, expected.mean, atol=1e-7, rtol=1e-7)
        torch.testing.assert_close(found.var, expected.var, atol=1e-7, rtol=1e-7)
        assert len(frozen.block_names) == max(1, num_inducing // 48)
