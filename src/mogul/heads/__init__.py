"""From latent functions to outputs: features × mixing × noise."""

from mogul.heads.features import Features, Identity, Neural
from mogul.heads.head import Head
from mogul.heads.mixing import BayesianMixing, Mixing
from mogul.heads.noise import GaussianNoise

__all__ = ["BayesianMixing", "Features", "GaussianNoise", "Head", "Identity", "Mixing", "Neural"]
