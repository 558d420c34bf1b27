"""The simulated data have the truth and the noise that they claim."""

import numpy as np
import pytest
from scipy import stats

from mogul.lab.datasets.simulated import RadialCosine

RNG_SEED = 0


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(RNG_SEED)


def test_sizes_are_those_of_the_paper(rng: np.random.Generator):
    data = RadialCosine().draw(10, rng)
    assert (data.num_rows, data.num_inputs, data.num_outputs, data.num_missing) == (10, 5, 8, 0)


def test_sizes_can_be_chosen(rng: np.random.Generator):
    data = RadialCosine(num_inputs=2, num_outputs=3).draw(4, rng)
    assert data.x.shape == (4, 2)
    assert data.y.shape == (4, 3)


def test_the_truth_is_a_cosine_of_the_radius_for_every_output():
    x = np.array([[0.0, 0.0], [0.6, 0.8], [0.0, np.pi / 4]])
    truth = RadialCosine(num_inputs=2, num_outputs=3).truth(x)
    np.testing.assert_allclose(truth, np.repeat([[1.0], [np.cos(4.0)], [-1.0]], 3, axis=1), rtol=1e-14)


@pytest.mark.parametrize("num_inputs", [1, 2, 5])
def test_inputs_are_uniform_in_the_unit_ball(rng: np.random.Generator, num_inputs):
    x = RadialCosine(num_inputs=num_inputs).draw(4000, rng).x
    # The share of a ball within a radius is the radius to the power of the dimension.
    assert stats.kstest(np.linalg.norm(x, axis=1) ** num_inputs, "uniform").pvalue > 0.01
    np.testing.assert_allclose(x.mean(0), 0.0, atol=4 / np.sqrt(4000))


def test_noise_is_normal_with_the_scale_that_was_asked_for(rng: np.random.Generator):
    simulator = RadialCosine(noise_scale=0.3)
    data = simulator.draw(2000, rng)
    residual = (data.y - simulator.truth(data.x)) / 0.3
    assert stats.kstest(residual.ravel(), "norm").pvalue > 0.01
    np.testing.assert_allclose(np.corrcoef(residual.T), np.eye(8), atol=0.1)


def test_directions_have_unit_length_and_no_preference(rng: np.random.Generator):
    directions = RadialCosine().direction(4000, rng)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(directions.mean(0), 0.0, atol=4 / np.sqrt(5 * 4000))


def test_the_same_generator_state_gives_the_same_data():
    first, again, other = (RadialCosine().draw(5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.y, other.y)
