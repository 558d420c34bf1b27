"""mogul: multi-output Gaussian processes with neural likelihoods."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mogul._moved import find_moved_modules

if TYPE_CHECKING:
    from mogul import metrics, models, nonlinearities, plot
    from mogul.config import TrainingConfig
    from mogul.data import Dataset
    from mogul.dynamics import Dynamics
    from mogul.errors import MogulError, MogulWarning
    from mogul.estimators import MultiOutputGPLVM, MultiOutputGPRegressor
    from mogul.fitted import Fitted, FittedLatent
    from mogul.fitted.files import load, save
    from mogul.objective import Analytic, Elbo, MonteCarlo
    from mogul.prediction import Prediction
    from mogul.registry import (
        register_kernel,
        register_mean,
        register_model,
        register_noise,
        register_nonlinearity,
    )
    from mogul.training.fit import fit

__version__ = "0.1.0"

__all__ = [
    "Analytic",
    "Dataset",
    "Dynamics",
    "Elbo",
    "Fitted",
    "FittedLatent",
    "MogulError",
    "MogulWarning",
    "MonteCarlo",
    "MultiOutputGPLVM",
    "MultiOutputGPRegressor",
    "Prediction",
    "TrainingConfig",
    "__version__",
    "fit",
    "load",
    "metrics",
    "models",
    "nonlinearities",
    "plot",
    "register_kernel",
    "register_mean",
    "register_model",
    "register_noise",
    "register_nonlinearity",
    "save",
]

_HOMES = {
    "Analytic": "mogul.objective",
    "Dataset": "mogul.data",
    "Dynamics": "mogul.dynamics",
    "Elbo": "mogul.objective",
    "Fitted": "mogul.fitted",
    "FittedLatent": "mogul.fitted",
    "MogulError": "mogul.errors",
    "MogulWarning": "mogul.errors",
    "MonteCarlo": "mogul.objective",
    "MultiOutputGPLVM": "mogul.estimators",
    "MultiOutputGPRegressor": "mogul.estimators",
    "Prediction": "mogul.prediction",
    "TrainingConfig": "mogul.config",
    "fit": "mogul.training",
    "load": "mogul.fitted.files",
    **dict.fromkeys(
        (
            "register_kernel",
            "register_mean",
            "register_model",
            "register_noise",
            "register_nonlinearity",
        ),
        "mogul.registry",
    ),
    "save": "mogul.fitted.files",
}
_ROOMS = {"metrics", "models", "nonlinearities", "plot"}

find_moved_modules()  # the only work at import: a line in sys.meta_path, asked last


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch alone takes over a second, and `mogul --help` needs none."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return import_module(f"mogul.{name}")
    raise AttributeError(f"module 'mogul' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
