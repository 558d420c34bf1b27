"""More than 2,500 rows: exact GPs of some rows are tried before minibatches."""

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from tests.helpers.quick_fits import waves

import mogul
from mogul.means.plane import generalised_least_squares
from mogul.models import build
from mogul.training import noise, part_starts
from mogul.training.defaults import options_from_exact_gps
from mogul.training.part_starts import set_posterior


def smooth(num_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, two smooth outputs, and the same with noise of standard deviation 0.05."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (num_rows, 2))
    truth = np.column_stack([np.sin(6 * x[:, 0] + 2 * x[:, 1]), np.cos(5 * x[:, 1]) * x[:, 0]])
    return x, truth, truth + 0.05 * rng.standard_normal(truth.shape)


@pytest.mark.usefixtures("as_a_user_calls")
class TestSmoothFunctions:
    """There is no cliff at 2,500 rows."""

    def test_they_are_learnt_as_well_as_by_an_exact_gp_of_fewer_rows(self) -> None:
        x, truth, y = smooth(3100)
        fitted = mogul.fit(x[:2600], y[:2600], verbose=0)
        assert fitted.model_name == "mogp"
        assert fitted.is_solved
        assert fitted.check is not None
        test_x, test_truth, test_y = x[2600:], truth[2600:], y[2600:]
        prediction = fitted.predict(test_x)
        for output in range(2):
            kernel = ConstantKernel() * RBF([0.4, 0.4]) + WhiteKernel(0.01)
            exact = GaussianProcessRegressor(kernel, normalize_y=True).fit(x[:400], y[:400, output])
            error = np.abs(exact.predict(test_x) - test_truth[:, output]).mean()
            assert np.abs(prediction.mean[:, output] - test_truth[:, output]).mean() < error
        inside = np.abs(prediction.mean - test_y) < 1.96 * prediction.std
        assert 0.92 < inside.mean() < 0.98
        assert prediction.std.mean() == pytest.approx(0.05, rel=0.1)

    def test_training_that_was_described_is_as_it_was_described(self) -> None:
        x, _, y = smooth(2600)
        fitted = mogul.fit(x, y, epochs=1, num_inducing=5, check=False, verbose=0)
        assert fitted.model_name == "n-sbgprn"


@pytest.mark.filterwarnings("ignore:Outputs should have at least 10 values")
def test_an_output_that_few_rows_have_is_among_those_that_are_drawn() -> None:
    x, _, y = smooth(2600)
    last = torch.randperm(2600, generator=torch.Generator().manual_seed(0))[-3:].numpy()  # of the seed's order
    y[~np.isin(np.arange(2600), last), 1] = np.nan
    fitted = mogul.fit(x, y, model="n-sbgprn", epochs=1, num_inducing=5, check=False, verbose=0)
    assert np.isfinite(fitted.predict(x[:50]).std).all()


def test_very_many_rows_or_outputs_are_trained_by_minibatches_alone() -> None:
    assert options_from_exact_gps({}, 100_000, 1) is None
    assert options_from_exact_gps({}, 2600, 25) is None
    inducing = [options_from_exact_gps({}, num_rows, 1)["num_inducing"] for num_rows in (3000, 30_000, 60_000)]
    assert inducing == sorted(inducing, reverse=True)


def test_the_posterior_is_the_same_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, target, weight = (torch.as_tensor(rng.uniform(0.5, 2, (50, width))) for width in (2, 3, 3))
    generator = torch.Generator().manual_seed(0)
    model = build("mogp", x, 3, generator, num_latents=3, num_inducing=10)
    found = []
    for rows_at_once in (100, 7):
        monkeypatch.setattr(part_starts, "_ROWS_AT_ONCE", rows_at_once)
        set_posterior(model.prior, x, target, weight)
        found.append((model.prior.variational_mean.clone(), model.prior.variational_root.clone()))
    for whole, pieces in zip(*found, strict=True):
        torch.testing.assert_close(whole, pieces, rtol=1e-9, atol=1e-12)


def test_some_rows_stand_for_all_when_noise_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """With half of the rows, each twice, the noise is that of all rows to the accuracy of half of them."""
    data = waves(300)
    levels = []
    for most in (2500, 150):
        monkeypatch.setattr(noise, "_MANY_ROWS", most)
        monkeypatch.setattr(noise, "_NOISE_ROWS", most)
        fitted = mogul.fit(data, model="mogp", noise="gp", mean="linear", num_inducing=30, check=False, verbose=0)
        levels.append(np.log(fitted.predict(data.x).std).mean(0))
    np.testing.assert_allclose(levels[0], levels[1], atol=0.15)


def test_a_plane_of_rows_that_stand_for_several_is_that_of_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    x, y = torch.as_tensor(rng.standard_normal((20, 2))), torch.as_tensor(rng.standard_normal((20, 1)))
    # Without a GP, least squares with a prior: repeated rows are further observations.
    hyper = torch.ones(1, 2).double(), torch.zeros(1).double()
    prior = torch.ones(1, 3).double()
    once = generalised_least_squares(
        x, y, torch.ones(20, 1, dtype=torch.bool), *hyper, torch.full((20, 1), 0.3).double(), prior, times=3.0
    )
    repeated = generalised_least_squares(
        x.repeat(3, 1),
        y.repeat(3, 1),
        torch.ones(60, 1, dtype=torch.bool),
        *hyper,
        torch.full((60, 1), 0.3).double(),
        prior,
    )
    for one, other in zip(once[:2], repeated[:2], strict=True):
        torch.testing.assert_close(one, other)
    at = torch.as_tensor(rng.standard_normal((5, 2)))
    torch.testing.assert_close(once[2].var(at), repeated[2].var(at))
