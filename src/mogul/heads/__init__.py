"""From latent functions to outputs: features × mixing × noise."""

from mogul.heads.correlation import NoiseCorrelation
from mogul.heads.features import Features, Identity, Neural
from mogul.heads.head import Head
from mogul.heads.heavy_tails import GPStudentTNoise, HeavyTailed, StudentTNoise
from mogul.heads.laws import NoiseLaw, NormalLaw
from mogul.heads.low_rank import LowRankNoise
from mogul.heads.mixing import BayesianMixing, CorrelatedMixing, Mixing
from mogul.heads.noise import NOISE_FLOOR, ConstantNoise, GPNoise, NetNoise, Noise
from mogul.heads.varying import GPMixing, NetMixing, VaryingMixing

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
