"""The reports and the comparison as a person opens them: from disk, in headless Chromium, light and dark, wide and narrow."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
import pytest

from image_copies.data.procedural import write_pictures
from image_copies.matching.matches import Match, Matches, Rule
from image_copies.matching.results.gallery import write_matches_page
from image_copies.matching.threshold import Tail
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.ensemble.variant import write_choice
from image_copies.submissions.formats.matching_track import write_pairs
from image_copies.submissions.formats.submission import write_submission
from image_copies.submissions.vectors.files import Vectors, write_vectors

if TYPE_CHECKING:
    from playwright import sync_api

Scheme = Literal["light", "dark"]

QUERIES, COPIES, REFERENCES = 40, 24, 30
RECIPE = """
baselines: false
models:
  net:
    descriptor: {backbone: test_efficientnet, dimensions: 16}
    stages: [{image_size: 32}]
normalization: {direction_neighbours: 10}
"""
CURVE = "stage,epoch,loss,scale,validation,ended_by,warning\n1,1,9,16,,,\n1,2,5,17,0.2,loss,\n2,1,7,18,,,\n2,2,4,19,0.4,epochs,\n"
SCROLL = """async () => { for (const image of document.images) {
    image.scrollIntoView();
    await new Promise(done => requestAnimationFrame(done));
} }"""


def write_run(folder: Path, data: Path, noise: float, seed: int) -> None:
    """All that step 06 reads; the first COPIES queries are references with noise, every seventh too much of it."""
    rng = np.random.default_rng(0)
    references = scale_to_unit_length(rng.standard_normal((REFERENCES, 16)).astype(np.float32))
    rng = np.random.default_rng(seed)
    queries = scale_to_unit_length(rng.standard_normal((QUERIES, 16)).astype(np.float32))
    strength = np.where(np.arange(COPIES) % 7 == 0, 9, noise)[:, None].astype(np.float32)
    queries[:COPIES] = scale_to_unit_length(references[:COPIES] + strength * queries[:COPIES])
    parts = {
        "query": ([f"Q{row:06d}" for row in range(QUERIES)], queries),
        "reference": ([f"R{row:06d}" for row in range(REFERENCES)], references),
        "training": (
            [f"T{row:06d}" for row in range(20)],
            scale_to_unit_length(rng.standard_normal((20, 16)).astype(np.float32)),
        ),
    }
    for name, (ids, vectors) in parts.items():
        for place in ("embeddings/net", "ensemble"):
            write_vectors(folder / place / f"{name}.h5", ids, [vectors])
    moved = queries * 1.1
    write_vectors(folder / "normalized" / "query.h5", parts["query"][0], [moved])
    marks = np.zeros(QUERIES, bool), np.zeros(REFERENCES, bool)
    write_submission(
        folder / "submission.h5",
        Vectors(parts["query"][0], moved, marks[0]),
        Vectors(parts["reference"][0], references, marks[1]),
    )
    write_pairs(folder / "matches.csv", [(parts["query"][0][row], f"R{row:06d}", -row / COPIES) for row in range(COPIES)])
    row = {"dimensions": 16, "eigen_power": 0.0, "method": "method1", "beta": 1.0, "weights": "1", "micro_average_precision": 0.5}
    write_choice(folder / "ensemble" / "choice.csv", pd.DataFrame([row]))
    (folder / "ensemble" / "synthetic_board.csv").write_text("kind,name,micro_average_precision\nsubmitted,submitted: 16-d,0.5\n")
    (folder / "models" / "net").mkdir(parents=True)
    (folder / "models" / "net" / "curve.csv").write_text(CURVE)
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "run.json").write_text(f'{{"data": "{data}"}}')


@pytest.fixture(scope="module")
def pages(
    tmp_path_factory: pytest.TempPathFactory, run_command: Callable[..., subprocess.CompletedProcess[str]]
) -> dict[str, Path]:
    """A run's report with and without ground truth and its comparison with another run, written by step 06."""
    where = tmp_path_factory.mktemp("pages")
    data = where / "data"
    for name, prefix, count in (
        ("training_images", "T", 20),
        ("reference_images", "R", REFERENCES),
        ("query_images", "Q", QUERIES),
    ):
        list(write_pictures(data / name, prefix, count, seed=1, workers=1))
    rows = [f"Q{row:06d},{f'R{row:06d}' if row < COPIES else ''}\n" for row in range(QUERIES)]
    (data / "public_ground_truth.csv").write_text("query_id,reference_id\n" + "".join(rows))
    edits = [f"Q{row:06d},{'crop blur' if row % 2 else 'rotate'}\n" for row in range(QUERIES)]
    (data / "query_edits.csv").write_text("query_id,edits\n" + "".join(edits))
    (data / "reference_images" / "R000007.jpg").write_bytes(b"this is no image")
    write_run(where / "good", data, 0.5, seed=1)
    write_run(where / "other", data, 1.5, seed=2)
    unscored = shutil.copytree(data, where / "unscored data")
    (unscored / "public_ground_truth.csv").unlink()
    write_run(where / "unscored", unscored, 0.5, seed=1)
    for run, *arguments in (("good",), ("good", "--compare", str(where / "other")), ("unscored",)):
        done = run_command(where, "06_score", "--run", where / run, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
    return {
        "report": where / "good/report/index.html",
        "unscored": where / "unscored/report/index.html",
        "comparison": where / "good/compare/other/index.html",
        "matches": write_matches(where / "matches", data),
    }


def write_matches(folder: Path, data: Path) -> Path:
    """The matcher's gallery, with one query of a hostile name."""
    strange = data / "queries" / f"{'long' * 30} <img src=x onerror=alert(1)>\n.jpg"
    strange.parent.mkdir()
    shutil.copy(data / "query_images" / "Q000000.jpg", strange)
    queries = [strange, *sorted((data / "query_images").iterdir())[:COPIES]]
    references = sorted((data / "reference_images").iterdir())[: len(queries)]
    pairs = [Match(query, reference, -0.1, 1e-5) for query, reference in zip(queries, references, strict=True)]
    matches = Matches(pairs, -0.5, QUERIES, REFERENCES, [references[7], strange])
    return write_matches_page(folder, matches, Rule(None, Tail(1, 0.1, 0.01, 1000), 0.001, 10))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", ["report", "unscored", "comparison", "matches"])
def test_a_page_opens_from_disk_whole(
    browser: "sync_api.Browser", pages: dict[str, Path], tmp_path: Path, name: str, width: int, scheme: Scheme
) -> None:
    """No message on the console, every image loads, nothing is asked of a network, nothing is wider than the screen."""
    folder = shutil.copytree(pages[name].parent, tmp_path / "copied away")
    troubles: list[str] = []
    with browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme) as context:
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text))
        page.on("requestfailed", lambda request: troubles.append(f"failed: {request.url}"))
        page.on("request", lambda r: troubles.extend([] if r.url.startswith(folder.as_uri()) else [f"request to {r.url}"]))
        page.goto((folder / "index.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ink, ground = (page.evaluate(f"getComputedStyle(document.body).{style}") for style in ("color", "backgroundColor"))
        assert (
            (_lightness(ground) < 60 < 200 < _lightness(ink)) if scheme == "dark" else (_lightness(ink) < 60 < _lightness(ground))
        )
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert page.locator("img").count() > 20 and page.locator("img:not([loading=lazy])").count() == 0
        page.evaluate(SCROLL)
        page.wait_for_function("[...document.images].every(image => image.complete && image.naturalWidth > 0)", timeout=10_000)
    assert troubles == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_take_the_colours_of_the_page(browser: "sync_api.Browser", pages: dict[str, Path], scheme: Scheme) -> None:
    with browser.new_context(color_scheme=scheme) as context:
        page = context.new_page()
        page.goto(pages["report"].as_uri())
        names = page.locator("figure.chart").evaluate_all("charts => charts.map(chart => chart.getAttribute('aria-label'))")
        assert names == [
            "µAP of every step",
            "precision over recall",
            "distribution of scores, before normalisation",
            "distribution of scores, after normalisation",
            "training of net",
        ]
        ink = page.evaluate("getComputedStyle(document.body).color")
        texts = page.locator("figure.chart text").evaluate_all(
            "all => [...new Set(all.map(text => getComputedStyle(text).fill))]"
        )
        assert texts == [ink]


def test_the_report_tells_what_the_run_did(browser: "sync_api.Browser", pages: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(pages["report"].as_uri())
    text = page.inner_text("body")
    for expected in (
        "Every step", "model: net", "submitted: 16-d", "Hardest misses", "ranked above it", "Most confident false alarms",
        "the query copies nothing", "Recall by edit", "crop blur", "loss", "recall 0.", "direction_neighbours", "Python 3",
    ):  # fmt: skip
        assert expected in text, expected
    page.close()


def test_the_comparison_tells_what_was_won(browser: "sync_api.Browser", pages: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(pages["comparison"].as_uri())
    figures = dict(line.split("\n")[::-1] for line in page.locator(".figure").all_inner_texts())
    won, lost = int(figures["copies won"]), int(figures["copies lost"])
    pairs = pd.read_csv(pages["comparison"].parent / "pairs.csv")
    assert won == ((pairs["second_found"] == 1) & (pairs["first_found"] == 0)).sum() > 0
    assert lost == ((pairs["second_found"] == 0) & (pairs["first_found"] == 1)).sum()
    assert won + lost + int(figures["found by both"]) + int(figures["found by neither"]) == COPIES
    gallery = page.locator("h2:has-text('Won by good') ~ .gallery").first
    assert gallery.locator(".pair").count() == min(won, 12)
    page.close()


def _lightness(colour: str) -> int:
    """The largest channel of rgb(…), 0…255."""
    return max(int(number) for number in colour.removeprefix("rgb(").removesuffix(")").split(",")[:3])
