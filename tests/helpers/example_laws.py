"""A noise of every kind, and outputs and signals that it is asked about."""

import pytest
import torch
from tests.helpers.draws import normal
from tests.helpers.perturbing import perturbed

from mogul.core.moments import Marginals
from mogul.heads import ConstantNoise, GPNoise, GPStudentTNoise, LowRankNoise, NetNoise, Noise, NoiseLaw, StudentTNoise
from mogul.priors import IndependentGPs, rbf

NUM_POINTS, NUM_INPUTS, NUM_OUTPUTS = 3, 2, 3


X, Y = normal(NUM_POINTS, NUM_INPUTS, seed=0), normal(NUM_POINTS, NUM_OUTPUTS, seed=1)
OBSERVED = torch.tensor([[True, True, True], [False, True, True], [False, False, False]])
SIGNAL = Marginals(
    normal(NUM_POINTS, NUM_OUTPUTS, seed=2), 0.3 * normal(NUM_POINTS, NUM_OUTPUTS, seed=3).square() + 0.05
)
KINDS = ["constant", "net", "gp", "student-t", "gp-student-t", "low-rank"]
every_kind = pytest.mark.parametrize("kind", KINDS)
with_and_without_floor = pytest.mark.parametrize("floor", [0.0, 0.6])


def make(kind: str, floor: float = 0.0) -> Noise:
    """A noise of this kind, away from any special point."""
    generator = torch.Generator().manual_seed(4)
    gps = IndependentGPs(rbf(NUM_INPUTS, 2), normal(5, NUM_INPUTS, seed=5).float(), 2, mean="zero")
    noises: dict[str, Noise] = {
        "constant": ConstantNoise(NUM_OUTPUTS, floor=floor),
        "net": NetNoise(NUM_INPUTS, NUM_OUTPUTS, generator, floor=floor),
        "gp": GPNoise(gps, NUM_OUTPUTS, generator, floor=floor),
        "student-t": StudentTNoise(NUM_OUTPUTS, dof=4.0, floor=floor),
        "gp-student-t": GPStudentTNoise(gps, NUM_OUTPUTS, generator, dof=4.0, floor=floor),
        "low-rank": LowRankNoise(NUM_OUTPUTS, 2, generator, floor=floor),
    }
    return perturbed(noises[kind].double(), generator, 0.4)


def law_of(kind: str, floor: float = 0.0) -> NoiseLaw:
    """Its law at the example's points."""
    return make(kind, floor)(X, torch.Generator())


def assert_same_law(noise: Noise, constant: Noise, tolerance: float = 1e-9) -> None:
    """Both say the same of the example's outputs."""
    one, two = noise(X, torch.Generator()), constant(X, torch.Generator())
    for part in ("expected_log_density", "log_density", "misfit", "predictive_misfit"):
        found, expected = (getattr(law, part)(Y, OBSERVED, SIGNAL) for law in (one, two))
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(one.var.expand(NUM_POINTS, -1), two.var.expand(NUM_POINTS, -1), rtol=1e-6, atol=1e-9)
