"""Products in blocks equal dense ones, whatever the size and however the batch is shared."""

import pytest
import torch

from mogul.priors._fused import (
    lower_inverse,
    lower_of_outer,
    lower_times,
    lower_times_lower,
    lower_transposed_times,
)

NUM_COLUMNS = 7
# Around the edges of the blocks: one block, one block just below two, two, two that are unequal, four that are unequal.
sizes = pytest.mark.parametrize("size", [1, 47, 95, 96, 97, 203])
batches = pytest.mark.parametrize(("one", "other"), [(1, 1), (3, 3), (1, 3), (3, 1)])


def randn(*shape, generator):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def lower(count, size, generator):
    """Lower triangular, of condition numbers that a test at rounding error can afford."""
    return (randn(count, size, size, generator=generator) / size).tril(-1) + torch.eye(size, dtype=torch.float64) * 1.5


@sizes
@batches
def test_a_product_equals_the_dense_one(size, one, other, generator):
    left, right = lower(one, size, generator), randn(other, size, NUM_COLUMNS, generator=generator)
    torch.testing.assert_close(lower_times(left, right), left @ right, rtol=0, atol=1e-12)


@sizes
@batches
def test_a_transposed_product_equals_the_dense_one(size, one, other, generator):
    left, right = lower(one, size, generator), randn(other, size, NUM_COLUMNS, generator=generator)
    torch.testing.assert_close(lower_transposed_times(left, right), left.mT @ right, rtol=0, atol=1e-12)


@sizes
@pytest.mark.parametrize("count", [1, 3])
def test_a_product_of_two_equals_the_dense_one(size, count, generator):
    left, right = lower(count, size, generator), lower(count, size, generator)
    torch.testing.assert_close(lower_times_lower(left, right), left @ right, rtol=0, atol=1e-12)


@sizes
@batches
def test_an_outer_product_equals_the_lower_triangle_of_the_dense_one(size, one, other, generator):
    left, right = (randn(count, size, NUM_COLUMNS, generator=generator) for count in (one, other))
    torch.testing.assert_close(lower_of_outer(left, right), (left @ right.mT).tril(), rtol=0, atol=1e-12)


@sizes
@pytest.mark.parametrize("count", [1, 3])
def test_the_inverse_equals_the_dense_one(size, count, generator):
    matrix = lower(count, size, generator)
    inverse = lower_inverse(matrix)
    torch.testing.assert_close(inverse, torch.linalg.inv(matrix), rtol=0, atol=1e-11)
    assert not inverse.triu(1).any()


@sizes
def test_nothing_is_written_into_the_arguments(size, generator):
    left, right = lower(2, size, generator), randn(2, size, NUM_COLUMNS, generator=generator)
    before = left.clone(), right.clone()
    for product in (lower_times, lower_transposed_times):
        product(left, right)
    lower_of_outer(right, right)
    lower_times_lower(left, left)
    lower_inverse(left)
    assert torch.equal(left, before[0])
    assert torch.equal(right, before[1])
