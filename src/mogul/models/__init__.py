"""Models: compositions of inputs × prior × head × mean, by name or of a user's own."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mogul import registry
from mogul.models.families import FAMILIES, Name, Recipe, names

if TYPE_CHECKING:
    from collections.abc import Callable

    from mogul.models.model import Model
    from mogul.models.parts import Parts, build, require_used, unused_options

    COMPOSITIONS: dict[str, Callable[[Parts], Model]]
    OPTIONS: tuple[str, ...]

__all__ = ["COMPOSITIONS", "FAMILIES", "OPTIONS", "Name", "Recipe", "build", "names", "require_used", "unused_options"]


def __getattr__(name: str) -> Any:
    """Import modules that need torch on first use, so that names can be listed and checked without it."""
    if name == "COMPOSITIONS":
        return {family: registry.get("model", family).make for family in FAMILIES}
    if name == "OPTIONS":
        return tuple(registry.options())
    if not name.startswith("_"):
        for module in ("mogul.models.parts", "mogul.models.zoo"):
            if hasattr(import_module(module), name):
                return getattr(import_module(module), name)
    raise AttributeError(f"module 'mogul.models' has no attribute {name!r}")
