"""The pictures of README: the review page, and a pair laid on each other, of a search of photographs and edited copies.

    python benchmarks/pages.py [--output docs/pictures]

It needs playwright and chromium, which the end-to-end tests use, too. The photographs are scikit-learn's, under CC BY 2.0.
"""

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import sklearn
from PIL import Image, ImageDraw, ImageEnhance, ImageFont
from playwright import sync_api

TOP = Path(__file__).parents[1]
PHOTOS = Path(sklearn.__file__).parent / "datasets" / "images"
WINDOW = {"width": 1180, "height": 700}
MAX_BYTES = 150_000  # of each picture


def write_album(folder: Path) -> None:
    """Write two photographs, of one a small copy, of the other several: the same file, smaller, brighter, cropped, captioned."""
    flower, china = (Image.open(PHOTOS / f"{name}.jpg").convert("RGB") for name in ("flower", "china"))
    captioned = flower.copy()
    ImageDraw.Draw(captioned).rectangle((30, 340, 420, 400), "white")
    ImageDraw.Draw(captioned).text((50, 350), "From our garden", "black", ImageFont.load_default(36))
    pictures = {
        "Holiday/IMG_2153.jpg": flower,
        "Backup/IMG_2153.jpg": flower,
        "Phone/IMG_2153.jpg": flower.resize((320, 214), Image.Resampling.LANCZOS),
        "Phone/IMG_2153-bright.jpg": ImageEnhance.Brightness(flower).enhance(1.2),
        "Phone/IMG_2153-captioned.jpg": captioned,
        "Phone/IMG_2153-cropped.jpg": flower.crop((70, 20, 600, 400)),
        "Phone/IMG_2153-turned.jpg": flower.rotate(90, expand=True),
        "Holiday/IMG_2161.jpg": china,
        "Phone/IMG_2161.jpg": china.resize((320, 214), Image.Resampling.LANCZOS),
    }
    for name, picture in pictures.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        picture.save(folder / name, quality=95 if picture in (flower, china) else 85)


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
