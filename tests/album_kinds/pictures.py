"""What the albums' pictures show: drawn scenes, pages of text, things before a plain ground."""

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from image_copies.data.procedural import WORDS, draw_picture
from tests.album_kinds.kind import Picture

LONG_SIDE = 480
LINES = ("Thank you for your order", "Item", "Quantity", "Delivery on Monday", "Please pay within 14 days", "Account", "Customer")


def scene(rng: np.random.Generator, side: int = LONG_SIDE) -> Picture:
    """A scene with structure at every scale, as photographs have, and a little noise of a sensor."""
    large = Image.fromarray(draw_picture(rng, round(side * 4 / 3)))
    pixels = np.asarray(large.resize((large.width * 3 // 4, large.height * 3 // 4), Image.Resampling.LANCZOS), np.float32)
    height, width = pixels.shape[:2]
    for cells in 2 ** np.arange(2, 9):
        grid = rng.standard_normal((max(2, height * cells // side), max(2, width * cells // side)), dtype=np.float32)
        pixels = pixels + 9 * cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)[..., None]
    return from_array(pixels + rng.normal(0, 1.5, pixels.shape))


def from_array(pixels: NDArray[np.floating]) -> Picture:
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def add_noise(picture: Picture, rng: np.random.Generator, deviation: float = 2.0) -> Picture:
    """Another exposure of what a picture shows."""
    pixels = np.asarray(picture, np.float32)
    return from_array(pixels + rng.normal(0, deviation, pixels.shape))


def scale(picture: Picture, factor: float) -> Picture:
    size = max(1, round(picture.width * factor)), max(1, round(picture.height * factor))
    return picture.resize(size, Image.Resampling.LANCZOS)


def write(picture: Picture, place: tuple[float, float], words: str, size: int = 18, colour: str = "black") -> Picture:
    """Write words; the place is in shares of the sides."""
    shown = picture.copy()
    at = place[0] * shown.width, place[1] * shown.height
    ImageDraw.Draw(shown).text(at, words, colour, ImageFont.load_default(size))
    return shown


def caption(picture: Picture, words: str, top: float = 0.85) -> Picture:
    """Write words with an outline, as on a meme."""
    shown = picture.copy()
    size = max(14, shown.height // 12)
    at = shown.width / 10, top * shown.height
    font = ImageFont.load_default(size)
    ImageDraw.Draw(shown).text(at, words, "white", font, stroke_width=2, stroke_fill="black")
    return shown


def page(rng: np.random.Generator, lines: int = 16, width: int = 480) -> Picture:
    """A page of text with a letterhead."""
    shown = Image.new("RGB", (width, round(width * 1.3)), "white")
    draw = ImageDraw.Draw(shown)
    draw.rectangle((0, 0, width, width // 9), tuple(rng.integers(0, 160, 3).tolist()))
    draw.text(
        (width // 20, width // 40), f"{rng.choice(WORDS)} & {rng.choice(WORDS)}", "white", ImageFont.load_default(width // 18)
    )
    for row in range(lines):
        words = f"{rng.choice(LINES)} {rng.integers(10 ** rng.integers(1, 7))} {rng.choice(WORDS)}"
        draw.text((width // 12, width * (0.16 + 0.055 * row)), words, "black", ImageFont.load_default(width // 34))
    return shown


def thing(rng: np.random.Generator, side: int = 480, ground: str = "white") -> Picture:
    """A product: an oval with a texture before a plain ground."""
    texture = scene(rng, side).resize((side, side))
    mask = Image.new("L", (side, side))
    ImageDraw.Draw(mask).ellipse((0.28 * side, 0.2 * side, 0.72 * side, 0.8 * side), fill=255)
    return Image.composite(texture, Image.new("RGB", (side, side), ground), mask)


def turn_hue(picture: Picture, by: int) -> Picture:
    """Another colour of the same thing; white stays white."""
    hue, saturation, value = picture.convert("HSV").split()
    return Image.merge("HSV", (hue.point([(level + by) % 256 for level in range(256)]), saturation, value)).convert("RGB")


def shift(picture: Picture, x: NDArray[np.floating], y: NDArray[np.floating]) -> Picture:
    """Displace each pixel by x and y [h, w]."""
    rows, columns = np.indices(x.shape).astype(np.float32)
    places = (columns + x).astype(np.float32), (rows + y).astype(np.float32)
    seen = cv2.remap(np.asarray(picture), *places, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    return Image.fromarray(np.asarray(seen, np.uint8))


def frame(picture: Picture, x: int = 24, y: int = 24, margin: int = 24) -> Picture:
    """What a camera sees of a larger scene, from a place within it."""
    return picture.crop((x, y, x + picture.width - 2 * margin, y + picture.height - 2 * margin))
