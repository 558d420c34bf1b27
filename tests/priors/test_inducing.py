"""k-means starts for inducing points."""

import pytest
import torch

from mogul.errors import ConfigError
from mogul.priors import kmeans


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def sorted_rows(x):
    return torch.stack(sorted(x, key=lambda row: row.tolist()))


def test_clusters_that_are_far_apart_are_found(generator):
    centres = torch.tensor([[0.0, 0.0], [0.0, 10.0], [10.0, 0.0]], dtype=torch.float64)
    offsets = 0.01 * torch.randn(3, 40, 2, generator=generator, dtype=torch.float64)
    offsets -= offsets.mean(1, keepdim=True)
    found = kmeans((centres[:, None] + offsets).reshape(-1, 2), 3, generator)
    torch.testing.assert_close(sorted_rows(found), centres, rtol=0, atol=1e-12)


def test_fewer_rows_than_inducing_points_are_all_taken(generator):
    x = torch.randn(4, 2, generator=generator)
    torch.testing.assert_close(kmeans(x, 10, generator), sorted_rows(x))


def test_as_many_rows_as_inducing_points_are_all_taken(generator):
    x = torch.randn(4, 2, generator=generator)
    torch.testing.assert_close(kmeans(x, 4, generator), sorted_rows(x))


def test_duplicates_count_once(generator):
    x = torch.randn(3, 2, generator=generator)
    torch.testing.assert_close(kmeans(x.repeat(20, 1), 10, generator), sorted_rows(x))


def test_no_centre_is_repeated_where_rows_are(generator):
    x = torch.randn(12, 2, generator=generator).repeat(5, 1)
    centres = kmeans(x, 8, generator)
    assert centres.shape == (8, 2)
    assert torch.cdist(centres, centres).fill_diagonal_(1).min() > 1e-6


def test_the_seed_decides(generator):
    x = torch.randn(200, 2, generator=generator)
    first, same, other = (kmeans(x, 15, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(sorted_rows(first), sorted_rows(other))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_centres_have_the_precision_of_the_rows(dtype, generator):
    x = torch.randn(50, 2, generator=generator, dtype=dtype)
    assert kmeans(x, 5, generator).dtype == dtype


@pytest.mark.parametrize("number", [0, -3])
def test_a_number_that_is_not_positive_is_refused(number, generator):
    with pytest.raises(ConfigError, match=rf"num_inducing must be at least 1; got {number}\. Pass a positive number\."):
        kmeans(torch.eye(3), number, generator)
