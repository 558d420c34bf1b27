"""The fan of a rollout."""

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

from mogul.dynamics import Rollout
from mogul.dynamics.trajectories import StateSpace
from mogul.errors import ConfigError, ShapeError
from mogul.plot import fan

SPACE = StateSpace(["angle", "speed"], ["torque"], ("angle",), time_step=0.1)


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_bands_hold_their_shares_of_particles_and_truth_is_without_jumps():
    particles = torch.randn(400, 5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ax = fan(Rollout.of_particles(SPACE, particles).numpy(), "angle", truth=[[3.0, 0], [-3.2, 0], *[[3.0, 0]] * 3])
    wide, narrow = (band.get_paths()[0].vertices[:, 1] for band in ax.collections)
    assert wide.min() == pytest.approx(np.quantile(particles[..., 0], 0.05, axis=0).min())
    assert narrow.max() == pytest.approx(np.quantile(particles[..., 0], 0.75, axis=0).max())
    truth = next(line for line in ax.lines if line.get_label() == "truth").get_ydata()
    assert np.abs(np.diff(truth)).max() < 1
    assert ax.get_xlabel() == "time"


def test_moments_alone_have_bands():
    ax = fan(Rollout(SPACE, np.zeros((4, 2)), np.ones((4, 2))), 1, coverages=[0.9])
    assert ax.collections[0].get_paths()[0].vertices[:, 1].max() == pytest.approx(1.6449, abs=1e-3)


def test_what_cannot_be_drawn_is_refused():
    one, two = (Rollout(SPACE, np.zeros(shape), np.ones(shape)) for shape in ((4, 2), (3, 4, 2)))
    with pytest.raises(ShapeError, match="from one start; got 3"):
        fan(two)
    with pytest.raises(ShapeError, match="truth must be"):
        fan(one, truth=[[0.0]])
    with pytest.raises(ConfigError, match="coverages"):
        fan(one, coverages=[2.0])
