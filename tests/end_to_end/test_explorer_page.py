"""The explorer as a person uses it: the script is started, headless Chromium uploads, edits and is sent hostile files."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from PIL import Image

from tests.end_to_end.pages import open_watched, run_explore

if TYPE_CHECKING:
    from playwright import sync_api

Scheme = Literal["light", "dark"]


@pytest.fixture(scope="module")
def address(small_run: Path) -> Iterator[str]:
    with run_explore("--run", small_run) as served:
        yield served


@pytest.fixture
def page(browser: "sync_api.Browser", address: str) -> Iterator["sync_api.Page"]:
    with open_watched(browser, address, "#picks button") as opened:
        yield opened


def png(image: Image.Image) -> bytes:
    target = io.BytesIO()
    image.save(target, "PNG")
    return target.getvalue()


def upload(page: "sync_api.Page", name: str, content: bytes) -> None:
    page.set_input_files("#file", {"name": name, "mimeType": "image/png", "buffer": content})


def figures(page: "sync_api.Page") -> list[str]:
    return page.locator("#nearest .pair b").all_inner_texts()


def answered(page: "sync_api.Page") -> "sync_api.Page":
    """Until the last question is answered."""
    page.wait_for_selector("#answer:not(.busy) #result:not([hidden])")
    return page


def test_upload_slider_matches(page: "sync_api.Page", small_run: Path) -> None:
    console: list[str] = []
    page.on("console", lambda message: console.append(message.text))
    page.set_input_files("#file", small_run.parent / "data" / "reference_images" / "R000003.jpg")
    answered(page)
    assert page.locator("#nearest .pair").count() == 12
    assert "A copy is near enough by its vector" in page.inner_text("#verdict")
    assert "What normalisation did: method 2" in page.inner_text("#normalization")
    page.wait_for_function("[...document.images].every(image => image.complete || image.loading === 'lazy')")
    plain = figures(page)
    with page.expect_response("**/api/answers"):
        page.select_option("#edit", "rotate")
    with page.expect_response("**/api/answers"):
        page.locator("#intensity").fill("0.1")
    answered(page).wait_for_timeout(50)
    mild = figures(page)
    with page.expect_response("**/api/answers"):
        page.locator("#intensity").fill("1")
    answered(page).wait_for_timeout(50)
    assert page.inner_text("#shown") == "1.00"
    assert len({tuple(each) for each in (plain, mild, figures(page))}) == 3
    assert page.inner_text("#record").startswith("rotate, degrees")
    assert console == []


def test_pick_draw_again_and_edits_of_one_form(page: "sync_api.Page") -> None:
    page.locator("#picks button").nth(2).click()
    answered(page)
    with page.expect_response("**/api/answers"):
        page.select_option("#edit", "overlay_emoji")
    answered(page).wait_for_timeout(50)
    first = page.inner_text("#record")
    with page.expect_response("**/api/answers"):
        page.click("#again")
    answered(page).wait_for_timeout(50)
    assert page.inner_text("#record") != first and first.startswith("overlay emoji")
    assert "nine draws" in page.inner_text("#grade")
    page.select_option("#edit", "hflip")
    assert page.locator("#intensity").is_disabled() and "one form" in page.inner_text("#grade")
    seen = page.locator("#picks button").first.get_attribute("title")
    page.click("#more")
    assert page.locator("#picks button").first.get_attribute("title") != seen


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("photo.png", b"this is no image", "The file is not an image that can be read."),
        ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "The file is not an image"),
        ("bomb.png", png(Image.new("1", (20_000, 10_000))), "larger than 100,000,000 pixels"),
        ("cut.png", png(Image.effect_noise((200, 200), 60))[:9000], "The file is damaged"),
        ("empty.png", b"", "The file is empty."),
    ],
)
def test_hostile_uploads_get_a_message_and_the_page_goes_on(
    page: "sync_api.Page", name: str, content: bytes, message: str
) -> None:
    upload(page, name, content)
    page.wait_for_selector("#message:not([hidden])")
    assert message in page.inner_text("#message")
    upload(page, "good.png", png(Image.fromarray(np.arange(64 * 64 * 3, dtype=np.uint8).reshape(64, 64, 3))))
    answered(page)
    assert page.locator("#message").is_hidden() and len(figures(page)) == 12


def test_a_file_that_is_too_large_is_not_sent(page: "sync_api.Page", tmp_path: Path) -> None:
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate(33 * 2**20)
    page.set_input_files("#file", tmp_path / "large.png")
    page.wait_for_selector("#message:not([hidden])")
    assert page.inner_text("#message") == "The file is larger than 32 MB."


def test_a_name_that_climbs_writes_nothing(page: "sync_api.Page", small_run: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in small_run.parent.rglob("*")}
    upload(page, "../../../<img src=x onerror=alert(1)>.png", png(Image.effect_noise((64, 64), 60).convert("RGB")))
    answered(page)
    assert {path: path.stat().st_mtime_ns for path in small_run.parent.rglob("*")} == before


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen(browser: "sync_api.Browser", address: str, width: int, scheme: Scheme) -> None:
    with browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme) as context:
        page = context.new_page()
        page.goto(address)
        page.locator("#picks button").first.click()
        answered(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor").removeprefix("rgb(").split(",")[0]
        assert (int(ground) < 60) == (scheme == "dark")
