"""Names, ids and texts of edits that carry script, separators, control characters: shown as text, never a way out of a folder."""

import csv
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from image_copies.data.procedural import draw_picture
from image_copies.data.sources.walking import MARK
from image_copies.pipeline.match import main as match
from image_copies.pipeline.steps.embed import embed_folder
from image_copies.pipeline.steps.score_files import compare, score_file
from image_copies.submissions.formats.submission import write_submission
from image_copies.submissions.vectors.files import Vectors, read_vectors
from tests.end_to_end.pages import open_watched

if TYPE_CHECKING:
    from playwright import sync_api

SCRIPT = "<img src=x onerror=alert(1)>"
NAMES = [
    *(f"{SCRIPT}.png", "\"'><script>alert(2)<&#47;script>.png", "two\nlines\r.png", "tab\t\x1b[31m.png", "dots.. ...png"),
    *("back\\..\\..\\slash.png", "%2e%2e%2fescape.png", "=cmd|' !A1.png", " space .png", "\u202egnp.exe.png", "é" * 120 + ".png"),
    *("{{ 7*7 }}.png", "-rf.png", os.fsdecode(b"latin-\xe9\xff.png")),
]
IDS = [
    f"Q{SCRIPT}",
    "../../../outside",
    "/tmp/outside",
    "a\nb",
    "x" * 10_000,
    "{{ 7*7 }}",
    '"><svg onload=alert(3)>',
    "..",
    "C:\\x",
]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two copies of every picture, in folders with names like theirs."""
    root = tmp_path_factory.mktemp("names") / "pictures"
    for folder in ("one<b>", "two&amp;"):
        (root / folder).mkdir(parents=True)
        for number, name in enumerate(NAMES):
            image = Image.fromarray(draw_picture(np.random.default_rng(number), 64))
            image.save(root / folder / name, "PNG", compress_level=len(folder))
    return root


@pytest.fixture(scope="module")
def matched(pictures: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("matched") / "out"
    arguments = ["--checkpoint", str(checkpoint), "--threshold", "-0.0001", "--queries", str(pictures), "--output", str(folder)]
    assert match([*arguments, "--quiet"]) == 0
    return folder


def files_below(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


def test_any_name_is_embedded_and_listed(pictures: Path, checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    embed_folder(checkpoint, pictures, tmp_path / "out" / "v.h5", workers=0)
    found = read_vectors(tmp_path / "out" / "v.h5")
    assert len(found) == 2 * len(NAMES) and not found.unreadable.any() and any("\\xe9\\xff" in each for each in found.ids)
    assert files_below(tmp_path) == {str(tmp_path / "out"), str(tmp_path / "out" / "v.h5")}


def test_any_name_is_matched_and_stays_in_its_folder(pictures: Path, matched: Path) -> None:
    assert {path.name for path in matched.parent.iterdir()} == {"out"}
    with (matched / "matches.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= len(NAMES) and any("two\nlines\r" in row["query"] for row in rows)
    named = {path.relative_to(matched / "gallery").as_posix() for path in (matched / "gallery").rglob("*")}
    own = rf"{re.escape(MARK)}|index\.html|(sure|look|doubtful)-\d\.html|images|images/\d{{5}}\.jpg"
    assert [name for name in named if not re.fullmatch(own, name)] == []


def test_the_gallery_runs_no_script_of_a_name(matched: Path, browser: "sync_api.Browser") -> None:
    shown = " ".join(opened(browser, page) for page in sorted((matched / "gallery").glob("*.html")))
    assert SCRIPT in shown and "<script>alert(2)" in shown and "{{ 7*7 }}" in shown


def opened(browser: "sync_api.Browser", page: Path) -> str:
    """The text that a page shows; fails where anything runs, or an element came out of a name."""
    with open_watched(browser, page.as_uri(), beside="file:") as shown:
        shown.wait_for_timeout(300)
        assert shown.locator("script, svg[onload], img[onerror], iframe, img[src='x']").count() == 0
        return str(shown.evaluate("document.body.textContent"))


def submitted(folder: Path) -> tuple[Path, Path, Path]:
    """Two submissions with hostile ids, and their ground truth."""
    rng = np.random.default_rng(0)
    paths = []
    for name in ("a<i>.h5", "b.h5"):
        queries, references = (
            Vectors(sorted(IDS), rng.standard_normal((len(IDS), 8)).astype(np.float32), np.zeros(len(IDS), bool))
            for _ in range(2)
        )
        write_submission(folder / name, queries, references)
        paths.append(folder / name)
    with (folder / "truth.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("query_id", "reference_id"), *zip(IDS, IDS, strict=True)])
    with (folder / "edits.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("query_id", "edits"), *((each, f"crop {SCRIPT.replace(' ', '/')}") for each in IDS)])
    return paths[0], paths[1], folder / "truth.csv"


def test_hostile_ids_are_scored_and_write_nothing_elsewhere(tmp_path: Path) -> None:
    inside = tmp_path / "deep" / "er" / "inside"
    inside.mkdir(parents=True)
    first, second, truth = submitted(inside)
    score_file(first, truth, inside / "scores.json", inside / "details", inside / "edits.csv")
    compare([first, second], ground_truth=truth)
    assert files_below(tmp_path) - files_below(inside) == {str(path) for path in (inside, inside.parent, inside.parent.parent)}
    assert not Path("/tmp/outside").exists()
