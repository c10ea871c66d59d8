"""The pictures of README: the review page, and a pair laid on each other, of a search of drawn pictures and edited copies.

    python benchmarks/pages.py [--output docs/pictures]

It needs playwright and chromium, which the end-to-end tests use, too.
"""

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFont
from playwright import sync_api

from image_copies.data.procedural import draw_picture

TOP = Path(__file__).parents[1]
SIZE, WINDOW = (960, 720), {"width": 1180, "height": 660}
MAX_BYTES = 150_000  # of each picture


def write_album(folder: Path) -> None:
    """Write five pictures, each with copies: smaller, brighter, cropped, turned, captioned."""
    folder.mkdir(parents=True)
    for number in range(5):
        rng = np.random.default_rng(20 + number)
        drawn = np.asarray(Image.fromarray(draw_picture(rng, 1400)).resize(SIZE, Image.Resampling.LANCZOS), np.float64)
        picture = Image.fromarray(np.clip(drawn + rng.normal(0, 4, drawn.shape), 0, 255).astype(np.uint8))
        captioned = picture.copy()
        ImageDraw.Draw(captioned).rectangle((60, 560, 620, 660), "white")
        ImageDraw.Draw(captioned).text((90, 580), "Summer, by the lake", "black", ImageFont.load_default(48))
        copies = {
            "": picture,
            "-small": picture.resize((480, 360)),
            "-bright": ImageEnhance.Brightness(picture).enhance(1.3),
            "-cropped": picture.crop((120, 60, 900, 640)),
            "-turned": picture.rotate(90, expand=True),
            "-captioned": captioned,
        }
        for name, copy in copies.items():
            copy.save(folder / f"IMG_{number + 1:04}{name}.jpg", quality=85 if name else 95)


def shoot(page: sync_api.Page, path: Path) -> None:
    """Write what the page shows as WebP of at most MAX_BYTES."""
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    for quality in range(90, 20, -10):
        shown.save(path, quality=quality)
        if path.stat().st_size <= MAX_BYTES:
            break
    print(f"{path}: {path.stat().st_size:,} bytes")


def main() -> None:
    """Search, open the review page, and write both pictures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--output", type=Path, default=TOP / "docs" / "pictures")
    output = options.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        write_album(Path(place) / "album")
        run = [sys.executable, str(TOP / "pipeline" / "match.py"), "album", "--output", "matches", "--quiet"]
        subprocess.run(run, cwd=place, check=True)
        serve = [sys.executable, "-u", str(TOP / "pipeline" / "explore.py"), "--matches", "matches", "--port", "0"]
        with (
            subprocess.Popen(serve, cwd=place, stdout=subprocess.PIPE, text=True) as served,
            sync_api.sync_playwright() as driver,
        ):
            assert served.stdout is not None
            address = served.stdout.readline().split(": ", 1)[1].split()[0]
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport=WINDOW)  # type: ignore[arg-type]  # a dict of two numbers
            page.goto(address)
            page.wait_for_selector("#group .file img")
            page.wait_for_load_state("networkidle")
            shoot(page, output / "review.webp")
            page.locator(".file", has_text="captioned").get_by_role("button", name="Compare").click()
            page.wait_for_selector("#pair:not([hidden]) #left img")
            page.keyboard.press("d")
            page.wait_for_selector("#laid:not([hidden])")
            page.locator("#facts").evaluate("table => { table.hidden = true; }")  # it names the temporary folder
            page.wait_for_load_state("networkidle")
            shoot(page, output / "laid.webp")
            browser.close()
            served.terminate()


if __name__ == "__main__":
    main()
