"""What precision costs: default fits of the robot data in single, double and mixed precision."""

from dataclasses import replace

from benchmarks.robots import MODEL, NOISE, robots_or_none
from mogul.data import Dataset
from mogul.training import fit
from mogul.training.defaults import preset

EPOCHS = 10


def run() -> dict[str, float]:
    """Test LL of each data set and precision, and seconds of training; nothing where the data are not."""
    robots = robots_or_none()
    figures: dict[str, float] = {}
    for name, robot in (robots or {}).items():
        figures |= {
            f"precision_{name.replace('-', '_')}_{key}": value for key, value in compare(*robot.split(0)).items()
        }
    return figures


def compare(train: Dataset, test: Dataset, epochs: int = EPOCHS) -> dict[str, float]:
    """Trained and used in float32; trained in float32 and used in float64 (`mixed`); all in float64."""
    config = replace(
        preset("default", MODEL, num_rows=train.num_rows), epochs=epochs, learning_rate=0.01, stopping=None
    )
    figures = {}
    single = fit(train, model=MODEL, config=replace(config, precision="float32"), noise=NOISE)
    figures["float32_ll"] = single.evaluate(test, standardised=True).ll
    figures["float32_seconds"] = sum(record.seconds for record in single.history.records)
    single.model.double()
    figures["mixed_ll"] = single.evaluate(test, standardised=True).ll
    double = fit(train, model=MODEL, config=replace(config, precision="float64"), noise=NOISE)
    figures["float64_ll"] = double.evaluate(test, standardised=True).ll
    figures["float64_seconds"] = sum(record.seconds for record in double.history.records)
    return figures
