"""Observation noise: one file for each kind, and noise laws at x."""

from mogul import registry
from mogul.heads.noise.base import NOISE_FLOOR, Noise, NoiseParts
from mogul.heads.noise.constant import ConstantNoise
from mogul.heads.noise.gp import GPNoise
from mogul.heads.noise.laws import NoiseLaw, NormalLaw
from mogul.heads.noise.low_rank import LowRankNoise
from mogul.heads.noise.net import NetNoise
from mogul.heads.noise.student_t import GPStudentTNoise, HeavyTailed, StudentTNoise

__all__ = [
    "NOISE_FLOOR",
    "ConstantNoise",
    "GPNoise",
    "GPStudentTNoise",
    "HeavyTailed",
    "LowRankNoise",
    "NetNoise",
    "Noise",
    "NoiseLaw",
    "NoiseParts",
    "NormalLaw",
    "StudentTNoise",
    "noise_varies",
]


def noise_varies(name: str) -> bool:
    """Whether the noise of this name depends on the input.

    >>> noise_varies("gp"), noise_varies("constant")
    (True, False)
    """
    return bool(getattr(registry.get("noise", name).make, "varies", True))
