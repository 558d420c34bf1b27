"""Each fused Function equals the plain formula, which GPyTorch and autograd compute: in value and in every gradient."""

import gpytorch
import pytest
import torch

from mogul.priors import Cholesky, IndependentGPs, rbf
from mogul.priors._fused import scaled_rbf, whitened_marginals
from mogul.priors.solvers import Posterior, update_from

EXACT = {"rtol": 1e-9, "atol": 1e-9}
K, D = 3, 2


def randn(*shape, generator, scale=1.0):
    return (scale * torch.randn(shape, generator=generator, dtype=torch.float64)).requires_grad_()


def positive(*shape, generator):
    return (0.5 + torch.rand(shape, generator=generator, dtype=torch.float64)).requires_grad_()


def peer_kernel(batch, num_lengthscales):
    base = gpytorch.kernels.RBFKernel(
        ard_num_dims=None if num_lengthscales == 1 else num_lengthscales, batch_shape=batch
    )
    return gpytorch.kernels.ScaleKernel(base, batch_shape=batch).double()


def peer_rbf(x1, x2, lengthscale, outputscale):
    """GPyTorch's scaled RBF as a function of its hyperparameters, so that gradients reach these and no raw ones."""
    kernel = peer_kernel(outputscale.shape, lengthscale.shape[-1])
    kernel.base_kernel.lengthscale = lengthscale.detach()
    kernel.outputscale = outputscale.detach()
    value = kernel(x1, x2).to_dense()
    cotangent = cotangent_of(value)
    raw = kernel.base_kernel.raw_lengthscale, kernel.raw_outputscale
    grad1, grad2, raw_length, raw_output = torch.autograd.grad((value * cotangent).sum(), (x1, x2, *raw))
    # Softplus: the derivative of a hyperparameter with respect to its raw form.
    grad_length, grad_output = raw_length / torch.sigmoid(raw[0]), raw_output / torch.sigmoid(raw[1])
    return value, (grad1, grad2, grad_length, grad_output)


def cotangent_of(value):
    return torch.randn(value.shape, generator=torch.Generator().manual_seed(9), dtype=value.dtype)


SHAPES = {
    "one kernel": ((), (5, D), (4, D)),
    "shared inputs": ((K,), (5, D), (4, D)),
    "inputs for each GP": ((K,), (K, 5, D), (K, 4, D)),
    "inducing points for each GP": ((K,), (K, 5, D), (4, D)),
    "draws of the second inputs": ((K,), (5, D), (6, 1, 4, D)),
    "draws of both": ((K,), (6, 1, 5, D), (6, 1, 4, D)),
    "draws against inducing points for each GP": ((K,), (K, 5, D), (6, 1, 4, D)),
    "as many rows as GPs": ((K,), (K, D), (K, D)),
}


@pytest.mark.parametrize("num_lengthscales", [1, D], ids=["one lengthscale", "ard"])
@pytest.mark.parametrize("shape", SHAPES)
class TestScaledRBF:
    """s exp(−½ ‖(x₁ − x₂)/ℓ‖²)."""

    def arguments(self, shape, num_lengthscales, generator):
        batch, shape1, shape2 = SHAPES[shape]
        return (
            randn(*shape1, generator=generator),
            randn(*shape2, generator=generator),
            positive(*batch, 1, num_lengthscales, generator=generator),
            positive(*batch, generator=generator),
        )

    def test_equals_gpytorch_in_value_and_gradients(self, shape, num_lengthscales, generator):
        arguments = self.arguments(shape, num_lengthscales, generator)
        value = scaled_rbf(*arguments)
        gradients = torch.autograd.grad((value * cotangent_of(value)).sum(), arguments)
        expected, expected_gradients = peer_rbf(*arguments)
        assert value.shape == expected.shape
        torch.testing.assert_close(value, expected, **EXACT)
        for gradient, other in zip(gradients, expected_gradients, strict=True):
            assert gradient.shape == other.shape
            assert other.abs().max() > 1e-3
            torch.testing.assert_close(gradient, other, **EXACT)

    def test_equals_finite_differences(self, shape, num_lengthscales, generator):
        assert torch.autograd.gradcheck(scaled_rbf, self.arguments(shape, num_lengthscales, generator), fast_mode=True)


@pytest.mark.parametrize("wanted", [[0], [1], [2], [3], [0, 2], [1, 3]])
def test_a_gradient_does_not_depend_on_which_others_are_wanted(wanted, generator):
    values = TestScaledRBF().arguments("shared inputs", D, generator)
    complete = torch.autograd.grad(scaled_rbf(*values).square().sum(), values)
    some = [value.detach().requires_grad_(place in wanted) for place, value in enumerate(values)]
    alone = torch.autograd.grad(scaled_rbf(*some).square().sum(), [some[place] for place in wanted])
    for gradient, place in zip(alone, wanted, strict=True):
        torch.testing.assert_close(gradient, complete[place], rtol=0, atol=1e-14)


def test_inputs_far_from_the_origin_lose_no_digits(generator):
    x1, x2 = (randn(6, D, generator=generator).detach() for _ in range(2))
    lengthscale, outputscale = positive(1, D, generator=generator), positive(generator=generator)
    near, far = (scaled_rbf(x1 + shift, x2 + shift, lengthscale, outputscale) for shift in (0.0, 2.0**20))
    torch.testing.assert_close(far, near, rtol=0, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_covariance_exceeds_the_variance(dtype, generator):
    x = torch.randn(50, D, generator=generator).to(dtype)
    outputscale = torch.tensor([0.3, 7.0], dtype=dtype)
    value = scaled_rbf(x, x, torch.full((2, 1, D), 40.0, dtype=dtype), outputscale)
    assert (value <= outputscale[:, None, None] * (1 + 2 * torch.finfo(dtype).eps)).all()


def test_the_default_kernel_is_gpytorchs(generator):
    kernel, peer = rbf(D, K).double(), peer_kernel(torch.Size([K]), D)
    kernel.base_kernel.lengthscale = positive(K, 1, D, generator=generator).detach()
    kernel.outputscale = positive(K, generator=generator).detach()
    copy_scales(kernel, peer)
    x1, x2 = randn(5, D, generator=generator), randn(4, D, generator=generator)
    for points in ((x1,), (x1, x2)):
        torch.testing.assert_close(kernel(*points).to_dense(), peer(*points).to_dense(), **EXACT)
    torch.testing.assert_close(kernel(x1[None], diag=True), peer(x1[None], diag=True), **EXACT)
    for built in (kernel, peer):
        built.zero_grad()
        built(x1, x2).to_dense().square().sum().backward()
    # Ours keeps logarithms, the peer inverse softplus: ∂/∂log s = s ∂/∂s, and ∂s/∂raw = 1 − e⁻ˢ.
    for value, ours, theirs in (
        (kernel.outputscale, kernel.raw_outputscale, peer.raw_outputscale),
        (kernel.base_kernel.lengthscale, kernel.base_kernel.raw_lengthscale, peer.base_kernel.raw_lengthscale),
    ):
        torch.testing.assert_close(ours.grad / value, theirs.grad / -torch.expm1(-value), **EXACT)


def copy_scales(kernel, peer):
    """The same lengthscales and output scales, which the two keep in different forms."""
    peer.base_kernel.lengthscale = kernel.base_kernel.lengthscale.detach()
    peer.outputscale = kernel.outputscale.detach()


def plain_marginals(kzz, kzx, jitter, mean, root):
    """The formula, through torch's own Cholesky and triangular solve."""
    factor = torch.linalg.cholesky(kzz + jitter * torch.eye(kzz.shape[-1], dtype=kzz.dtype))
    cross = torch.linalg.solve_triangular(factor, kzx, upper=False)
    scaled = root.tril().mT @ cross
    return (mean.unsqueeze(-2) @ cross).squeeze(-2), scaled.square().sum(-2) - cross.square().sum(-2)


def fused_marginals(kzz, kzx, jitter, mean, root):
    factor = torch.linalg.cholesky(kzz.detach() + jitter * torch.eye(kzz.shape[-1], dtype=kzz.dtype))
    return whitened_marginals(kzz, kzx, factor, mean, root.tril())


@pytest.mark.parametrize("num_inducing", [5, 97, 200])
@pytest.mark.parametrize(("num_kernels", "num_gps"), [(1, 1), (3, 3), (1, 3)])
class TestWhitenedMarginals:
    """Aᵀm and Σ(SᵀA)² − ΣA²."""

    jitter = 1e-3  # 200 points on a plane: the plain formula, too, should keep its digits

    def upstream(self, num_inducing, num_kernels, num_gps, generator):
        """z, x, ℓ, s, m, S: everything that a sparse GP learns, or that a layer below it would."""
        return (
            randn(num_inducing, D, generator=generator, scale=3.0),
            randn(11, D, generator=generator, scale=3.0),
            positive(num_kernels, 1, D, generator=generator),
            positive(num_kernels, generator=generator),
            randn(num_gps, num_inducing, generator=generator),
            randn(num_gps, num_inducing, num_inducing, generator=generator, scale=num_inducing**-0.5),
        )

    def results(self, marginals, arguments):
        z, x, lengthscale, outputscale, mean, root = arguments
        kzz, kzx = scaled_rbf(z, z, lengthscale, outputscale), scaled_rbf(z, x, lengthscale, outputscale)
        values = marginals(kzz, kzx, self.jitter, mean, root)
        total = sum((value * cotangent_of(value)).sum() for value in values)
        return values, torch.autograd.grad(total, arguments)

    def test_equals_the_plain_formula_in_value_and_gradients(self, num_inducing, num_kernels, num_gps, generator):
        arguments = self.upstream(num_inducing, num_kernels, num_gps, generator)
        values, gradients = self.results(fused_marginals, arguments)
        expected, expected_gradients = self.results(plain_marginals, arguments)
        for value, other in zip((*values, *gradients), (*expected, *expected_gradients), strict=True):
            assert value.shape == other.shape
            size = other.detach().abs().max().item()
            assert size > 1e-3
            torch.testing.assert_close(value, other, rtol=1e-9, atol=1e-9 * max(1.0, size))

    def test_the_symmetric_part_of_the_gradient_of_kzz_is_that_of_the_plain_formula(
        self, num_inducing, num_kernels, num_gps, generator
    ):
        z, x, *hyperparameters, mean, root = (
            argument.detach() for argument in self.upstream(num_inducing, num_kernels, num_gps, generator)
        )
        kzz = scaled_rbf(z, z, *hyperparameters).requires_grad_()
        kzx = scaled_rbf(z, x, *hyperparameters).requires_grad_()
        halves = []
        for marginals in (fused_marginals, plain_marginals):
            values = marginals(kzz, kzx, self.jitter, mean, root)
            (gradient,) = torch.autograd.grad(sum((value * cotangent_of(value)).sum() for value in values), kzz)
            halves.append(gradient + gradient.mT)
        assert halves[1].abs().max() > 1e-3
        torch.testing.assert_close(*halves, rtol=1e-9, atol=1e-9 * halves[1].abs().max().item())


@pytest.mark.parametrize("part", [0, 1], ids=["mean", "var"])
def test_one_of_the_marginals_alone_has_its_gradient(part, generator):
    """Where only one of two results is used, the other's gradient is nothing, not an error."""
    checks = TestWhitenedMarginals()
    z, x, *hyperparameters, mean, root = checks.upstream(5, 3, 3, generator)
    parameters = z, *hyperparameters, *((mean,) if part == 0 else (root,))
    kzz, kzx = scaled_rbf(z, z, *hyperparameters), scaled_rbf(z, x, *hyperparameters)
    gradients = [
        torch.autograd.grad(marginals(kzz, kzx, checks.jitter, mean, root)[part].sum(), parameters, retain_graph=True)
        for marginals in (fused_marginals, plain_marginals)
    ]
    for gradient, other in zip(*gradients, strict=True):
        torch.testing.assert_close(gradient, other, **EXACT)


@pytest.mark.parametrize("shared_kernel", [False, True], ids=["a kernel each", "one kernel"])
@pytest.mark.parametrize("lead", [(), (4,)], ids=["rows", "draws of rows"])
def test_a_sparse_layer_equals_itself_without_fused_parts(shared_kernel, lead, generator):
    """GPyTorch's kernel, and the solver's plain path: marginals, and gradients of what is not the kernel's."""

    class Plain(Cholesky):
        def update(self, kzz, kzx, posterior: Posterior):
            return update_from(self.whiten(kzz, kzx), posterior)

    batch = torch.Size([] if shared_kernel else [K])
    z = randn(8, D, generator=generator).detach()
    fused = IndependentGPs(rbf(D, None if shared_kernel else K), z, K, mean="zero")
    plain = IndependentGPs(peer_kernel(batch, D), z, K, mean="zero", solver=Plain())
    with torch.no_grad():
        for parameter in fused.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    plain.load_state_dict(fused.state_dict())
    copy_scales(fused.kernel, plain.kernel)
    x = randn(*lead, 7, D, generator=generator)
    gradients = []
    for prior in (fused, plain):
        q = prior(x, 1, torch.Generator())
        loss = (q.mean * cotangent_of(q.mean)).sum() + (q.var.log() * cotangent_of(q.var)).sum()
        others = (parameter for name, parameter in prior.named_parameters() if "kernel" not in name)
        gradients.append(torch.autograd.grad(loss, (x, *others)))
        torch.testing.assert_close(q.mean, plain(x, 1, torch.Generator()).mean, rtol=0, atol=1e-8)
        torch.testing.assert_close(q.var, plain(x, 1, torch.Generator()).var, rtol=0, atol=1e-8)
    for gradient, other in zip(*gradients, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-6, atol=1e-6)


def test_neither_function_can_be_differentiated_twice(generator):
    """A wrong second derivative would go unnoticed: an error is the contract."""
    x, lengthscale = randn(4, D, generator=generator), positive(1, D, generator=generator)
    value = scaled_rbf(x, x, lengthscale, torch.tensor(1.0, dtype=torch.float64))
    eye = torch.eye(4, dtype=torch.float64)
    results = value, *fused_marginals(value[None], value[None], 0.1, x.T[:1], eye[None])
    for result in results:
        (gradient,) = torch.autograd.grad(result.square().sum(), lengthscale, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            gradient.sum().backward()
