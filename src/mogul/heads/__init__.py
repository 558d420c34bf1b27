"""From latent functions to outputs: features × mixing × noise."""

from mogul.heads.features import Features, Identity, Neural
from mogul.heads.head import Head
from mogul.heads.mixing import BayesianMixing, CorrelatedMixing, Mixing
from mogul.heads.noise import GaussianNoise
from mogul.heads.varying import GPMixing, NetMixing, VaryingMixing

__all__ = [
    "BayesianMixing",
    "CorrelatedMixing",
    "Features",
    "GPMixing",
    "GaussianNoise",
    "Head",
    "Identity",
    "Mixing",
    "NetMixing",
    "Neural",
    "VaryingMixing",
]
