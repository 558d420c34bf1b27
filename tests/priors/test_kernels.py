"""The default kernel against the formula of an ARD RBF, and named kernels against GPyTorch's."""

import gpytorch
import pytest
import torch

from mogul.priors import kernel_by_name, rbf


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


def peer(kernel, name):
    """GPyTorch's own computation with the same parameters."""
    scaled = gpytorch.kernels.ScaleKernel(
        kernel.base_kernel,
        batch_shape=kernel.batch_shape,
        outputscale_constraint=kernel.raw_outputscale_constraint,
    )
    scaled.raw_outputscale = kernel.raw_outputscale
    return scaled


@pytest.mark.parametrize("name", ["matern12", "matern32", "matern52", "rq", "periodic"])
@pytest.mark.parametrize("num_latents", [1, 2])
class TestNamedKernels:
    """One fused Function, or an RBF on the circle, where GPyTorch has other formulas."""

    def kernel(self, name, num_latents, generator):
        kernel = kernel_by_name(name, 3, num_latents).double()
        for parameter in kernel.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.data.add_(0.3 * noise)
        return kernel

    @pytest.mark.parametrize("same", [False, True])
    def test_value_and_gradients_are_gpytorchs(self, name, num_latents, same, generator):
        kernel = self.kernel(name, num_latents, generator)
        x = torch.randn(5, 3, generator=generator, dtype=torch.float64).requires_grad_()
        other = x if same else torch.randn(4, 3, generator=generator, dtype=torch.float64).requires_grad_()
        parts = [x, *([] if same else [other]), *kernel.parameters()]
        value, expected = kernel(x, other).to_dense(), peer(kernel, name)(x, other).to_dense()
        torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-9)
        cotangent = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        own, known = (torch.autograd.grad((each * cotangent).sum(), parts) for each in (value, expected))
        for each, other_each in zip(own, known, strict=True):
            torch.testing.assert_close(each, other_each, rtol=1e-7, atol=1e-7)

    def test_the_diagonal_is_that_of_the_matrix_with_a_finite_gradient(self, name, num_latents, generator):
        kernel = self.kernel(name, num_latents, generator)
        x = torch.randn(6, 3, generator=generator, dtype=torch.float64)
        shifted = x + 0.1
        for other in (x, shifted):
            diagonal = kernel(x.unsqueeze(0), other.unsqueeze(0), diag=True)
            torch.testing.assert_close(diagonal, kernel(x, other).to_dense().diagonal(dim1=-2, dim2=-1))
        gradients = torch.autograd.grad(
            kernel(x.unsqueeze(0), diag=True).sum(), list(kernel.parameters()), allow_unused=True
        )
        assert all(gradient is None or gradient.isfinite().all() for gradient in gradients)

    def test_draws_of_inputs_have_matrices_of_their_own(self, name, num_latents, generator):
        kernel = self.kernel(name, num_latents, generator)
        x = torch.randn(4, 1, 5, 3, generator=generator, dtype=torch.float64)
        together = kernel(x).to_dense()
        for draw, own in zip(x, together, strict=True):
            torch.testing.assert_close(own, kernel(draw.squeeze(0)).to_dense())


def test_rows_far_from_the_origin_have_the_same_distances():
    """In float32 a Matérn 1/2 sees the root of the rounding error of a squared distance."""
    kernel = kernel_by_name("matern32", 2, 1)
    x = torch.rand(6, 2, generator=torch.Generator().manual_seed(0)).mul(64).round() / 64
    torch.testing.assert_close(kernel(x + 2.0**12).to_dense(), kernel(x).to_dense())
