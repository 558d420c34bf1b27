"""Rows on disk: sums of one pass against NumPy's on all rows, and batches against those of rows in memory."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from tests.helpers.row_tables import TARGETS, frame, write

from mogul.data import Batch, Dataset, RowSource, Scaling, Share
from mogul.data.sources.row_files import RowFiles
from mogul.data.stored import HoldOut, Reservoir, Sample, StoredRows, gather, hashed
from mogul.errors import DataError, FileError
from mogul.means.linear import LinearOutputMean

TABLE = frame(3000)
HELD_OUT = HoldOut(0.1, seed=3)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    folder = tmp_path_factory.mktemp("rows")
    return gather(RowFiles.of(write(TABLE, folder), TARGETS), HELD_OUT, folder / "copy", sample_rows=500)


@pytest.fixture(scope="module")
def kept() -> Dataset:
    values = TABLE.to_numpy()
    values = values[~HELD_OUT.of(values, None)]
    return Dataset(values[:, :3], values[:, 3:])


@pytest.fixture(scope="module")
def stored(sample: Sample) -> StoredRows:
    return sample.everything.stored(torch.float64)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


class TestOnePass:
    """Scales and the linear mean are those of all rows that are trained on."""

    def test_scales(self, sample: Sample, kept: Dataset) -> None:
        own, whole = sample.everything.scaling, Scaling.of(kept)
        for side in ("inputs", "outputs"):
            for part in ("shift", "scale"):
                np.testing.assert_allclose(getattr(getattr(own, side), part), getattr(getattr(whole, side), part))
        assert sample.everything.num_rows == kept.num_rows == sample.population - len(sample.held_out)

    def test_linear_mean_is_least_squares(self, sample: Sample, kept: Dataset) -> None:
        mean = LinearOutputMean.of_sums(*sample.everything.totals.standardised())
        batch = Scaling.of(kept).batch(kept, torch.float64)
        for output in range(2):
            seen = batch.observed[:, output].numpy()
            a = np.column_stack([batch.x.numpy()[seen], np.ones(seen.sum())])
            found, *_ = np.linalg.lstsq(a, batch.y.numpy()[seen, output], rcond=None)
            np.testing.assert_allclose([*mean.weights[:, output], mean.bias[output]], found, atol=1e-6)
            residual = batch.y.numpy()[seen, output] - a @ found
            leverage = np.einsum("nk,kl,nl->n", a, np.linalg.inv(a.T @ a), a)
            left_out = np.sqrt(np.square(residual / (1 - leverage)).mean())
            assert float(mean.scale[output]) == pytest.approx(left_out, rel=1e-3)

    def test_constant_columns_and_columns_far_from_zero(self, tmp_path: Path) -> None:
        table = TABLE.assign(d=9.81, e=1e9 + TABLE["a"])
        files = RowFiles.of(write(table, tmp_path), TARGETS)
        inputs = gather(files, HoldOut(0.0, 0), tmp_path / "copy").everything.scaling.inputs
        assert inputs.scale[3] == 1.0
        assert inputs.scale[4] == pytest.approx(float((1e9 + TABLE["a"]).std(ddof=0)), rel=1e-6)

    def test_an_output_without_values_is_refused(self, tmp_path: Path) -> None:
        files = RowFiles.of(write(TABLE.assign(z=np.nan), tmp_path), TARGETS)
        with pytest.raises(DataError, match="at least one value; column 'z' is empty in all rows"):
            gather(files, HELD_OUT, tmp_path)


class TestHoldingOut:
    """The same rows are held out, however they are divided; whole groups are."""

    def test_a_hash_decides(self) -> None:
        values = TABLE.to_numpy()
        assert HELD_OUT.of(values, None).mean() == pytest.approx(0.1, abs=0.02)
        np.testing.assert_array_equal(HELD_OUT.of(values[::-1], None), HELD_OUT.of(values, None)[::-1])
        assert (HoldOut(0.1, seed=4).of(values, None) != HELD_OUT.of(values, None)).any()
        counts = np.bincount((hashed(values, 0) >> np.uint64(60)).astype(int), minlength=16)
        assert stats.chisquare(counts).pvalue > 1e-3
        assert hashed(np.array([[0.0, np.nan]]), 0) == hashed(np.array([[-0.0, -np.nan]]), 0)

    def test_groups_are_held_out_as_a_whole(self, tmp_path: Path) -> None:
        labels = [f"run {row % 10}" for row in range(len(TABLE))]
        files = RowFiles.of(write(TABLE.assign(run=labels), tmp_path), TARGETS, groups="run")
        hold_out = HoldOut.of_groups(files, 0.2, seed=0)
        assert len(hold_out.groups) == 2
        sample = gather(files, hold_out, tmp_path, sample_rows=500)
        assert sample.everything.num_rows == 2400
        of_groups = TABLE[np.isin(labels, list(hold_out.groups))]["a"]
        assert set(sample.x[sample.held_out, 0]) == set(of_groups)
        one = RowFiles.of(write(TABLE.assign(run="same"), tmp_path / "one"), TARGETS, groups="run")
        with pytest.raises(DataError, match="At least two groups"):
            HoldOut.of_groups(one, 0.2, seed=0)

    def test_a_sample_is_drawn_with_equal_probability(self) -> None:
        counts = np.zeros(100)
        for seed in range(300):
            reservoir = Reservoir(10, np.random.default_rng(seed))
            for part in np.array_split(np.arange(100.0)[:, None], 7):
                reservoir.add(part)
            assert (np.diff(reservoir.rows[:, 0]) > 0).all()
            counts[reservoir.rows[:, 0].astype(int)] += 1
        assert stats.chisquare(counts).pvalue > 1e-3


class TestBatches:
    """Rows on disk give the batches of rows in memory."""

    def whole(self, stored: StoredRows) -> Batch:
        (batch,) = stored.pieces(len(stored))
        return batch

    def test_all_rows_are_the_scaled_rows(self, stored: StoredRows, sample: Sample, kept: Dataset) -> None:
        batch = sample.everything.scaling.batch(kept, torch.float64)
        assert isinstance(stored, RowSource)
        assert isinstance(batch, RowSource)
        for part in ("x", "y", "observed"):
            assert torch.equal(getattr(self.whole(stored), part), getattr(batch, part))
        assert stored.num_observed == batch.num_observed

    def test_batches_are_those_of_rows_in_memory(self, stored: StoredRows) -> None:
        pairs = zip(self.whole(stored).minibatches(130, generator()), stored.minibatches(130, generator()), strict=True)
        for ours, theirs in pairs:
            for part in ("x", "y", "observed", "index"):
                assert torch.equal(getattr(ours, part), getattr(theirs, part))
        assert torch.equal(self.whole(stored).spread(50).x, stored.spread(50).x)

    @pytest.mark.parametrize("num_blocks", [7, 450, 2**20])
    def test_an_epoch_has_each_row_once(
        self, stored: StoredRows, num_blocks: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("mogul.data.stored._POOL_ROWS", 1000)
        some = replace(stored, num_blocks=num_blocks)
        batches = list(some.minibatches(130, generator()))
        assert {len(batch) for batch in batches} <= {127, 128, 129, 130}
        index = torch.cat([batch.index for batch in batches])
        assert torch.equal(index.sort().values, torch.arange(len(stored)))
        whole = self.whole(stored)
        assert all(torch.equal(batch.x, whole.x[batch.index]) for batch in batches)
        assert not torch.equal(index, torch.cat([batch.index for batch in some.minibatches(130, torch.Generator())]))

    @pytest.mark.parametrize("num_blocks", [40, 2**20])
    def test_shares_of_workers_are_the_batch(self, stored: StoredRows, num_blocks: int) -> None:
        some = replace(stored, num_blocks=num_blocks)
        shares = [some.minibatches(101, generator(), Share(rank, 3)) for rank in range(3)]
        for batch, *parts in zip(some.minibatches(101, generator()), *shares, strict=True):
            assert {len(part) - len(batch) // 3 for part in parts} <= {0, 1}
            assert set(torch.cat([part.index for part in parts]).tolist()) == set(batch.index.tolist())

    def test_the_copy_is_used_again_and_other_rows_have_their_own(
        self, stored: StoredRows, sample: Sample, tmp_path: Path
    ) -> None:
        before = stored.path.stat().st_mtime_ns
        assert sample.everything.stored(torch.float64).path.stat().st_mtime_ns == before
        files = RowFiles.of(write(frame(3000, seed=1), tmp_path), TARGETS)
        other = gather(files, HELD_OUT, stored.path.parent, sample_rows=500)
        assert other.everything.stored(torch.float64).path != stored.path

    def test_files_that_change_are_noticed(self, tmp_path: Path) -> None:
        folder = write(TABLE, tmp_path)
        sample = gather(RowFiles.of(folder, TARGETS), HELD_OUT, tmp_path / "copy")
        write(TABLE[:-500], folder)
        with pytest.raises(FileError, match="must stay as they are"):
            sample.everything.stored(torch.float32)
        assert not list((tmp_path / "copy").iterdir())

    def test_a_full_disk_is_refused_before_anything_is_written(
        self, sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        everything = replace(sample.everything, folder=tmp_path / "new")
        usage = type("Usage", (), {"free": 1000})
        monkeypatch.setattr("mogul.data.stored.shutil.disk_usage", lambda folder: usage)
        with pytest.raises(FileError, match="must have room for the scaled rows"):
            everything.stored(torch.float32)
