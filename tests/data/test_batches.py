"""Rows as tensors, whole or in minibatches."""

import pytest
import torch

from mogul.data import Batch

NAN = float("nan")


@pytest.fixture
def batch() -> Batch:
    """Seven rows whose numbers tell which row they are; one output is missing."""
    x = torch.arange(7.0, dtype=torch.float64)[:, None]
    y = torch.cat([10 * x, 20 * x], dim=1)
    y[2, 1] = NAN
    return Batch.of(x, y)


def test_a_missing_output_becomes_zero_and_is_marked(batch: Batch):
    assert batch.observed.sum() == 13
    assert not batch.observed[2, 1]
    assert batch.y[2].tolist() == [20.0, 0.0]


def test_making_a_batch_leaves_the_given_tensor_alone():
    y = torch.tensor([[NAN, 1.0]])
    Batch.of(torch.zeros(1, 1), y)
    assert torch.isnan(y[0, 0])


def test_length_is_the_number_of_rows(batch: Batch):
    assert len(batch) == 7
    assert batch.index.tolist() == list(range(7))


def test_rows_stay_together(batch: Batch):
    part = batch.rows(torch.tensor([5, 2]))
    assert part.x[:, 0].tolist() == [5.0, 2.0]
    assert part.y.tolist() == [[50.0, 100.0], [20.0, 0.0]]
    assert part.observed.tolist() == [[True, True], [True, False]]
    assert part.index.tolist() == [5, 2]


def test_rows_of_rows_remember_their_first_place(batch: Batch):
    assert batch.rows(torch.tensor([6, 4, 2])).rows(torch.tensor([2, 0])).index.tolist() == [2, 6]


@pytest.mark.parametrize(("size", "sizes"), [(1, [1] * 7), (3, [3, 2, 2]), (5, [4, 3]), (7, [7]), (100, [7])])
def test_minibatches_are_one_pass_over_all_rows(batch: Batch, generator: torch.Generator, size, sizes):
    parts = list(batch.minibatches(size, generator))
    assert [len(part) for part in parts] == sizes
    assert sorted(torch.cat([part.index for part in parts]).tolist()) == list(range(7))
    for part in parts:
        assert torch.equal(part.x[:, 0], part.index.double())


def test_the_order_of_minibatches_is_random_and_decided_by_the_generator(batch: Batch):
    def order(generator: torch.Generator) -> list[int]:
        return [int(part.index) for part in batch.minibatches(1, generator)]

    first = torch.Generator().manual_seed(3)
    passes = [order(first), order(first)]
    assert passes[0] != passes[1]
    assert order(torch.Generator().manual_seed(3)) == passes[0]
