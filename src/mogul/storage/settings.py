"""Settings as plain JSON and back: numbers, names, and mogul's own small parts by name and parameters, nothing else."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mogul import registry
from mogul.config import InferenceConfig, Stopping, TrainingConfig
from mogul.errors import FileError
from mogul.objective import Analytic, MonteCarlo
from mogul.objective.updates import NaturalGradient, NoiseUpdate
from mogul.storage.container import settings_of_today

for _kind in (Analytic, InferenceConfig, MonteCarlo, NaturalGradient, NoiseUpdate, Stopping, TrainingConfig):
    registry.storable()(_kind)  # parts of models say so themselves
# Quadrature rules are computed when a part is made: a file must not ask for one that takes all memory.
_MAX_ORDER = 1000


def encode(value: Any, name: str) -> Any:
    """What JSON can hold of a setting of this name, or an error: code is never stored.

    >>> from mogul.nonlinearities import Erf
    >>> encode((Erf(shift=1.0), 3), "option")
    [{'part': 'Erf', 'settings': {'shift': 1.0}}, 3]
    """
    if isinstance(value, np.generic):  # numbers from a grid of settings
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [encode(item, name) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"settings": {key: encode(item, f"{name}[{key!r}]") for key, item in value.items()}}
    if (settings := registry.stored_settings(value)) is not None:
        plain = {field: encode(item, f"{name}.{field}") for field, item in settings.items()}
        return {"part": type(value).__name__, "settings": plain}
    raise FileError(
        f"{name} must be made of numbers, names and mogul's own parts to be saved; got {value!r}. "
        "A file holds no code: use one of mogul's own, or keep this model in memory."
    )


def decode(plain: Any) -> Any:
    """The setting that was encoded; lists come back as tuples.

    >>> from mogul.nonlinearities import Erf
    >>> decode([{"part": "Erf", "settings": {"shift": 1.0}}, 3])
    (Erf(shift=1.0), 3)
    """
    if isinstance(plain, list):
        return tuple(decode(item) for item in plain)
    if not isinstance(plain, dict):
        return plain
    settings = {key: decode(item) for key, item in plain["settings"].items()}
    if "part" not in plain:
        return settings
    if (kind := registry.stored_class(plain["part"])) is None:
        raise FileError(
            f"Parts in a model file must be among {', '.join(registry.storable_classes())}; got {plain['part']!r}. "
            "Update mogul."
        )
    if settings.get("order", 0) > _MAX_ORDER:
        raise FileError(
            f"order must be at most {_MAX_ORDER} in a model file; got {settings['order']}. Do not trust it."
        )
    return kind(**settings_of_today(plain["part"], settings))
