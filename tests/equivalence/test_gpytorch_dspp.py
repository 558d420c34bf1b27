"""A deep model at learnt sites against GPyTorch's deep sigma point process, with the same parameters."""

import gpytorch
import pytest
import torch
from gpytorch.mlls import DeepPredictiveLogLikelihood
from gpytorch.models.deep_gps.dspp import DSPP, DSPPLayer
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from tests.helpers.perturbing import perturbed

from mogul.data import Batch
from mogul.models import build
from mogul.models.model import Model
from mogul.objective import Analytic, Predictive
from mogul.priors import Cholesky, IndependentGPs

NUM_SITES, NUM_ROWS, NUM_INPUTS, WIDTHS, JITTER = 3, 9, 2, (2, 3), 1e-8


class PeerLayer(DSPPLayer):
    """The same GPs as GPyTorch writes them; `positions` are those of the layer before."""

    def __init__(self, gps: IndependentGPs, num_inputs: int, positions: torch.Tensor | None, single: bool = False):
        batch = torch.Size() if single else torch.Size([gps.num_latents])
        num_inducing = gps.inducing_points.shape[-2]
        distribution = CholeskyVariationalDistribution(num_inducing, batch_shape=batch)
        points = gps.inducing_points.detach().expand(gps.num_latents, -1, -1).reshape(*batch, -1, num_inputs)
        strategy = VariationalStrategy(self, points, distribution, jitter_val=JITTER)
        super().__init__(strategy, num_inputs, None if single else gps.num_latents, NUM_SITES, positions)
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=batch)
        self.covar_module = gps.kernel[0] if single else gps.kernel
        strategy.variational_params_initialized.fill_(1)
        distribution.variational_mean.data = gps.variational_mean.detach().reshape(*batch, -1)
        distribution.chol_variational_covar.data = (
            gps.variational_root.detach().tril().reshape(*batch, num_inducing, -1)
        )
        self.mean_module.constant.data = gps.mean.constant.detach().reshape(batch)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Peer(DSPP):
    def __init__(self, model: Model):
        super().__init__(NUM_SITES)
        *inner, last = model.prior.layers
        sites = model.prior.inner
        widths = (NUM_INPUTS, *WIDTHS)
        positions = (None, *sites.positions)
        self.layers = torch.nn.ModuleList(
            PeerLayer(gps, width, position) for gps, width, position in zip(inner, widths, positions, strict=False)
        )
        self.last = PeerLayer(last, WIDTHS[-1], sites.positions[-1], single=True)
        self.raw_quad_weights.data = sites.logits.detach()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


@pytest.fixture
def model() -> Model:
    """Two inner layers and one GP above, which is the output itself."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(NUM_ROWS, NUM_INPUTS, generator=generator, dtype=torch.float64)
    layers = [(WIDTHS[0], 6), (WIDTHS[1], 5), (1, 4)]
    model = build("dgp", x, 1, generator, layers=layers, num_sites=NUM_SITES, solver=Cholesky(jitter=JITTER))
    perturbed(model, generator, 0.3)
    with torch.no_grad():
        model.head.mixing.mean.fill_(1.0)
        model.head.mixing.log_scale.fill_(-40.0)
    return model


def test_the_objective_and_its_slopes_in_the_sites_equal_gpytorch(model):
    x = torch.randn(NUM_ROWS, NUM_INPUTS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.sin(x[:, :1])
    ours = Predictive(Analytic(), num_data=NUM_ROWS)(model, Batch.of(x, y), torch.Generator())
    peer = Peer(model).double()
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.Positive()).double()
    likelihood.noise = torch.exp(-model.head.noise.log_precision.detach())
    theirs = DeepPredictiveLogLikelihood(likelihood, peer, num_data=NUM_ROWS)
    kl = model.prior.kl()
    expected = NUM_ROWS * theirs(peer(x), y[:, 0])
    torch.testing.assert_close(ours.ell - kl, expected, rtol=1e-5, atol=1e-5)

    sites = model.prior.inner
    slopes = torch.autograd.grad(ours.ell, [*sites.positions, sites.logits])
    shared = [layer.quad_sites for layer in (*peer.layers[1:], peer.last)]
    wanted = torch.autograd.grad(expected, [*shared, peer.raw_quad_weights])
    for slope, want in zip(slopes, wanted, strict=True):
        torch.testing.assert_close(slope, want, rtol=1e-4, atol=1e-5)
