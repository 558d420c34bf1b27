"""Pointwise nonlinearities with their moments under Normal arguments."""

from mogul.errors import unknown_name
from mogul.nonlinearities.base import Nonlinearity
from mogul.nonlinearities.erf import Erf, PolynomialErf, erf_moment
from mogul.nonlinearities.piecewise import LeakyReLU
from mogul.nonlinearities.quadrature import Quadrature

__all__ = [
    "Erf",
    "LeakyReLU",
    "Nonlinearity",
    "PolynomialErf",
    "Quadrature",
    "by_name",
    "erf_moment",
    "names",
]

# The paper's four, section 5.3.
_NAMED: dict[str, Nonlinearity] = {
    "erf": Erf(),
    "sherf": Erf(shift=1.0),
    "relu": LeakyReLU(slope=0.0),
    "leaky": LeakyReLU(slope=0.35),
}


def names() -> list[str]:
    """The names that `by_name` knows."""
    return list(_NAMED)


def by_name(name: object) -> Nonlinearity:
    """The paper's nonlinearity of this name.

    >>> by_name("sherf")
    Erf(shift=1.0)
    """
    if not isinstance(name, str) or name not in _NAMED:
        raise unknown_name("nonlinearity", name, _NAMED)
    return _NAMED[name]
