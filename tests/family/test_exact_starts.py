"""Data drawn from a model itself, few rows: from an exact start it must reach what one exact GP per output does."""

from typing import Any

import pytest
from test_planted import planted_rows

from mogul import TrainingConfig, fit, models
from mogul.training.defaults import preset, with_defaults

# Long fits, whose lines quicker tests run too: tracing them would cost as much again.
pytestmark = pytest.mark.no_cover

NUM_ROWS, NUM_OUTPUTS = 150, 2
# In nats per output: exact GPs widen their bands by what is not known of hyperparameters, which training does not.
TOLERANCE = 0.05
POINTS: dict[str, Any] = {"num_inducing": 60, "num_top_inducing": 30, "num_mixing_inducing": 30}


def reached(name: str, config: TrainingConfig, train: Any, test: Any) -> float:
    options = with_defaults({"noise": "constant", **POINTS}, name, None, NUM_OUTPUTS, NUM_ROWS)
    unused = models.unused_options(name)
    useful = {option: value for option, value in options.items() if option not in unused}
    return fit(train, model=name, config=config, **useful).evaluate(test, num_samples=200).ll / NUM_OUTPUTS


@pytest.mark.parametrize("name", [family for family in models.FAMILIES if family != "mogp"])
def test_few_rows_of_a_model_itself_are_explained_as_well_as_by_exact_gps(name: str) -> None:
    exact = TrainingConfig(start="exact", epochs=0, num_starts=1)
    gains = []
    for seed in range(2):
        train, test = planted_rows(name, NUM_ROWS, num_inputs=2, num_outputs=NUM_OUTPUTS, seed=seed)
        own = preset("default", name, seed=seed, num_rows=NUM_ROWS)
        assert own.start == "exact"
        gains.append(reached(name, own, train, test) - reached("mogp", exact, train, test))
    assert min(gains) > -TOLERANCE, f"{name}: {gains}"
