"""The page of results, without a browser: structure, escaping, nothing from elsewhere, missing pieces."""

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sample_results import KUKA, ROWS, record, results_of, sample_results

from mogul.lab.report import page
from mogul.lab.report.frame import Results, boards
from mogul.lab.report.page import plotly_source


class Elements(HTMLParser):
    """Every element with its attributes, and whether each is closed in turn."""

    VOID = frozenset({"meta", "input", "br", "link", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        named = [attributes for name, attributes in self.found if name == tag]
        return [
            each for each in named if all((each.get(key) or "").split().count(value) for key, value in wanted.items())
        ]


@pytest.fixture(autouse=True, scope="module")
def small_plotly():
    """plotly.js itself is five megabytes that no test here reads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "plotly_source", lambda: "var Plotly = {};")
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def write(out: Path, results: Results) -> str:
    return page.write_report(out, results, boards(results)).read_text(encoding="utf-8")


def written(out: Path, *jobs: dict) -> str:
    return write(out, results_of(jobs))


def kuka(rng, place: int = 0, **changes) -> dict:
    return record(*KUKA[place], rng) | changes


@pytest.fixture(scope="module")
def elements(tmp_path_factory) -> Elements:
    """A page of everything."""
    return Elements(write(tmp_path_factory.mktemp("results"), sample_results(num_rows=5)))


def test_every_experiment_has_a_section_and_every_table_a_board(elements):

    assert elements.open == []
    sections = {each["id"] for each in elements.all("section") if "id" in each}
    assert {"regression", "unsupervised", "hidden-units", "small-data", "missing-outputs", "failed"} <= sections
    boards = [each["id"] for each in elements.all("section", **{"class": "board"})]
    assert boards[:3] == [f"regression-{place}-fast" for place in ("kuka-random", "kuka-groups", "halfcheetah-random")]
    assert len(elements.all("table", **{"class": "leaderboard"})) == len(boards)
    anchors = {each["href"][1:] for each in elements.all("a") if (each.get("href") or "").startswith("#")}
    assert anchors - {"main"} <= sections


def test_ids_are_unique_and_controls_point_to_them(elements):

    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {each["aria-controls"] for each in elements.all("button", **{"class": "more"})} <= set(ids)


def test_splits_are_averaged_and_every_job_shows_its_command(tmp_path, rng):
    jobs = [kuka(rng, seed=seed, split_label=f"random {seed}", command=f"mogul run --seed {seed}") for seed in range(3)]
    for job, ll in zip(jobs, (1.0, 2.0, 6.0), strict=True):
        job["metrics"]["ll"] = ll
    text = written(tmp_path, *jobs)
    assert "3.00 ± 2.65" in text
    for seed in range(3):
        assert f"mogul run --seed {seed}</code>" in text


def test_text_of_records_is_never_markup(tmp_path, rng):
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    job = kuka(rng, label=evil, preset=evil, dataset=evil, command=evil, split_label=evil, experiment=evil)
    job["per_output"]["names"][0] = evil
    job["settings"][evil] = 1
    failed = kuka(rng, label=evil, error=evil, metrics={})
    text = written(tmp_path, job, failed)
    elements = Elements(text)
    assert elements.open == []
    assert evil not in text
    assert elements.all("img") == []
    assert len(elements.all("script")) == 3 + len(elements.all("script", **{"class": "data"}))
    assert html.escape(evil) in text


def test_only_named_scripts_may_run_and_nothing_may_be_fetched(tmp_path, rng):
    text = written(tmp_path, kuka(rng))
    elements = Elements(text)
    (policy,) = [each["content"] for each in elements.all("meta") if each.get("http-equiv")]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1]
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    scripts += re.findall(r'<script type="text/plain" id="plotly">(.*?)</script>', text, flags=re.DOTALL)
    assert len(scripts) == 3
    for script in scripts:
        assert page._hash(script) in policy
    for tag, attributes in elements.found:
        assert not {"src", "onclick", "onload", "onerror"} & set(attributes), tag
        assert (attributes.get("href") or "#").startswith("#")
    assert "@import" not in text
    assert not re.search(r"https?://", text)


def test_plotly_may_stand_in_a_script_element():
    source = plotly_source()
    assert "plotly.js" in source[:200]
    assert "</script" not in source.lower()
    assert "<!--" not in source


def test_the_papers_figures_are_shown_for_its_own_data_and_split_only(tmp_path, rng):
    text = written(tmp_path, kuka(rng))
    assert text.count('data-kind="paper"') == 1
    assert "15.64 ± 0.40" in text
    assert "15.64" not in written(tmp_path, kuka(rng, split=ROWS | {"kind": "groups"}, split_label="by trajectory"))


@pytest.mark.parametrize("dataset", ["halfcheetah", "rhythmic-arm", "sarcos-test", "baxter-rand"])
def test_a_stand_in_is_named_so_and_never_beside_the_papers_number(tmp_path, rng, dataset):
    text = written(tmp_path, kuka(rng, dataset=dataset))
    assert "15.64" not in text
    assert 'data-kind="paper"' not in text
    assert "A stand-in for" in text


def test_the_gap_to_the_paper_is_in_its_standard_deviations(tmp_path, rng):
    job = kuka(rng)
    job["metrics"]["ll"] = 14.84
    assert "−2.0 sd" in written(tmp_path, job)


def test_a_failed_job_is_shown_as_failed_with_its_command(tmp_path, rng):
    text = written(tmp_path, kuka(rng), kuka(rng, 1, error="NumericalError: NaN", metrics={}, command="mogul again"))
    assert text.count("NumericalError: NaN") == 2  # in its table, and among all that failed
    assert 'href="#failed"' in text
    assert text.count("mogul again</code>") == 2


@pytest.mark.parametrize("part", ["per_output", "calibration", "predictions", "versions"])
def test_any_part_of_a_record_may_be_empty(tmp_path, rng, part):
    assert "MOGP" in written(tmp_path, kuka(rng) | {part: {}})


def test_numbers_that_are_not_finite_become_nothing(tmp_path, rng):
    job = kuka(rng)
    job["predictions"]["mean"][0][0] = float("inf")
    job["curve"][0]["elbo"] = float("-inf")
    text = written(tmp_path, job)
    data = re.search(r'class="data">(.*?)</script>', text, flags=re.DOTALL)
    assert data is not None
    found = json.loads(data[1], parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert found["jobs"][0]["predictions"]["error"][0][0] is None
    assert found["jobs"][0]["curve"]["elbo"][0] is None


def test_small_errors_of_large_values_keep_their_digits(tmp_path, rng):
    job = kuka(rng)
    job["predictions"] = {"true": [[12345.6789]], "mean": [[12345.6801]], "std": [[0.001]]}
    (data,) = re.findall(r'class="data">(.*?)</script>', written(tmp_path, job), flags=re.DOTALL)
    assert json.loads(data)["jobs"][0]["predictions"]["error"] == [[pytest.approx(0.0012, rel=1e-3)]]


def test_a_folder_without_results_gives_a_page_that_says_so(tmp_path):
    text = written(tmp_path / "new")
    assert "No job has finished yet" in text


def test_the_page_is_replaced_whole(tmp_path, rng):
    job = kuka(rng)
    assert written(tmp_path, job) == written(tmp_path, job)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def data_of(text: str) -> list[dict]:
    """What the figures of each table are drawn from."""
    return [json.loads(data) for data in re.findall(r'class="data">(.*?)</script>', text, flags=re.DOTALL)]


def test_presets_are_ranked_apart(tmp_path, rng):
    """A model that trained 20 times as long says nothing about the others of a fast table."""
    jobs = [kuka(rng), kuka(rng, 1), kuka(rng, preset="paper")]
    text = written(tmp_path, *jobs)
    boards = [each["id"] for each in Elements(text).all("section", **{"class": "board"})]
    assert boards == ["regression-kuka-random-fast", "regression-kuka-random-paper"]
    fast, slow = text.split('<section class="board"')[1:]
    assert "<h3>kuka, random rows, preset fast, " in fast
    assert "<h3>kuka, random rows, preset paper, " in slow
    assert (fast.count('data-kind="model"'), slow.count('data-kind="model"')) == (2, 1)
    assert (fast.count('data-kind="paper"'), slow.count('data-kind="paper"')) == (2, 1)  # of what was run


@pytest.mark.parametrize("units", ["standardised", "original"])
def test_a_title_tells_rows_and_the_units_of_its_own_scores(tmp_path, rng, units):
    config = {"units": units, "noise_floor": "none"}
    text = written(tmp_path, kuka(rng, experiment="synthetic", config=config))
    assert f"<span>15,068 training and 5,000 test rows, {units} units</span></h3>" in text
    other = "original" if units == "standardised" else "standardised"
    assert f"{other} units" not in text


def test_a_latent_map_is_coloured_by_the_outputs_of_the_same_rows(tmp_path, rng):
    outputs = [[float(row), -float(row)] for row in range(7)]
    latent = {"mean": [[row, 0.0] for row in range(7)], "scale": [[0.1, 0.1]] * 7, "outputs": outputs}
    jobs = [kuka(rng, place, latent=latent) for place in (0, 1)]
    jobs[1]["predictions"] = jobs[0]["predictions"]
    (data,) = data_of(written(tmp_path, *jobs))
    first, second = (job["latent"]["truth"] for job in data["jobs"])
    assert first == second  # kept once
    assert data["truths"][first] == [list(column) for column in zip(*outputs, strict=True)]
    assert len(data["truths"]) == 2


def test_a_latent_map_without_outputs_is_not_coloured_by_those_of_test_rows(tmp_path, rng):
    num_rows = len(kuka(rng)["predictions"]["true"])
    (data,) = data_of(written(tmp_path, kuka(rng, latent={"mean": [[0.0, 1.0]] * num_rows})))
    assert data["jobs"][0]["latent"]["truth"] is None


def test_captions_say_what_is_drawn(tmp_path, rng):
    text = written(tmp_path, kuka(rng, latent={"mean": [[0.0, 1.0]] * 3}))
    assert "bars are ± 1.96 standard deviations" in text
    assert "latent inputs of training rows" in text
    for untrue in ("hold 95", "test rows in the latent space", "trained by steps"):
        assert untrue not in text


def test_records_of_many_rows_stay_small(tmp_path, rng):
    job = kuka(rng)
    assert len(written(tmp_path, job)) < 120_000
    assert len(json.dumps(job)) > 120_000
