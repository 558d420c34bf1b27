"""Numbers for joint draws, and the functions that they stand for."""

import pytest
import torch

from mogul import models
from mogul.core.base_samples import FreshNormals, GivenNormals, Normals
from mogul.errors import ShapeError

FAMILIES = list(models.FAMILIES)


def build(name):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(12, 2, generator=generator, dtype=torch.float64)
    sizes = {"num_inducing": 5, "num_latents": 2, "num_hidden": 3}
    return models.build(name, x, 2, generator, **sizes).eval().requires_grad_(False)


def numbers_for(model, x, num_samples=3, seed=0):
    """Given numbers, as many as one dry run takes."""
    fresh = FreshNormals(x[..., :1, :], 1, torch.Generator())
    model.functions(x[..., :1, :], fresh)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((num_samples, *x.shape[:-1], fresh.taken), generator=generator, dtype=x.dtype)


def points(*shape):
    return torch.randn((*shape, 2), generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def test_both_kinds_of_numbers_keep_the_contract(generator):
    for normals in (FreshNormals(torch.zeros(4, 2), 3, generator), GivenNormals(torch.zeros(3, 4, 5))):
        assert isinstance(normals, Normals)
        assert normals.per_point(2).shape == (3, 4, 2)
        assert normals.shared(3).shape == (3, 1, 3)
        assert normals.taken == 5


def test_too_few_given_numbers_are_refused():
    with pytest.raises(ShapeError, match="numbers must have a column"):
        GivenNormals(torch.zeros(3, 4, 5)).per_point(6)


@pytest.mark.parametrize("name", FAMILIES)
def test_functions_at_the_first_points_do_not_depend_on_those_that_follow(name):
    model, x = build(name), points(6)
    numbers = numbers_for(model, x)
    all_points = model.functions(x, GivenNormals(numbers))
    first_points = model.functions(x[:4], GivenNormals(numbers[:, :4]))
    torch.testing.assert_close(all_points[:, :4], first_points, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_batches_of_points_are_drawn_each_by_itself(name):
    model, x = build(name), points(3, 4)
    numbers = numbers_for(model, x)
    together = model.functions(x, GivenNormals(numbers))
    assert together.shape == (3, 3, 4, 2)
    for batch in range(3):
        alone = model.functions(x[batch], GivenNormals(numbers[:, batch]))
        torch.testing.assert_close(together[:, batch], alone)


@pytest.mark.parametrize("name", FAMILIES)
def test_functions_follow_their_numbers(name):
    model, x = build(name), points(4)
    same, again, other = (model.functions(x, GivenNormals(numbers_for(model, x, seed=seed))) for seed in (0, 0, 1))
    assert torch.equal(same, again)
    assert not torch.isclose(same, other).any()
