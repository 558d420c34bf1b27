"""Cholesky whitening, and the jitter it takes."""

import warnings

import pytest
import torch

from mogul.errors import MogulWarning, NumericalError
from mogul.priors import Cholesky, Solver

NOT_FINITE = r"must be finite; it holds NaN or infinity\. Lower the learning rate, or look for extreme values"
NOT_DEFINITE = r"must be positive definite; it is not, with a jitter of 1e-02\. Standardise the inputs"


def definite(count, size, generator):
    root = torch.randn(count, size, size, generator=generator, dtype=torch.float64)
    return root @ root.transpose(-1, -2) + torch.eye(size, dtype=torch.float64)


def indefinite(size, smallest):
    """The identity, but for one eigenvalue."""
    direction = torch.full((size, 1), size**-0.5, dtype=torch.float64)
    return torch.eye(size, dtype=torch.float64) - (1 - smallest) * direction @ direction.T


def test_cholesky_is_a_solver():
    assert isinstance(Cholesky(), Solver)


def test_whitened_cross_covariance_has_the_right_gram_matrix(generator):
    kzz = definite(3, 6, generator)
    kzx = torch.randn(3, 6, 4, generator=generator, dtype=torch.float64)
    whitened = Cholesky(jitter=1e-14).whiten(kzz, kzx)
    expected = kzx.transpose(-1, -2) @ torch.linalg.inv(kzz) @ kzx
    torch.testing.assert_close(whitened.cross.transpose(-1, -2) @ whitened.cross, expected)


def test_gradients_pass_through_whitening(generator):
    root = torch.randn(2, 3, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    kzx = torch.randn(2, 3, 2, generator=generator, dtype=torch.float64, requires_grad=True)

    def gram(factor, cross):
        matrix = factor @ factor.transpose(-1, -2) + torch.eye(3, dtype=torch.float64)
        # The added jitter follows the size of the matrix, and is held constant in gradients.
        return Cholesky(jitter=1e-15).whiten(matrix, cross).cross.square().sum(-2)

    assert torch.autograd.gradcheck(gram, (root, kzx))


@pytest.mark.parametrize(("dtype", "jitter"), [(torch.float64, 1e-8), (torch.float32, 1e-6)])
def test_default_jitter_depends_on_the_precision(dtype, jitter):
    factor, reported = Cholesky().factorise(4 * torch.eye(3, dtype=dtype)[None])
    assert reported == pytest.approx(jitter)
    # Relative to the diagonal of 4; in float32 the sum rounds to a multiple of 5e-7.
    assert (factor[0, 0, 0].double() ** 2 - 4).item() == pytest.approx(4 * jitter, abs=8 * torch.finfo(dtype).eps)


def test_jitter_grows_only_for_the_matrix_that_fails(generator):
    good = definite(1, 4, generator)[0]
    bad = indefinite(4, smallest=-1e-5)
    factor, jitter = Cholesky().factorise(torch.stack([good, bad]))
    assert jitter == pytest.approx(1e-4)
    added = (factor @ factor.transpose(-1, -2) - torch.stack([good, bad])).diagonal(dim1=-2, dim2=-1).mean(-1)
    assert added[0].item() == pytest.approx(1e-8 * good.diagonal().mean().item(), rel=1e-4)
    assert added[1].item() == pytest.approx(1e-4 * bad.diagonal().mean().item(), rel=1e-4)


def test_whitening_reports_the_jitter_it_took():
    kzx = torch.ones(1, 4, 2, dtype=torch.float64)
    with pytest.warns(MogulWarning, match="needed a jitter of 1e-04 of its diagonal .from 1e-08"):
        whitened = Cholesky().whiten(indefinite(4, smallest=-1e-5)[None], kzx)
    assert whitened.jitter == pytest.approx(1e-4)


def test_the_starting_jitter_may_be_chosen():
    _, jitter = Cholesky(jitter=1e-3).factorise(indefinite(4, smallest=-1e-5)[None])
    assert jitter == pytest.approx(1e-3)


def test_the_largest_jitter_may_be_chosen():
    matrix = indefinite(4, smallest=-0.2)[None]
    with pytest.raises(NumericalError, match=NOT_DEFINITE):
        Cholesky().factorise(matrix)
    assert Cholesky(max_jitter=1.0).factorise(matrix)[1] == pytest.approx(1.0)


@pytest.mark.parametrize("matrix", [-torch.eye(3), torch.zeros(3, 3)], ids=["negative definite", "zero"])
def test_a_hopeless_matrix_is_refused(matrix):
    with pytest.raises(NumericalError, match=NOT_DEFINITE):
        Cholesky().factorise(torch.stack([torch.eye(3), matrix]).double())


def identity_but_for(place, value):
    matrix = torch.eye(3, dtype=torch.float64)
    matrix[place] = matrix[place[::-1]] = value
    return matrix[None]


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(("place", "value"), [((0, 0), NAN), ((2, 2), NAN), ((0, 2), NAN), ((0, 2), INFINITY)], ids=str)
def test_a_matrix_that_is_not_finite_is_refused_with_another_message(place, value):
    with pytest.raises(NumericalError, match=NOT_FINITE):
        Cholesky().factorise(identity_but_for(place, value))


@pytest.mark.parametrize("place", [(0, 0), (2, 2)], ids=str)
def test_an_infinite_diagonal_is_refused(place):
    with pytest.raises(NumericalError, match=NOT_FINITE):
        Cholesky().factorise(identity_but_for(place, INFINITY))


def test_no_warning_where_the_jitter_has_not_grown():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Cholesky(jitter=1e-7).factorise(torch.eye(3)[None])


def test_a_jitter_of_zero_does_not_loop_forever(monkeypatch):
    factorise, calls = torch.linalg.cholesky_ex, []

    def counted(matrix):
        calls.append(matrix)
        assert len(calls) < 100, "the jitter does not grow"
        return factorise(matrix)

    monkeypatch.setattr(torch.linalg, "cholesky_ex", counted)
    with pytest.raises((NumericalError, ValueError)):
        Cholesky(jitter=0.0).factorise(-torch.eye(3)[None])
