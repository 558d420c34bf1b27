"""From latent functions to outputs: features × mixing × noise."""

from mogul.heads.features import Features, Identity, Neural
from mogul.heads.head import Head, NoiseCorrelation
from mogul.heads.mixing import (
    BayesianMixing,
    CorrelatedMixing,
    GPMixing,
    Mixing,
    NetMixing,
    VaryingMixing,
)
from mogul.heads.noise import (
    NOISE_FLOOR,
    ConstantNoise,
    GPNoise,
    GPStudentTNoise,
    HeavyTailed,
    LowRankNoise,
    NetNoise,
    Noise,
    NoiseLaw,
    NormalLaw,
    StudentTNoise,
)

__all__ = [
    "NOISE_FLOOR",
    "BayesianMixing",
    "ConstantNoise",
    "CorrelatedMixing",
    "Features",
    "GPMixing",
    "GPNoise",
    "GPStudentTNoise",
    "Head",
    "HeavyTailed",
    "Identity",
    "LowRankNoise",
    "Mixing",
    "NetMixing",
    "NetNoise",
    "Neural",
    "Noise",
    "NoiseCorrelation",
    "NoiseLaw",
    "NormalLaw",
    "StudentTNoise",
    "VaryingMixing",
]
