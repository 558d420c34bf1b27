"""Every baseline through one contract, and each against a closed form, a third party or a planted truth."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from mogul.data import Dataset
from mogul.errors import DataError
from mogul.lab.baselines import BASELINES
from mogul.lab.baselines.closed_form import PENALTIES, FourierFeatures, Ridge, StudentNoise
from mogul.lab.baselines.trained import NetConfig, SparseGPConfig, predict_nets, predict_noise_nets, predict_sparse_gps
from mogul.metrics import score

NAN = float("nan")
QUICK = NetConfig(num_nets=2, num_steps=150, batch_size=64)
FEW = SparseGPConfig(num_inducing=15, num_steps=60, batch_size=64)


def shortened(name: str):
    """A baseline that is trained, with fewer steps than in tables."""
    quick = {
        "nets": lambda train, test, seed: predict_nets(train, test, seed, QUICK),
        "noise-nets": lambda train, test, seed: predict_noise_nets(train, test, seed, QUICK),
        "sparse-gps": lambda train, test, seed: predict_sparse_gps(train, test, seed, FEW),
    }
    return quick.get(name, BASELINES[name].fit_predict)


def moving(num_rows: int, rng: np.random.Generator) -> Dataset:
    """Two states that drift to a curve of a third input; the units are far from 1."""
    x = rng.normal(size=(num_rows, 3)) * [2.0, 50.0, 2.0] + [0.0, 1000.0, 5.0]
    step = np.stack([np.sin(x[:, 2]), 20 * np.cos(x[:, 2])], axis=1)
    y = x[:, :2] + step + rng.normal(size=(num_rows, 2)) * [0.05, 2.0]
    return Dataset(pd.DataFrame(x, columns=["a", "b", "c"]), pd.DataFrame(y, columns=["next_a", "next_b"]))


@pytest.fixture(scope="module")
def halves() -> tuple[Dataset, Dataset]:
    rng = np.random.default_rng(0)
    return moving(300, rng), moving(120, rng)


def with_gaps(data: Dataset) -> Dataset:
    y = data.y.copy()
    y[::3, 0] = y[1::4, 1] = NAN
    return Dataset(pd.DataFrame(data.x, columns=data.input_names), pd.DataFrame(y, columns=data.output_names))


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("gaps", [False, True], ids=["whole", "gaps"])
def test_every_baseline_predicts_in_original_units_and_beats_the_mean(name, gaps, halves):
    train, test = halves
    given = with_gaps(train) if gaps else train
    assert BASELINES[name].applies(given)
    prediction = shortened(name)(given, test, 0)
    prediction.require_shape(test.y)
    assert np.isfinite(prediction.component_mean).all()
    assert (prediction.component_var > 0).all()
    np.testing.assert_allclose(prediction.mean, prediction.component_mean.mean(0), rtol=1e-6, atol=1e-9)
    scores, plain = score([(prediction, test.y)]), score([(BASELINES["mean"].fit_predict(given, test, 0), test.y)])
    assert scores.ll >= plain.ll - 1e-9
    assert scores.mrmse <= plain.mrmse + 1e-9
    assert 0.55 < scores.coverage[0.8] < 0.97


@pytest.mark.parametrize("name", BASELINES)
def test_the_seed_decides_all_and_test_outputs_nothing(name, halves):
    train, test = halves
    blind = Dataset(test.x, np.full_like(test.y, NAN), check_outputs=False)
    blind.input_names, blind.output_names = test.input_names, test.output_names
    before = torch.random.get_rng_state()
    first, again = shortened(name)(train, test, 3), shortened(name)(train, blind, 3)
    np.testing.assert_array_equal(first.mean, again.mean)
    np.testing.assert_array_equal(first.component_var, again.component_var)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("num_rows", [2, 5])
def test_few_rows_are_enough_to_say_something(name, num_rows, halves):
    train, test = halves
    few = train.rows(np.arange(num_rows))
    prediction = shortened(name)(few, test.rows(np.arange(4)), 0)
    assert np.isfinite(prediction.mean).all()
    assert (prediction.var > 0).all()


def test_labels_differ_and_only_the_mean_needs_no_inputs():
    assert len({baseline.label for baseline in BASELINES.values()}) == len(BASELINES)
    without = Dataset(None, np.ones((3, 2)))
    assert [name for name, baseline in BASELINES.items() if baseline.applies(without)] == ["mean"]


def test_persistence_is_the_state_itself_or_no_change():
    x = pd.DataFrame({"q": [1.0, 2.0], "v": [3.0, 5.0], "river__0": [7.0, 8.0]})
    y = pd.DataFrame({"next_q": [1.5, 2.5], "v_change": [0.1, -0.1], "river_48H__0": [7.0, 9.0]})
    data = Dataset(x, y)
    prediction = BASELINES["persistence"].fit_predict(data, data, 0)
    np.testing.assert_allclose(prediction.mean, [[1.0, 0.0, 7.0], [2.0, 0.0, 8.0]])
    np.testing.assert_allclose(prediction.var[0], [0.25, 0.01, 0.5])


@pytest.mark.parametrize("output", ["torque1", "next_z", "y0"])
def test_persistence_needs_the_state_among_the_inputs(output):
    data = Dataset(pd.DataFrame({"q": [1.0]}), pd.DataFrame({output: [1.0]}))
    assert not BASELINES["persistence"].applies(data)
    with pytest.raises(DataError, match=f"the outputs are {output}"):
        BASELINES["persistence"].fit_predict(data, data, 0)


@pytest.mark.parametrize("degrees", [2.1, 3.0, 8.0, 100.0])
def test_a_mixture_of_normals_has_the_density_of_a_student_t(degrees):
    noise = StudentNoise(degrees, np.array([4.0]))
    y = np.linspace(-9, 9, 49)[:, None] + 1.0
    prediction = noise.around(np.ones((49, 1)))
    exact = stats.t(degrees, loc=1.0, scale=2.0)
    np.testing.assert_allclose(prediction.log_density(y), exact.logpdf(y)[:, 0], atol=0.05)
    np.testing.assert_allclose(prediction.cdf(y), exact.cdf(y), atol=2e-3)


@pytest.mark.parametrize("degrees", [3.0, 8.0])
def test_outputs_together_are_a_multivariate_student_t(degrees):
    scale_var = np.array([0.5, 1.0, 4.0, 9.0])
    exact = stats.multivariate_t(np.zeros(4), np.diag(scale_var), df=degrees, seed=0)
    y = exact.rvs(2000)
    gap = StudentNoise(degrees, scale_var).around(np.zeros((2000, 4))).log_density(y) - exact.logpdf(y)
    # The last bin has all of the far tail: of the rest of the rows there is nothing to tell it by.
    rest = np.square(y / np.sqrt(scale_var)).sum(1) < 4 * stats.f(4, degrees).ppf(0.98)
    assert abs(gap[rest].mean()) < 0.01
    assert abs(gap.mean()) < 0.2


def test_student_noise_is_found_again_where_it_was_planted():
    exact = stats.multivariate_t(np.zeros(3), np.diag([1.0, 4.0, 0.01]), df=5.0, seed=1)
    residual = exact.rvs(6000)
    residual[np.random.default_rng(0).uniform(size=residual.shape) < 0.1] = NAN
    found = StudentNoise.fit(residual)
    assert found.degrees == pytest.approx(5.0, rel=0.1)
    np.testing.assert_allclose(found.scale_var, [1.0, 4.0, 0.01], rtol=0.08)


def test_student_noise_gains_on_residuals_with_outliers():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 2))
    noise = rng.standard_t(2.5, size=(800, 2))
    data = Dataset(x, x @ rng.normal(size=(2, 2)) + 0.1 * noise)
    train, test = data.rows(np.arange(500)), data.rows(np.arange(500, 800))
    heavy, normal = (
        score([(BASELINES[name].fit_predict(train, test, 0), test.y)]).ll
        for name in ("least-squares-t", "least-squares")
    )
    assert heavy > normal + 0.1


def test_neighbours_are_those_of_scikit_learn(halves):
    train, test = halves
    prediction = BASELINES["neighbours"].fit_predict(train, test, 0)
    scaler = StandardScaler().fit(train.x)
    peers = [
        KNeighborsRegressor(number).fit(scaler.transform(train.x), train.y).predict(scaler.transform(test.x))
        for number in (1, 2, 3, 5, 8, 12, 20, 32)
    ]
    for output in range(2):
        assert any(np.allclose(prediction.mean[:, output], peer[:, output]) for peer in peers)


def test_the_nearest_row_is_not_left_in_when_it_is_left_out():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(200, 1))
    prediction = BASELINES["neighbours"].fit_predict(
        Dataset(rng.normal(size=(200, 1)), noise), Dataset([[0.0]], [[0.0]]), 0
    )
    assert prediction.var[0, 0] == pytest.approx(1.0, rel=0.3)


def test_ridge_is_that_of_scikit_learn_with_its_leave_one_out():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5)) + 3.0
    y = x @ rng.normal(size=(5, 2)) + rng.normal(size=(60, 2)) * [0.3, 3.0] + 7.0
    peer = RidgeCV(60 * PENALTIES, alpha_per_target=True).fit(x, y)
    found = Ridge.fit(lambda rows: rows, x, y)
    np.testing.assert_allclose(found.predict(lambda rows: rows, x), peer.predict(x), rtol=1e-6)
    np.testing.assert_allclose(found.left_out, -peer.best_score_, rtol=1e-6)


def test_leave_one_out_is_what_refitting_without_each_row_gives():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(25, 3)), rng.normal(size=(25, 1))
    y += 100 * x[:, :1]  # so clear a slope that the smallest penalty is the best
    kept = [np.delete(np.arange(25), row) for row in range(25)]
    misses = [
        (y[row] - LinearRegression().fit(x[rows], y[rows]).predict(x[row : row + 1]))[0]
        for row, rows in enumerate(kept)
    ]
    assert Ridge.fit(lambda rows: rows, x, y).left_out[0] == pytest.approx(np.mean(np.square(misses)), rel=1e-4)


def test_random_waves_have_the_covariance_of_an_rbf_kernel():
    x = np.random.default_rng(0).normal(size=(20, 4))
    features = FourierFeatures.draw(x, 0.7, seed=0, num_waves=40_000)
    waves = features(x)[:, 4:]
    scaled = features.units.apply(x) / (0.7 * 2.0)
    exact = np.exp(-0.5 * np.square(scaled[:, None] - scaled[None]).sum(-1))
    np.testing.assert_allclose(waves @ waves.T, exact, atol=0.03)


def test_nets_that_give_the_noise_find_where_it_is():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (1000, 1))
    data = Dataset(x, x + rng.normal(size=(1000, 1)) * np.where(x > 0, 1.0, 0.1))
    new = Dataset([[-0.5], [0.5]], [[0.0], [0.0]])
    config = NetConfig(num_nets=1, num_steps=400)
    quiet, loud = predict_noise_nets(data, new, 0, config).std[:, 0]
    assert quiet == pytest.approx(0.1, rel=0.5)
    assert loud == pytest.approx(1.0, rel=0.3)
    same = predict_nets(data, new, 0, config).std[:, 0]
    assert same[0] == pytest.approx(same[1], rel=0.2)


def test_sparse_gps_learn_a_curve_and_doubt_far_away():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (400, 1))
    data = Dataset(x, np.sin(3 * x) + 0.1 * rng.normal(size=x.shape))
    near_and_far = Dataset([[0.5], [9.0]], [[0.0], [0.0]])
    config = SparseGPConfig(num_inducing=20, num_steps=200, batch_size=200)
    prediction = predict_sparse_gps(data, near_and_far, 0, config)
    assert prediction.mean[0, 0] == pytest.approx(np.sin(1.5), abs=0.15)
    assert 0.08 < prediction.std[0, 0] < 0.2
    assert prediction.std[1, 0] > 3 * prediction.std[0, 0]
