"""The default kernel against the formula of an ARD RBF."""

import pytest
import torch

from mogul.priors import rbf


def test_rbf_equals_its_formula(generator):
    x = torch.randn(6, 3, generator=generator)
    kernel = rbf(3, 2)
    kernel.outputscale = torch.tensor([0.5, 2.0])
    lengthscale = torch.tensor([[[0.5, 1.0, 2.0]], [[3.0, 0.7, 1.5]]])
    kernel.base_kernel.lengthscale = lengthscale
    scaled = (x[None, :, None] - x[None, None]) / lengthscale[:, None]
    expected = torch.tensor([0.5, 2.0])[:, None, None] * torch.exp(-0.5 * scaled.square().sum(-1))
    torch.testing.assert_close(kernel(x).to_dense(), expected)


@pytest.mark.parametrize("num_inputs", [1, 4, 9])
def test_lengthscales_start_at_the_root_of_the_number_of_inputs(num_inputs):
    kernel = rbf(num_inputs, 2)
    expected = torch.full((2, 1, num_inputs), num_inputs**0.5)
    torch.testing.assert_close(kernel.base_kernel.lengthscale, expected)
    torch.testing.assert_close(kernel.outputscale, torch.ones(2))


def test_without_ard_all_inputs_share_a_lengthscale():
    kernel = rbf(4, 3, ard=False)
    assert kernel.base_kernel.lengthscale.shape == (3, 1, 1)
    assert kernel(torch.zeros(5, 4)).to_dense().shape == (3, 5, 5)


def test_each_gp_learns_its_own_lengthscales():
    kernel = rbf(2, 3)
    kernel(torch.eye(2)).to_dense()[1, 0, 1].backward()
    gradient = kernel.base_kernel.raw_lengthscale.grad
    assert (gradient[1] != 0).all()
    assert (gradient[[0, 2]] == 0).all()
