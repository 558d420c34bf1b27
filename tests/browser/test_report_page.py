"""The page of results in a real browser: `make test-browser`, apart from `make test`, which needs no browser."""

import os
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sample_results import KUKA, record, results_of, sample_results

from mogul.lab.experiments.record import Store
from mogul.lab.report.frame import Results, boards
from mogul.lab.report.page import write_report

pytestmark = pytest.mark.browser
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
BOARD = "#regression-kuka-random-fast"


def write(out: Path, results: Results) -> Path:
    return write_report(out, results, boards(results))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("results"), sample_results())


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as session:
        launched = session.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def opened(browser, report):
    """Opens the page at a size; after the test, nothing may have been complained of, and nothing asked for."""
    complaints, requests, contexts, pages = [], [], [], set()

    def intercept(route):
        url = route.request.url
        if url in pages or url.startswith(("data:", "blob:")):
            route.continue_()
        else:
            requests.append(url)
            route.abort()

    def open_page(width: int = 1366, height: int = 850, path: Path = report, **options):
        pages.add(path.as_uri())
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        context.route("**/*", intercept)
        page = context.new_page()
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else 0
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    assert requests == []


def labels(page, board: str = BOARD) -> list[str]:
    """The lines of a table as a reader sees them, from the top."""
    return page.locator(f"{board} tbody.line:visible > tr > th.name").evaluate_all(
        "cells => cells.map((cell) => cell.dataset.value)"
    )


def values(page, column: str) -> list[float]:
    found = page.locator(f"{BOARD} tbody.line:visible > tr:first-child > td.{column}")
    return [float(text) for text in found.evaluate_all("cells => cells.map((c) => c.dataset.value)") if text]


def heading(page, name: str):
    return page.locator(f"{BOARD} table.leaderboard > thead button", has_text=name).first


def test_every_figure_is_drawn_without_a_complaint(opened):
    page = opened()
    assert page.evaluate("typeof window.Plotly") == "undefined"  # nothing is drawn before it is looked at
    for details in page.locator("details.closer").all():
        details.evaluate("each => { each.open = true; }")
    for figure in page.locator("figure[data-figure]").all():
        figure.scroll_into_view_if_needed()
        figure.locator("xpath=self::*[@data-drawn]").wait_for()
        assert figure.locator(".main-svg").count() or figure.locator(".note").count()
    assert page.locator("figure[data-figure=latent] .colorbar").count() == 1  # coloured by outputs of the same rows
    assert page.locator("figure[data-figure=latent] .note").count() == 0
    assert page.locator("figure[data-figure=sweep] .main-svg").count()


def test_a_heading_sorts_and_says_so(opened):
    page = opened()
    assert values(page, "ll") == sorted(values(page, "ll"), reverse=True)
    heading(page, "MRMSE").click()
    assert values(page, "mrmse") == sorted(values(page, "mrmse"))
    sorted_by = page.locator(f"{BOARD} table.leaderboard > thead th[aria-sort]")
    assert sorted_by.count() == 1
    assert sorted_by.get_attribute("aria-sort") == "ascending"
    heading(page, "MRMSE").click()
    assert values(page, "mrmse") == sorted(values(page, "mrmse"), reverse=True)
    assert labels(page)[-1] in {"DK-N-SBGPRN", "MOGP", "GPRN", "SBGPRN", "N-MOGP"}  # what has no value stays last
    assert sorted_by.get_attribute("aria-sort") == "descending"


def test_sorting_and_opening_work_by_keyboard(opened):
    page = opened()
    heading(page, "Model").focus()
    page.keyboard.press("Enter")
    names = labels(page)
    assert names == sorted(names, key=str.lower)
    more = page.locator(f"{BOARD} button.more").first
    more.focus()
    page.keyboard.press("Space")
    assert more.get_attribute("aria-expanded") == "true"
    detail = page.locator(f"#{more.get_attribute('aria-controls')}")
    assert detail.is_visible()
    assert "mogul reproduce" in detail.inner_text()


def test_text_and_kinds_filter_every_table(opened):
    page = opened()
    everything = labels(page)
    page.locator("#filter-text").fill("linear n-")
    assert labels(page) == ["N-SBGPRN + linear", "N-MOGP + linear"]
    page.locator("#filter-text").fill("")
    page.locator("input[name=kind][value=baseline]").uncheck()
    page.locator("input[name=kind][value=paper]").uncheck()
    shown = page.locator(f"{BOARD} tbody.line:visible").evaluate_all("lines => lines.map((line) => line.dataset.kind)")
    assert set(shown) == {"model"}
    page.locator("#filter-text").fill("nothing is called so")
    assert labels(page) == []
    assert page.locator(f"{BOARD} .nothing").is_visible()
    assert page.locator("#filter-count").inner_text().startswith("0 of ")
    page.locator("#filter-text").fill("")
    for kind in ("baseline", "paper"):
        page.locator(f"input[name=kind][value={kind}]").check()
    assert labels(page) == everything


def test_a_command_is_copied(opened):
    page = opened(permissions=["clipboard-read", "clipboard-write"])
    page.locator(f"{BOARD} button.more").first.click()
    detail = page.locator(f"{BOARD} tr.detail:visible").first
    detail.locator("button.copy").first.click()
    detail.locator("button.copy", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == detail.locator("code").first.inner_text()


def test_another_model_and_output_can_be_chosen(opened):
    page = opened()
    board = page.locator(BOARD)
    board.locator("figure[data-figure=predictions]").scroll_into_view_if_needed()
    board.locator("figure[data-figure=predictions] .main-svg").first.wait_for()
    board.locator("select[data-choice=job]").select_option(label="least squares")
    assert "least-squares" in board.locator("[data-command]").inner_text()
    board.locator("figure[data-figure=curves]").scroll_into_view_if_needed()
    board.locator("figure[data-figure=curves] .note", has_text="No learning curve is kept of baselines.").wait_for()
    board.locator("select[data-choice=output]").select_option(label="next_qd7")
    board.locator("figure[data-figure=predictions] .xtitle", has_text="true next_qd7").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(opened, scheme):
    page = opened(390, 844, color_scheme=scheme, is_mobile=True, has_touch=True)
    page.locator(f"{BOARD} button.more").first.click()
    for place in (BOARD, f"{BOARD} .grid", "#hidden-units", "#failed"):
        page.locator(place).first.scroll_into_view_if_needed()
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_dark_and_light_differ(opened):
    colours = {
        opened(color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    }
    assert len(colours) == 2


def test_a_label_is_text_even_if_it_is_a_script(opened, tmp_path):
    evil = "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>"
    job = record(*KUKA[0], np.random.default_rng(0)) | {"label": evil, "command": evil}
    job["per_output"]["names"] = [evil, *job["per_output"]["names"][1:]]
    page = opened(path=write(tmp_path, results_of([job])))
    page.locator("figure[data-figure=outputs]").scroll_into_view_if_needed()
    page.locator("figure[data-figure=outputs] .main-svg").first.wait_for()
    assert page.locator("th.name[data-value]").inner_text().startswith(evil)
    assert page.locator("[data-command]").inner_text() == evil
    assert page.evaluate("typeof window.ran") == "undefined"


def test_a_screenshot_is_kept(opened, report, tmp_path):
    """In the documentation of the run in the folder MOGUL_RUN; where none is named, elsewhere, of sample numbers."""
    has_results = "MOGUL_RUN" in os.environ
    screenshot = (Path(__file__).parents[2] / "docs" if has_results else tmp_path) / "report.png"
    if has_results:
        records = Store(Path(os.environ["MOGUL_RUN"])).read().values()
        report = write(tmp_path / "results", Results.of(records))
    page = opened(1366, 1400, path=report)
    board = page.locator(".board").first
    board.locator(".grid").scroll_into_view_if_needed()
    board.locator("figure .main-svg").first.wait_for()
    board.evaluate("each => each.scrollIntoView({behavior: 'instant'})")
    if not has_results:
        said = page.locator(".filter output")
        said.evaluate("each => { each.innerHTML = '<b class=failed>made-up sample numbers</b>'; }")
    page.wait_for_timeout(1000)
    page.screenshot(path=screenshot)
    assert screenshot.read_bytes().startswith(b"\x89PNG")
