"""Old paths of modules still work, with a warning that names the new one."""

import pickle
import sys
from importlib import import_module

import pytest

from mogul._moved import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_path_is_the_new_module(old: str) -> None:
    sys.modules.pop(old, None)
    if old == "mogul.surrogate":
        pytest.importorskip("botorch")
    with pytest.warns(DeprecationWarning, match=MOVED[old]):
        module = import_module(old)
    assert module is import_module(MOVED[old])
    assert module.__spec__ is not None
    assert module.__spec__.name == MOVED[old]


def test_a_pickle_with_an_old_path_loads() -> None:
    sys.modules.pop("mogul.training.config", None)
    with pytest.warns(DeprecationWarning, match="mogul.config"):
        config = pickle.loads(b"cmogul.training.config\nTrainingConfig\n)R.")
    assert config.epochs == 200


def test_unknown_paths_are_refused_as_ever() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        import_module("mogul.no_such_module")
