"""Training that ends when it is done."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from mogul import Dataset, TrainingConfig, fit
from mogul.data import Batch
from mogul.errors import ConfigError
from mogul.models import build
from mogul.training import Run, Stopping
from mogul.training.defaults import preset
from mogul.training.loop import held_out_score
from mogul.training.split import split_rows

EPOCHS = 40


def waves(num_rows: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.linspace(-2, 2, num_rows, dtype=torch.float64)[:, None]
    y = torch.cat([torch.sin(2 * x), torch.cos(x)], dim=1)
    return x, y + 0.1 * torch.randn(y.shape, generator=generator, dtype=torch.float64)


def run_with(stopping: Stopping | None, until: int = EPOCHS, **settings) -> Run:
    data = Batch.of(*waves())
    model = build("mogp", data.x, 2, torch.Generator().manual_seed(1), num_inducing=10)
    config = TrainingConfig(epochs=EPOCHS, batch_size=30, stopping=stopping, **settings)
    run = Run(model, data, config, torch.Generator().manual_seed(2))
    run.train(until, lambda record: None)
    return run


def test_flat_means_no_better_than_before():
    stopping = Stopping(patience=3, tolerance=0.1)
    rising = [0.2 * step for step in range(10)]
    assert not stopping.is_flat(rising)
    assert not stopping.is_flat([1.0] * 5)  # too early to say
    assert stopping.is_flat([1.0] * 6)
    assert stopping.is_flat([*rising, *[2.0] * 6])
    assert stopping.is_flat([3.0, 2.0, 1.0, 0.0, 0.0, 0.0])


def test_falling_means_worse_than_before():
    stopping = Stopping(patience=3, tolerance=0.1)
    assert not stopping.is_falling([3.0, 2.0, 1.0, 0.0, 0.0])  # too early to say
    assert stopping.is_falling([3.0, 2.0, 1.0, 0.0, 0.0, 0.0])
    assert not stopping.is_falling([1.0, 1.0, 1.0, 0.95, 0.95, 0.95])


@pytest.mark.parametrize(
    ("gain", "held_out", "num_epochs"),
    [(-1.0, False, 8), (0.0, False, 6), (-1.0, True, 6)],
    ids=["falling", "flat", "held-out rows that fall"],
)
def test_only_an_elbo_that_falls_from_one_rate_to_another_has_the_next(gain, held_out, num_epochs, monkeypatch):
    """The clock of four rates, two epochs each, driven by a score that never rises."""
    run = run_with(None, until=1)
    monkeypatch.setattr("mogul.training.loop.held_out_score", lambda *arguments: gain * len(run.records))
    run._held_out = run._data if held_out else None
    last, stopping = run.records[-1], Stopping(patience=3, tolerance=0.1)
    run.config = TrainingConfig(epochs=8, milestones=(0.25, 0.5, 0.75), stopping=stopping)
    run._clock, run._watched, run.records = 0, [], []
    while run._clock < 8:
        rate, elbo = run.config.rate_at(run._clock), last.elbo + 120 * gain * len(run.records)  # 120 values
        run.records.append(replace(last, kl_weight=1.0, learning_rate=rate, elbo=elbo))
        run._tick()
    assert len(run.records) == num_epochs


@pytest.mark.parametrize(("gain", "num_epochs"), [(1.0, 40), (0.0, 20), (-1.0, 40)], ids=["rising", "flat", "falling"])
def test_on_a_cosine_only_what_stands_still_goes_on_sooner(gain, num_epochs):
    """Flat for 8 epochs, the clock goes halfway to the end: epochs 0 to 7, 24 to 31, and 36 to 39."""
    run = run_with(None, until=1)
    last = run.records[-1]
    run.config = TrainingConfig(epochs=40, schedule="cosine", stopping=Stopping(patience=4, tolerance=0.1))
    run._clock, run._watched, run.records = 0, [], []
    while run._clock < 40:
        rate, elbo = run.config.rate_at(run._clock), last.elbo + 120 * gain * len(run.records)
        run.records.append(replace(last, kl_weight=1.0, learning_rate=rate, elbo=elbo))
        run._tick()
    assert len(run.records) == num_epochs


@pytest.mark.parametrize("first", range(1, 9))
def test_a_rate_is_judged_by_epochs_of_its_own(first):
    """After so many epochs at one rate, another; the score rises until the fourth epoch, and is flat from there."""
    run = run_with(None, until=1)
    last = run.records[-1]
    run.config = TrainingConfig(epochs=20, milestones=(first / 20,), stopping=Stopping(patience=4, tolerance=0.1))
    run._clock, run._watched, run.records = 0, [], []
    while run._clock < 20:
        rate, elbo = run.config.rate_at(run._clock), last.elbo + 120 * min(len(run.records), 4)
        run.records.append(replace(last, kl_weight=1.0, learning_rate=rate, elbo=elbo))
        run._tick()
    at_the_last = sum(record.learning_rate == rate for record in run.records)
    assert at_the_last >= 4
    assert len(run.records) < 20


def test_without_it_all_epochs_are_used():
    assert len(run_with(None).records) == EPOCHS


def test_an_impatient_one_goes_through_all_rates_and_ends():
    records = run_with(Stopping(patience=1, tolerance=math.inf)).records
    assert len(records) == 2 * 4  # two epochs show a rate to be flat; there are four rates
    rates = [record.learning_rate for record in records]
    assert rates[::2] == rates[1::2] == pytest.approx([0.03 * 0.3**number for number in range(4)])
    assert [record.epoch for record in records] == list(range(8))


@pytest.mark.no_cover  # many steps on lines that other tests run too
def test_a_patient_one_changes_nothing():
    assert run_with(Stopping(tolerance=-math.inf)).objective == run_with(None).objective


@pytest.mark.parametrize("num_rows", [2_600, 15_000, 100_000])
def test_a_default_fit_ends_early_once_nothing_is_gained(num_rows):
    """The clock of a default configuration, driven by an objective that never changes."""
    config = preset("default", "n-sbgprn", num_rows=num_rows)
    run = run_with(None, until=1)
    last, run.config, run._clock, run._watched, run.records = run.records[-1], config, 0, [], []
    while run._clock < config.epochs:
        run.records.append(replace(last, kl_weight=1.0, learning_rate=config.rate_at(run._clock)))
        run._tick()
    assert len(run.records) < config.epochs


def test_annealing_is_not_cut_short():
    records = run_with(Stopping(patience=1, tolerance=math.inf), anneal_epochs=10).records
    assert [record.kl_weight for record in records[:10]] == sorted(record.kl_weight for record in records[:10])
    assert all(record.kl_weight == 1 for record in records[10:])
    assert len(records) == 10 + 2 * 4


def test_held_out_rows_are_not_trained_on_and_the_best_state_is_kept():
    data = Batch.of(*waves())
    stopping = Stopping(held_out=0.25, patience=2, tolerance=math.inf)
    known, held_out = (data.rows(torch.as_tensor(rows)) for rows in split_rows(60, stopping, None, seed=0))
    assert sorted([*known.index.tolist(), *held_out.index.tolist()]) == list(range(60))
    assert len(held_out) == 15
    model = build("mogp", known.x, 2, torch.Generator().manual_seed(1), num_inducing=10)
    config = TrainingConfig(epochs=20, batch_size=30, learning_rate=0.5, stopping=stopping)
    run = Run(model, known, config, torch.Generator().manual_seed(2), held_out=held_out)
    scores: list[float] = []
    run.train(20, lambda record: scores.append(held_out_score(run.model, held_out, torch.Generator())))
    best = held_out_score(run.model, held_out, torch.Generator())
    assert best == pytest.approx(max(scores))
    assert best > scores[0]


def test_of_many_held_out_rows_a_part_is_scored(monkeypatch):
    rows = Batch.of(*(part.double() for part in waves(60)))
    model = build("mogp", rows.x, 2, torch.Generator().manual_seed(1), num_inducing=4).double()
    monkeypatch.setattr("mogul.training.loop._MOST_ROWS", 20)
    part = rows.rows(torch.linspace(0, 59, 20).round().long())
    expected = held_out_score(model, part, torch.Generator())
    assert held_out_score(model, rows, torch.Generator()) == expected
    monkeypatch.undo()
    assert held_out_score(model, rows, torch.Generator()) != expected


def test_the_held_out_score_is_the_joint_normal_log_density_per_value():
    x, y = (part.double() for part in waves(6))
    y[2, 0] = math.nan
    rows = Batch.of(x, y)
    model = build("mogp", x, 2, torch.Generator().manual_seed(1), num_inducing=4).double()
    with torch.no_grad():
        model.head.mixing.log_scale.fill_(-20)  # a known matrix: outputs are jointly Normal
        q = model.prior(x, 1, torch.Generator())
        matrix = model.head.mixing.mean
        mean, cov = q.mean @ matrix.T, matrix * q.var.unsqueeze(1) @ matrix.T + model.head.noise.var.diag()
    total = 0.0
    for row in range(6):
        seen = rows.observed[row].numpy()
        normal = multivariate_normal(mean[row].numpy()[seen], cov[row].numpy()[np.ix_(seen, seen)])
        total += normal.logpdf(y[row].numpy()[seen])
    assert held_out_score(model, rows, torch.Generator()) == pytest.approx(total / 11, abs=1e-9)


def test_a_fit_with_held_out_rows_and_what_it_refuses():
    x, y = (part[torch.randperm(60, generator=torch.Generator().manual_seed(0))] for part in waves())
    config = TrainingConfig(epochs=3, num_starts=1, stopping=Stopping(held_out=0.2))
    assert fit(Dataset(x, y), model="mogp", config=config, noise="constant", num_inducing=8).predict(x).mean.shape == (
        60,
        2,
    )
    half = fit(
        Dataset(x, y),
        model="mogp",
        config=replace(config, stopping=Stopping(held_out=0.5)),
        noise="constant",
        num_inducing=8,
    )
    whole = fit(Dataset(x, y), model="mogp", config=replace(config, stopping=None), noise="constant", num_inducing=8)
    assert not torch.equal(half.model.mean.bias, whole.model.mean.bias)  # the plane has not seen them either
    with pytest.raises(ConfigError, match="held_out must be 0 with latent inputs"):
        fit(Dataset(None, y), model="mogp-lvm", config=config, num_inputs=1)
    with pytest.raises(ConfigError, match=r"held_out must be in \[0, 1\); got 1"):
        Stopping(held_out=1.0)
    with pytest.raises(ConfigError, match=r"must leave rows on both sides; 0\.1 of 4 rows is 0"):
        fit(
            Dataset(x[:4], y[:4]),
            model="mogp",
            config=TrainingConfig(epochs=1, stopping=Stopping(held_out=0.1)),
            noise="constant",
        )
    with pytest.raises(ConfigError, match="patience must be at least 1"):
        Stopping(patience=0)
