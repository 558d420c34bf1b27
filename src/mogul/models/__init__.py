"""Models: compositions of inputs × prior × head × mean, by name or of a user's own."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mogul.models.families import FAMILIES, Name, Recipe, names

if TYPE_CHECKING:
    from mogul.models.zoo import COMPOSITIONS, OPTIONS, build, require_used, unused_options

__all__ = ["COMPOSITIONS", "FAMILIES", "OPTIONS", "Name", "Recipe", "build", "names", "require_used", "unused_options"]


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is first used: names can be listed and checked without it."""
    if name.startswith("_"):
        raise AttributeError(f"module 'mogul.models' has no attribute {name!r}")
    zoo = import_module("mogul.models.zoo")
    try:
        return getattr(zoo, name)
    except AttributeError:
        raise AttributeError(f"module 'mogul.models' has no attribute {name!r}") from None
