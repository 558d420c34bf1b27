"""Probabilistic principal components against closed forms, scikit-learn and a planted plane."""

import numpy as np
import pytest
from scipy import stats
from sklearn.decomposition import PCA
from tests.helpers.small_jobs import small, tasks

from mogul.data import Dataset
from mogul.lab.baselines.closed_form import PrincipalComponents, predict_principal
from mogul.lab.experiments.declarations import experiment
from mogul.lab.experiments.run import Provenance, run_job
from mogul.metrics import score
from mogul.models import LATENT_INPUTS

NOISE = 0.1


def plane(num_rows: int = 400) -> np.ndarray:
    """Six outputs of two latent inputs, with noise."""
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((num_rows, 2)) @ rng.standard_normal((2, 6)) + np.arange(6.0)
    return signal + NOISE * rng.standard_normal(signal.shape)


def with_gaps(y: np.ndarray, share: float = 0.2) -> np.ndarray:
    return np.where(np.random.default_rng(1).random(y.shape) < share, np.nan, y)


def test_the_law_of_a_row_is_scikit_learns() -> None:
    y = plane()
    found, peer = PrincipalComponents.fit(y, 2), PCA(2).fit(y)
    cov = found.loadings @ found.loadings.T + found.var * np.eye(6)
    np.testing.assert_allclose(cov, peer.get_covariance(), rtol=1e-10, atol=1e-12)
    density = stats.multivariate_normal(found.level, cov).logpdf(y)
    np.testing.assert_allclose(density, peer.score_samples(y), rtol=1e-8)


def test_a_reconstruction_is_the_posterior_predictive() -> None:
    y = plane(60)
    found = PrincipalComponents.fit(y, 2)
    inner = np.linalg.inv(found.loadings.T @ found.loadings + found.var * np.eye(2))
    mean = found.level + (y - found.level) @ found.loadings @ inner @ found.loadings.T
    cov = found.var * (np.eye(6) + found.loadings @ inner @ found.loadings.T)
    said = found.reconstruct(y, num_draws=2000)
    np.testing.assert_allclose(said.mean, mean, atol=1e-10)
    np.testing.assert_allclose(said.var, np.tile(np.diag(cov), (60, 1)), rtol=1e-10)
    exact = [stats.multivariate_normal(centre, cov).logpdf(row) for centre, row in zip(mean, y, strict=True)]
    np.testing.assert_allclose(said.log_density(y), exact, atol=0.2)
    assert said.log_density(y).mean() == pytest.approx(np.mean(exact), abs=0.02)


def test_steps_lead_to_the_closed_form_where_nothing_is_missing() -> None:
    y = plane()
    exact = PrincipalComponents.fit(y, 2)
    start = PrincipalComponents(np.random.default_rng(2).standard_normal((6, 2)), np.zeros(6), 1.0)
    found = start.improved(y)
    factor = 1 - 1 / len(y)  # scikit-learn divides by one row less
    assert found.var == pytest.approx(factor * exact.var, rel=1e-3)
    np.testing.assert_allclose(found.level, exact.level, atol=1e-6)
    plane_of = [each.loadings @ each.loadings.T for each in (found, exact)]
    np.testing.assert_allclose(plane_of[0], factor * plane_of[1], atol=2e-3)


def test_rows_with_gaps_are_learnt_from_and_filled() -> None:
    y = plane()
    gaps = with_gaps(y)
    found = PrincipalComponents.fit(gaps, 2)
    assert np.sqrt(found.var) == pytest.approx(NOISE, rel=0.1)
    said, missing = found.reconstruct(gaps), np.isnan(gaps)
    assert np.sqrt(np.square(said.mean - y)[missing].mean()) < 2.5 * NOISE
    assert np.all(said.var[missing].mean() > said.var[~missing].mean())
    inside = np.abs(said.mean - y)[missing] < 1.96 * said.std[missing]
    assert inside.mean() == pytest.approx(0.95, abs=0.03)


def test_it_is_scored_in_units_of_the_data_as_models_with_latent_inputs_are() -> None:
    y = plane() * np.array([1.0, 10.0, 0.1, 1.0, 1.0, 100.0])
    train, test = (Dataset(None, part) for part in (y[:300], y[300:]))
    said = predict_principal(train, test, 0)
    assert said.component_mean.shape == (50, 100, 6)
    ratio = np.sqrt(np.square(said.mean - test.y).mean(0)) / y.std(0)
    assert np.all(ratio < 0.2)
    assert np.isfinite(score([(said, test.y)]).ll)


def test_the_unsupervised_experiment_has_it() -> None:
    choices = {"models": ("none",), "baselines": ("pca", "mean")}
    found = {
        job.label: run_job(job, grouped, Provenance({}, None))
        for job, grouped in tasks(small(experiment("unsupervised")), **choices)
    }
    assert [record.error for record in found.values()] == [None, None]
    assert found["probabilistic PCA"].metrics["ll"] > found["mean"].metrics["ll"]
    assert len(found["probabilistic PCA"].per_output["names"]) == 7
    assert LATENT_INPUTS == 4
