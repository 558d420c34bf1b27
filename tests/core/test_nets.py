"""Small nets: their start, their prior, their dropout."""

import pytest
import torch

from mogul.core.nets import TanhNet
from mogul.errors import ConfigError
from mogul.priors import DeepKernel, rbf


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_it_is_the_composition_of_its_layers():
    net, x = TanhNet(3, 2, seeded(), hidden=(5, 4)), torch.randn(6, 3, generator=seeded(1))
    (w0, w1, w2), (b0, b1, b2) = net.weights, net.biases
    expected = torch.tanh(torch.tanh(x @ w0.T + b0) @ w1.T + b1) @ w2.T + b2
    torch.testing.assert_close(net(x), expected)


def test_the_papers_net_has_two_hidden_layers_of_fifty():
    assert [tuple(weight.shape) for weight in TanhNet(3, 2, seeded()).weights] == [(50, 3), (50, 50), (2, 50)]


def test_the_prior_is_on_the_weights_alone():
    net = TanhNet(3, 2, seeded(), weight_scale=0.5)
    before = net.log_prior()
    weights = torch.cat([weight.flatten() for weight in net.weights])
    torch.testing.assert_close(before, torch.distributions.Normal(0.0, 0.5).log_prob(weights).sum())
    with torch.no_grad():
        net.biases[0].add_(3.0)
    assert net.log_prior() == before


def test_dropout_is_unbiased_in_training_and_off_in_use():
    net, x = TanhNet(3, 2, seeded(), dropout=0.3, hidden=(50,)), torch.randn(4, 3, generator=seeded(1))
    generator = seeded(2)
    draws = torch.stack([net(x, generator) for _ in range(4000)])
    exact = net.eval()(x, generator)
    error = draws.std(0) / len(draws) ** 0.5
    assert draws.std(0).min() > 0.01
    assert ((draws.mean(0) - exact).abs() < 5 * error).all()
    assert torch.equal(net(x, generator), exact)


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_a_share_outside_its_range_is_refused(dropout):
    with pytest.raises(ConfigError, match=r"dropout must be in \[0, 1\); got"):
        TanhNet(3, 2, seeded(), dropout=dropout)


def test_a_deep_kernel_starts_near_the_identity_and_is_the_kernel_of_warped_inputs():
    kernel = DeepKernel(rbf(3, 2), 3, seeded())
    x = torch.randn(7, 3, generator=seeded(1))
    warped = kernel.warp(x)
    assert 0 < (warped - x).abs().max() < 0.3 * x.abs().max()
    torch.testing.assert_close(kernel(x).to_dense(), kernel.kernel(warped).to_dense())
    torch.testing.assert_close(kernel(x.unsqueeze(0), diag=True), torch.ones(2, 7))
