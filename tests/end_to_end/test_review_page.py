"""The review page as a person uses it: headless Chromium shows pairs and groups, decides by keys and buttons, and undoes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from PIL import Image

from image_copies.matching.files.plan import read_plan
from image_copies.matching.index.decisions import read_decisions
from image_copies.matching.index.store import open_store
from image_copies.matching.matches import Match
from image_copies.matching.results import SearchNotes, write_notes
from image_copies.matching.show.routes import review_app
from image_copies.matching.verification.geometry import Evidence
from image_copies.matching.verification.judgement import Judgement
from tests.end_to_end.pages import open_watched, run_explore
from tests.folders import read_tree
from tests.search_results import write_results
from tests.services import serve

if TYPE_CHECKING:
    from playwright import sync_api

Scheme = Literal["light", "dark"]
UNNAMED = """[...document.querySelectorAll("button, select, img, a")]
    .filter(each => each.checkVisibility() && !(each.ariaLabel || each.textContent.trim() || each.alt)).length"""
HOSTILE = "<img src=x onerror=alert(1)>.png"


def wait_until(page: "sync_api.Page", holds: Callable[[], bool]) -> None:
    """Poll from outside, at most 10 seconds: the page's policy forbids it to evaluate strings."""
    for _ in range(200):
        if holds():
            return
        page.wait_for_timeout(50)
    pytest.fail("the page did not become as expected within 10 seconds")


def width(page: "sync_api.Page", selector: str) -> float:
    """Width in pixels of the first element; 0 where there is none."""
    box = page.locator(selector).first.bounding_box() if page.locator(selector).count() else None
    return box["width"] if box else 0.0


@pytest.fixture
def results(own_desk: Path) -> Path:
    """Four pictures: three of one group, one of them with a hostile name; four pairs, one of them verified."""
    rng = np.random.default_rng(0)
    photo = Image.fromarray(rng.integers(0, 256, (15, 20, 3), np.uint8)).resize((400, 300), Image.Resampling.NEAREST)
    names = {"large.png": photo, "small.png": photo.resize((200, 150)), HOSTILE: photo.crop((40, 30, 360, 270))}
    names["other.png"] = Image.fromarray(rng.integers(0, 256, (15, 20, 3), np.uint8)).resize((160, 120))
    folder = own_desk / "matches"
    for name, picture in names.items():
        (own_desk / "album").mkdir(exist_ok=True)
        picture.save(own_desk / "album" / name)
    large, small, hostile, other = (own_desk / "album" / name for name in names)
    evidence = Evidence(40, "", (0.1, 0.1, 0.9, 0.9), (0.0, 0.0, 1.0, 1.0))
    pairs = [
        Match(large, hostile, -0.1, 0.0001, evidence=evidence),
        Match(small, large, -0.2, 0.0002),
        Match(hostile, small, -0.3, 0.0003),
        Match(other, small, -0.4, 0.0004),
    ]
    write_results(folder, pairs, [[large, small, hostile]])
    return folder


@pytest.fixture
def address(results: Path) -> Iterator[str]:
    """The page is served in this process: another one would import everything again."""
    with serve(review_app(results)) as served:
        yield served


@pytest.fixture
def page(browser: "sync_api.Browser", address: str) -> Iterator["sync_api.Page"]:
    with open_watched(browser, address, "#group .file img", console=True) as opened:
        assert opened.inner_text("#going").startswith("1 group, ")  # what is certain comes first
        press(opened, "2", "/api/pairs/")
        opened.select_option("#order", "doubtful")
        opened.wait_for_selector("body:not(.busy)")
        yield opened


def said(results: Path) -> list[tuple[bool, set[str]]]:
    with open_store(results / "index") as store:
        return [(decision.copy, {name.name for name in decision.names}) for decision in read_decisions(store)]


@contextmanager
def answered(page: "sync_api.Page", part: str) -> Iterator[None]:
    """Wait for the answer from an address with this part, and until the page has drawn it: only then may the next key come."""
    with page.expect_response(lambda response: part in response.url):
        yield
    page.wait_for_selector("body:not(.busy)")


def press(page: "sync_api.Page", key: str, part: str) -> None:
    with answered(page, part):
        page.keyboard.press(key)


def shown(page: "sync_api.Page") -> list[str]:
    return page.locator("#pair figcaption b").all_inner_texts()


def test_pairs_are_decided_by_keys_and_buttons_and_undone(page: "sync_api.Page", results: Path) -> None:
    album = {path: path.read_bytes() for path in (results.parent / "album").iterdir()}
    assert "4 pairs" in page.inner_text("#about") and page.inner_text("#place") == "1 of 4"
    assert shown(page) == ["other.png", "small.png"]  # the most doubtful first
    press(page, "n", "/api/pairs/")
    assert said(results) == [(False, {"other.png", "small.png"})] and shown(page) == [HOSTILE, "small.png"]
    assert "not a copy. 3 pairs are undecided" in page.inner_text("#status")
    with answered(page, "/api/pairs/"):
        page.click("#copy")
    assert page.inner_text("#place") == "3 of 4"
    assert said(results)[1] == (True, {HOSTILE, "small.png"})
    press(page, "u", "/api/pairs/")
    assert said(results) == [(False, {"other.png", "small.png"})] and shown(page) == [HOSTILE, "small.png"]
    press(page, "u", "/api/pairs/")
    assert said(results) == [] and page.is_disabled("#undo") and shown(page) == ["other.png", "small.png"]
    press(page, "j", "/api/pairs/")
    press(page, "ArrowRight", "/api/pairs/")
    assert page.inner_text("#place") == "3 of 4" and "Certain: the pixels agree." in page.inner_text("#verdict")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("n")
    page.keyboard.press("Escape")
    assert said(results) == [] and {path: path.read_bytes() for path in album} == album


def test_both_files_are_named_and_their_facts_are_beside_the_pictures(page: "sync_api.Page") -> None:
    page.select_option("#order", "sure")
    page.wait_for_selector("#left .framed i")
    assert page.locator("#facts thead th").all_inner_texts()[1:] == shown(page) == ["large.png", HOSTILE]
    verdict = page.inner_text("#verdict")
    assert "Certain: the pixels agree." in verdict and "left" not in verdict and "right" not in verdict
    page.keyboard.press("x")
    assert "Certain (98 of 100): the pixels agree." in page.inner_text("#verdict") and "40 features" in page.inner_text(
        "#verdict"
    )
    page.keyboard.press("x")
    heads = page.locator("#facts thead th").evaluate_all("heads => heads.map(head => head.scrollWidth - head.clientWidth)")
    assert heads == [0, 0, 0], "a long name is broken, and does not cover the next one"
    facts, picture = page.locator("#facts").bounding_box(), page.locator("#right").bounding_box()
    assert facts is not None and picture is not None
    assert facts["x"] >= picture["x"] + picture["width"] and facts["y"] + facts["height"] <= 900


def test_a_pair_is_laid_on_each_other_with_a_slider_and_flickers(page: "sync_api.Page") -> None:
    page.select_option("#order", "sure")
    page.wait_for_selector("#left .framed i")
    press(page, "l", "/api/laid/")
    assert (
        page.locator("#sides").is_hidden()
        and page.inner_text("#laid-names") == f"{HOSTILE}, on the left of the slider, laid on large.png"
    )
    clipped = "document.getElementById('above').style.clipPath"
    half = page.evaluate(clipped)
    page.focus("#slider")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#place") == "1 of 4" and page.evaluate(clipped) != half
    page.keyboard.press("f")
    wait_until(page, lambda: page.inner_text("#laid-names") == "large.png" and page.locator("#above").is_hidden())
    page.keyboard.press("f")
    wait_until(page, lambda: page.inner_text("#laid-names") == HOSTILE and page.locator("#above").is_visible())
    page.keyboard.press("d")
    wait_until(page, lambda: "by more than tones" in page.inner_text("#laid-names"))
    page.keyboard.press("d")
    wait_until(page, lambda: page.locator("#sides").is_visible() and page.locator("#laid").is_hidden())


def test_which_side_is_a_reference_is_said_and_files_of_one_name_are_told_apart(
    browser: "sync_api.Browser", tmp_path: Path
) -> None:
    files = [tmp_path / folder / "trip" / "x.png" for folder in ("uploads", "originals")]
    for path, side in zip(files, (90, 120), strict=True):
        path.parent.mkdir(parents=True)
        noise = np.random.default_rng(0).integers(0, 256, (15, 20, 3), np.uint8)
        Image.fromarray(noise).resize((side * 4 // 3, side), Image.Resampling.NEAREST).save(path)
    write_results(tmp_path / "matches", [Match(files[0], files[1], -0.1, 0.0001)], [files])
    write_notes(tmp_path / "matches", SearchNotes((), (), threshold=-0.5, references=True))
    with (
        run_explore("--matches", tmp_path / "matches") as address,
        open_watched(browser, address, "#group .file img", console=True) as page,
    ):
        press(page, "2", "/api/pairs/")
        assert shown(page) == ["uploads/trip/x.png", "originals/trip/x.png"]
        assert page.locator("#left .role").count() == 0 and page.inner_text("#right .role") == "reference"
        with answered(page, "/api/groups/"):
            page.click("#to-groups")
        assert page.locator(".file .role").count() == 1
        assert page.locator(".file .folder").all_inner_texts() == ["in originals/trip", "in uploads/trip"]


@pytest.mark.parametrize("way", ["move", "delete-to-trash"])
def test_the_plan_is_carried_out_and_undone_after_a_question(page: "sync_api.Page", results: Path, way: str) -> None:
    before = read_tree(results.parent / "album")
    with answered(page, "/api/groups/"):
        page.click("#to-groups")
    assert "kB can go: 2 files, certainly copies" in page.inner_text("#going")
    page.click("#apply")
    assert page.inner_text("#question-title").startswith("Remove 2 files (")
    page.keyboard.press("Escape")
    assert read_tree(results.parent / "album") == before
    page.click("#apply")
    page.select_option("#way", way)
    with answered(page, "/api/groups/"):
        page.click("#question-yes")
    assert set(read_tree(results.parent / "album")) == {"large.png", "other.png"}
    assert "Removed: 2 files." in page.inner_text("#status") and page.locator("#apply").is_hidden()
    assert page.locator(".file.gone").count() == 2 and page.locator(".file.gone :is(button, img)").count() == 0
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.className") == "file kept"
    assert page.inner_text("#going").endswith("2 files removed.")
    assert page.locator("#group > p").inner_text().startswith("3 files: 1 kept, 2 removed.")
    page.click("#put-back")
    assert page.inner_text("#question-title") == "Put back 2 files?"
    with answered(page, "/api/groups/"):
        page.click("#question-yes")
    assert read_tree(results.parent / "album") == before and page.locator(".file.gone").count() == 0
    assert "Put back: 2 files." in page.inner_text("#status")


def test_the_shared_part_is_framed_and_shown_alone(page: "sync_api.Page") -> None:
    page.select_option("#order", "sure")
    page.wait_for_selector("#left .framed i")
    assert "frames show what is shared" in page.inner_text("#verdict")
    wait_until(page, lambda: width(page, "#left .framed i") > 50)
    frame, image = (page.locator(f"#left .framed {each}").bounding_box() for each in ("i", "img"))
    assert frame is not None and image is not None and abs(frame["width"] / image["width"] - 0.8) < 0.02
    page.keyboard.press("z")
    wait_until(page, lambda: width(page, "#left .part") > 50)
    assert page.get_attribute("#closer", "aria-pressed") == "true"
    press(page, "j", "/api/pairs/")
    assert page.locator("#left .framed").count() == 0


def test_a_group_is_decided_and_another_file_kept(page: "sync_api.Page", results: Path) -> None:
    with answered(page, "/api/groups/"):
        page.click("#to-groups")
    assert page.locator("#group .file").count() == 3 and page.inner_text("#group .kept b") == "large.png"
    assert page.locator("#group .folder").count() == 0, "all lie in one folder"
    assert f"--output {results}" in page.inner_text("#plan code")
    page.keyboard.press("ArrowRight")
    chosen = page.evaluate("document.activeElement.querySelector('b').textContent")
    press(page, "n", "/api/groups/")
    assert said(results) == [(False, {"large.png", chosen})]
    assert {row.file.name: row.action for row in read_plan(results / "plan.csv")}[chosen] == "leave"
    press(page, "u", "/api/groups/")
    assert said(results) == []
    page.locator(".file", has_text="small.png").focus()
    press(page, "s", "/api/kept")
    actions = {row.file.name: row.action for row in read_plan(results / "plan.csv")}
    assert actions == {"small.png": "keep", "large.png": "remove", HOSTILE: "remove"}
    assert page.inner_text("#group .kept b") == "small.png"
    press(page, "u", "/api/groups/")
    assert page.inner_text("#group .kept b") == "large.png"
    page.locator(".file", has_text="small.png").focus()
    press(page, "Enter", "/api/pairs/")
    page.wait_for_selector("#pairs:not([hidden])")
    assert set(shown(page)) == {"large.png", "small.png"} and page.inner_text("#of-group") == "Group 1"


def test_series_stand_apart_the_sharpest_first(browser: "sync_api.Browser", results: Path) -> None:
    large, small, hostile, other = (results.parent / "album" / name for name in ("large.png", "small.png", HOSTILE, "other.png"))
    scene = Judgement("same scene", "taken 2 s apart with one camera", 10)
    pairs = [Match(large, small, -0.1, None)]
    pairs += [Match(path, other, -0.2, None, judgement=scene, series=1, sharpest=hostile) for path in (small, hostile)]
    write_results(results, pairs, [[large, small]])
    served = serve(review_app(results))
    with served as address, open_watched(browser, address, "#group .file img", console=True) as page:
        page.keyboard.press("3")
        page.wait_for_selector("#shots img")
        assert page.inner_text("#shots h2") == "Series 1: 3 pictures"
        assert page.locator("#shots .file b").all_inner_texts() == [HOSTILE, "large.png", "other.png"]  # not what goes for it
        assert page.inner_text("#shots .kept .badge") == "sharpest"
        page.locator("#shots a").last.click()
        page.wait_for_selector("#pair:not([hidden])")
        assert set(shown(page)) == {HOSTILE, "other.png"}


def test_decisions_are_listed_and_taken_back(page: "sync_api.Page", results: Path) -> None:
    press(page, "y", "/api/pairs/")
    press(page, "4", "/api/decisions")
    page.wait_for_selector("#decided li")
    assert "a copy" in page.inner_text("#decided li") and "other.png" in page.inner_text("#decided li")
    with answered(page, "/api/decisions"):
        page.click("#decided button")
    assert page.is_visible("#no-decision")
    assert said(results) == []


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_nothing_is_wider_than_the_screen(browser: "sync_api.Browser", address: str, width: int, scheme: Scheme) -> None:
    with browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme) as context:
        page = context.new_page()
        for view, there in (
            ("pairs", "#left img"),
            ("groups", ".file img"),
            ("series", "#series p"),
            ("decisions", "#no-decision"),
        ):
            page.goto(f"{address}/#{view}")
            page.reload()
            page.wait_for_selector(there)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(UNNAMED) == 0 and page.is_visible("#keys")
