"""Pointwise nonlinearities with their moments under Normal arguments."""

from mogul import registry
from mogul.nonlinearities.base import Nonlinearity
from mogul.nonlinearities.erf import Erf, PolynomialErf, erf_moment
from mogul.nonlinearities.piecewise import LeakyReLU
from mogul.nonlinearities.polynomial import PiecewisePolynomial
from mogul.nonlinearities.quadrature import Quadrature
from mogul.nonlinearities.softsquare import SoftSquare

__all__ = [
    "Erf",
    "LeakyReLU",
    "Nonlinearity",
    "PiecewisePolynomial",
    "PolynomialErf",
    "Quadrature",
    "SoftSquare",
    "by_name",
    "erf_moment",
    "names",
]


def names() -> list[str]:
    """The names that `by_name` knows: the paper's four (section 5.3), then those registered."""
    return registry.names("nonlinearity")


def by_name(name: object) -> Nonlinearity:
    """The nonlinearity of this name.

    >>> by_name("sherf")
    Erf(shift=1.0)
    """
    made = registry.get("nonlinearity", name).make
    made = made() if isinstance(made, type) else made
    return made if isinstance(made, Nonlinearity) else Quadrature(made)
