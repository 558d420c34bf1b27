"""The paper's models: each registers itself, with the paper's choices, and is a short composition of parts.

y = M(x) h(F(x)) + noise, by a prior of F × features h × mixing M. Nothing heavy is imported here.
"""

from typing import TYPE_CHECKING

from mogul.registry import register_model

if TYPE_CHECKING:
    from mogul.models.model import Model
    from mogul.models.parts import Parts
else:
    Model = Parts = object  # names can be listed without torch


@register_model("mogp", "Multi-output GP: a matrix mixes L GPs.", equation="mogp")
def mogp(parts: Parts) -> Model:
    """GPs × identity × a Bayesian matrix."""
    features = parts.identity()
    return parts.model(parts.gps("constant"), features, parts.bayesian_mixing(features))


@register_model(
    "gprn",
    "GP regression network: the matrix is itself made of GPs, and f has white noise.",
    equation="gprn",
    num_inducing=100,
    num_samples=None,
    most_outputs=20,  # a step takes as long as one of n-sbgprn up to here; with 50 three times, with 100 seven times
)
def gprn(parts: Parts) -> Model:
    """GPs with white noise × identity × a matrix of GPs."""
    features, prior = parts.identity(), parts.gps("constant", white_noise=0.01)
    return parts.model(prior, features, parts.gp_mixing(features, prior))


@register_model("dgp", "Deep GP: a matrix mixes a second layer of GPs.", equation="dgp", num_samples=5, deep=True)
def dgp(parts: Parts) -> Model:
    """Layers of GPs × identity × a Bayesian matrix."""
    features = parts.identity(parts.num_top_latents)
    return parts.model(parts.deep_gps("constant"), features, parts.bayesian_mixing(features))


@register_model("sbgprn", "Semi-Bayesian GPRN: the matrix is a neural net's.", equation="sbgprn")
def sbgprn(parts: Parts) -> Model:
    """GPs × identity × a matrix by a net."""
    features = parts.identity()
    return parts.model(parts.gps("constant"), features, parts.net_mixing(features))


# Neural models have biases in their hidden units, so their GPs have zero means (appendix, Bias in Hidden Units).
@register_model(
    "n-mogp", "Neural MOGP: hidden units between the GPs and the matrix.", equation="nmogp", nonlinearity="sherf"
)
def n_mogp(parts: Parts) -> Model:
    """GPs × hidden units × a Bayesian matrix."""
    features = parts.hidden_units()
    return parts.model(parts.gps("zero"), features, parts.bayesian_mixing(features))


@register_model(
    "n-sbgprn",
    "Neural SBGPRN: hidden units between the GPs and the net's matrix.",
    equation="nsbgprn",
    latent_nonlinearity="relu",
    hidden_per_output=1,
    latent_hidden=7,
)
def n_sbgprn(parts: Parts) -> Model:
    """GPs × hidden units × a matrix by a net."""
    features = parts.hidden_units()
    return parts.model(parts.gps("zero"), features, parts.net_mixing(features))


@register_model(
    "n-dgp",
    "Neural DGP: hidden units on top of the second layer of GPs.",
    equation="ndgp",
    nonlinearity="erf",
    num_samples=5,
    deep=True,
)
def n_dgp(parts: Parts) -> Model:
    """Layers of GPs × hidden units × a Bayesian matrix."""
    features = parts.hidden_units(parts.num_top_latents)
    return parts.model(parts.deep_gps("zero"), features, parts.bayesian_mixing(features))
