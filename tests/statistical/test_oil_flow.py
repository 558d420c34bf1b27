"""Three-phase oil flow: latent maps that keep classes apart better than principal components do."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from mogul import Dataset, MultiOutputGPLVM, TrainingConfig, fit
from mogul.objective import Analytic
from mogul.training import FittedLatent, NoiseUpdate

# Long fits, whose lines quicker tests run too: tracing them would cost as much again.
pytestmark = pytest.mark.no_cover

EPOCHS = 250  # by Adam, from principal components: n-sbgprn-lvm's error after these was 0.04
FOLDER = Path(os.environ.get("MOGUL_DATA", Path(__file__).parents[3] / "shared" / "data")) / "oil-flow"


def nearest_neighbour_error(positions: np.ndarray, classes: np.ndarray) -> float:
    """The share of points whose nearest other point is of another class."""
    nearest = NearestNeighbors(n_neighbors=1).fit(positions, classes).kneighbors(n_neighbors=1, return_distance=False)
    return float(np.mean(classes[nearest[:, 0]] != classes))


@pytest.fixture(scope="module")
def oil() -> tuple[np.ndarray, np.ndarray]:
    if not FOLDER.is_dir():
        pytest.skip("the oil-flow data are not in the data folder (MOGUL_DATA)")
    return np.loadtxt(FOLDER / "DataTrn.txt"), np.loadtxt(FOLDER / "DataTrnLbls.txt").argmax(1)


def test_the_default_keeps_classes_apart(oil: tuple[np.ndarray, np.ndarray]) -> None:
    y, classes = oil
    assert nearest_neighbour_error(MultiOutputGPLVM(2).fit(y).fitted_.latent_means, classes) <= 0.008


# In single precision, two dimensions and long lengthscales need more jitter, and one is told so.
@pytest.mark.filterwarnings("ignore:The kernel matrix of the inducing points needed a jitter")
def test_classes_are_further_apart_than_in_principal_components(
    oil: tuple[np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    y, classes = oil
    centered = y - y.mean(0)
    components = centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T
    config = TrainingConfig(
        epochs=EPOCHS,
        batch_size=250,
        learning_rate=0.05,
        num_starts=1,
        expectation=Analytic(),
        updates=(NoiseUpdate(),),
        precision="float32",
    )
    name = "n-sbgprn-lvm"
    fitted = fit(
        Dataset(None, y), model=name, config=config, noise="constant", num_inputs=2, num_latents=8, num_inducing=50
    )
    assert isinstance(fitted, FittedLatent)
    ours, theirs = (nearest_neighbour_error(map_, classes) for map_ in (fitted.latent_means, components))
    with capsys.disabled():
        print(f"\noil flow, 2-D, nearest-neighbour class error: {name} {ours:.3f}, principal components {theirs:.3f}")
    assert ours < theirs
