"""The reports as a person opens them: from disk, in headless Chromium, light and dark, wide and narrow."""

import shutil
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from image_copies.matching.matches import Match, Matches, Rule
from image_copies.matching.show.gallery import write_matches_page
from image_copies.matching.threshold import Tail
from image_copies.submissions.report.inputs import ReportInputs, RunInputs, UnscoredInputs
from image_copies.submissions.report.page import write_report, write_unscored_report
from tests.end_to_end.pages import open_watched
from tests.reports import make_inputs

if TYPE_CHECKING:
    from playwright import sync_api

Scheme = Literal["light", "dark"]

QUERIES, COPIES = 16, 14
SCROLL = """async () => { for (const image of document.images) {
    image.scrollIntoView();
    await new Promise(done => requestAnimationFrame(done));
} }"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run's report with and without ground truth, and the matcher's gallery."""
    where = tmp_path_factory.mktemp("pages")
    (where / "data").mkdir()
    good = make_inputs(where / "data", QUERIES, COPIES, 0.2)
    names = [(f"Q{row}", f"R{row}", -row / COPIES) for row in range(1, COPIES)]
    common = {field.name: getattr(good, field.name) for field in fields(RunInputs)}
    return {
        "report": write_report(good, where / "report"),
        "unscored": write_unscored_report(UnscoredInputs(pairs=names, **common), where / "unscored"),
        "matches": write_matches(where / "matches", good),
    }


def write_matches(folder: Path, inputs: ReportInputs) -> Path:
    """The matcher's gallery, with one query of a hostile name."""
    strange = inputs.queries.paths[0].with_name(f"{'long' * 30} <img src=x onerror=alert(1)>\n.png")
    shutil.copy(inputs.queries.paths[0], strange)
    queries, references = [strange, *inputs.queries.paths[:COPIES]], inputs.references.paths[: COPIES + 1]
    pairs = [Match(query, reference, -0.1, 1e-5) for query, reference in zip(queries, references, strict=True)]
    matches = Matches(pairs, -0.5, QUERIES, QUERIES, [references[7], strange])
    return write_matches_page(folder, matches, Rule(None, Tail(1, 0.1, 0.01, 1000), 0.001, 10))


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
@pytest.mark.parametrize("name", ["report", "unscored", "matches"])
def test_a_page_opens_from_disk_whole(
    browser: "sync_api.Browser", pages: dict[str, Path], tmp_path: Path, name: str, width: int, scheme: Scheme
) -> None:
    """No message on the console, every image loads, nothing is asked of a network, nothing is wider than the screen."""
    folder = shutil.copytree(pages[name].parent, tmp_path / "copied away")
    shown: dict[str, Any] = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with open_watched(browser, (folder / "index.html").as_uri(), console=True, beside=folder.as_uri(), **shown) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ink, ground = (page.evaluate(f"getComputedStyle(document.body).{style}") for style in ("color", "backgroundColor"))
        assert (
            (_lightness(ground) < 60 < 200 < _lightness(ink)) if scheme == "dark" else (_lightness(ink) < 60 < _lightness(ground))
        )
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert page.locator("img").count() > 20 and page.locator("img:not([loading=lazy])").count() == 0
        page.evaluate(SCROLL)
        page.wait_for_function("[...document.images].every(image => image.complete && image.naturalWidth > 0)", timeout=10_000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_take_the_colours_of_the_page(browser: "sync_api.Browser", pages: dict[str, Path], scheme: Scheme) -> None:
    with browser.new_context(color_scheme=scheme) as context:
        page = context.new_page()
        page.goto(pages["report"].as_uri())
        names = page.locator("figure.chart").evaluate_all("charts => charts.map(chart => chart.getAttribute('aria-label'))")
        assert names == ["precision over recall", "training of net <b>$1$"]
        ink = page.evaluate("getComputedStyle(document.body).color")
        texts = page.locator("figure.chart text").evaluate_all(
            "all => [...new Set(all.map(text => getComputedStyle(text).fill))]"
        )
        assert texts == [ink]


def _lightness(colour: str) -> int:
    """The largest channel of rgb(…), 0…255."""
    return max(int(number) for number in colour.removeprefix("rgb(").removesuffix(")").split(",")[:3])
