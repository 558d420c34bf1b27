"""What a job leaves behind."""

import json
from dataclasses import replace

import pytest
from tests.helpers.small_jobs import record

from mogul.errors import DataError
from mogul.lab.experiments.record import Record


def test_a_record_comes_back_from_json_as_it_was() -> None:
    stored = record(settings={"num_hidden": 8}, latent={"mean": [[0.1]], "scale": [[1.0]]}, commit="abc")
    assert Record.from_json(json.loads(json.dumps(stored.to_json()))) == stored


def test_its_json_has_the_fields_that_the_page_reads() -> None:
    assert set(record().to_json()) == {
        *("format", "experiment", "dataset", "split", "split_label", "label", "kind", "model", "settings", "preset"),
        *("seed", "metrics", "per_output", "calibration", "predictions", "curve", "latent", "command", "config"),
        *("versions", "commit", "seconds", "error"),
    }


def test_records_that_differ_in_what_is_averaged_or_compared_have_files_of_their_own() -> None:
    records = [
        record(),
        record(seed=1),
        record(seed=None),
        record("MOGP + linear"),
        record("DGP (L′ = L)"),
        record(preset="paper"),
        record(dataset="f-baxter"),
        record(settings={"num_hidden": 4}),
        record(settings={"num_hidden": 8}),
        record(experiment="hidden-units"),
    ]
    assert len({each.slug for each in records}) == len(records)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metrics": {"ll": float("nan")}}, "metrics must be finite numbers; ll is nan"),
        ({"metrics": {"score": 1.0}}, "score is not one of them"),
    ],
)
def test_what_cannot_be_a_result_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        record(**change)


def test_a_failed_job_needs_no_metrics() -> None:
    assert replace(record(), metrics={}, error="no luck").error == "no luck"
    with pytest.raises(DataError, match="ll is missing"):
        replace(record(), metrics={})


@pytest.mark.parametrize("content", [[1], {"format": 2}, {}])
def test_what_is_not_a_record_is_refused(content: object) -> None:
    with pytest.raises(DataError, match="must have format 1"):
        Record.from_json(content)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("kind", "guess", "kind must be one of model, baseline; got 'guess'"),
        ("seed", "0", "seed must be a whole number; got '0'"),
        ("metrics", [], r"metrics must be an object; got \[\]"),
        ("error", 3, "error must be text; got 3"),
    ],
)
def test_a_record_whose_fields_were_changed_is_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Record.from_json(record().to_json() | {name: value})


def test_a_record_with_other_fields_is_refused() -> None:
    content = record().to_json()
    del content["label"]
    with pytest.raises(DataError, match="label differs"):
        Record.from_json(content)
