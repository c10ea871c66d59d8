"""Pairs of pictures whose relation is known because it was made: edited copies, and second shots of the same scene.

Edits are those that people make to an album. Second shots are made from one photograph by shifting near and far by different
amounts, by turning the camera, or by moving something in front; both get the noise and the compression of an exposure.
"""

import io
from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageEnhance, ImageFont, ImageOps

Pixels = NDArray[np.uint8]
Field = NDArray[np.float32]
WORDS = ("happy", "birthday", "summer", "2019", "our", "trip", "to", "the", "lake", "with", "all", "of", "you")
FRAME = 480  # pixels of the longer side for which displacements are given
SEEN = 0.92  # share of a scene's sides that a shot sees
AMOUNTS = (1, 2, 4, 8)  # pixels by which the camera or the nearest thing moves between two shots


def _resize(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    factor = rng.uniform(0.3, 0.8)
    return image.resize((round(image.width * factor), round(image.height * factor)), Image.Resampling.LANCZOS)


def _encode(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    return save_jpeg(image, int(rng.integers(25, 80)))


def _crop(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    factor = np.sqrt(rng.uniform(0.75, 0.97))  # of the area
    width, height = round(image.width * factor), round(image.height * factor)
    left, top = int(rng.integers(0, image.width - width + 1)), int(rng.integers(0, image.height - height + 1))
    return image.crop((left, top, left + width, top + height))


def _turn(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    ways = Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270, Image.Transpose.FLIP_LEFT_RIGHT
    return image.transpose(ways[rng.integers(len(ways))])


def _straighten(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    degrees = float(rng.uniform(1, 8) * rng.choice([-1, 1]))
    sine, cosine = abs(np.sin(np.deg2rad(degrees))), np.cos(np.deg2rad(degrees))
    factor = 1 / (cosine + sine * max(image.width / image.height, image.height / image.width))  # of the largest inner frame
    width, height = int(image.width * factor), int(image.height * factor)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.rotate(degrees, Image.Resampling.BICUBIC).crop((left, top, left + width, top + height))


def _caption(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Words over the lower edge: on the picture, on a bar across it, or on a bar below it."""
    size, place = max(10, image.height // 14), rng.integers(3)
    bar = round(1.8 * size) if place == 2 else 0
    made = Image.new("RGB", (image.width, image.height + bar), "white")
    made.paste(image, (0, 0))
    draw, top = ImageDraw.Draw(made), made.height - round(1.6 * size)
    if place == 1:
        draw.rectangle((0, top - 4, made.width, made.height), fill="black")
    words = " ".join(rng.choice(WORDS, rng.integers(3, 6)))
    font = ImageFont.load_default(size=size)
    draw.text((made.width // 12, top), words, "black" if bar else "yellow", font, stroke_width=1 - bool(bar), stroke_fill="black")
    return made


def _border(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    return ImageOps.expand(image, int(rng.uniform(0.03, 0.15) * min(image.size)), tuple(rng.integers(0, 256, 3).tolist()))


def _colour(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    grey = ImageOps.grayscale(image)
    ways: list[Callable[[], Image.Image]] = [
        lambda: ImageEnhance.Brightness(image).enhance(rng.uniform(0.6, 1.5)),
        lambda: ImageEnhance.Contrast(image).enhance(rng.uniform(0.5, 1.6)),
        lambda: ImageEnhance.Color(image).enhance(rng.uniform(0, 2.2)),
        lambda: grey.convert("RGB"),
        lambda: ImageOps.colorize(grey, (30, 15, 0), (255, 240, 200)),
        lambda: Image.merge("RGB", [band.point(_draw_curve(rng)) for band in image.split()]),
    ]
    return ways[rng.integers(len(ways))]()


def _draw_curve(rng: np.random.Generator) -> list[int]:
    values = 255 * (np.arange(256) / 255) ** rng.uniform(0.6, 1.6) * rng.uniform(0.85, 1.15)
    curve: list[int] = np.clip(values, 0, 255).astype(int).tolist()
    return curve


EDITS: dict[str, Callable[[Image.Image, np.random.Generator], Image.Image]] = {
    "resize": _resize,
    "re-encode": _encode,
    "crop": _crop,
    "turn": _turn,
    "straighten": _straighten,
    "caption": _caption,
    "border": _border,
    "colour": _colour,
}


def _turn_a_quarter(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    return image.transpose((Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270)[rng.integers(2)])


def _halve(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Half of the picture, somewhere in it."""
    width, height = ((image.width // 2, image.height), (image.width, image.height // 2))[rng.integers(2)]
    left, top = int(rng.integers(0, image.width - width + 1)), int(rng.integers(0, image.height - height + 1))
    return image.crop((left, top, left + width, top + height))


def _paste_on_page(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A page with lines of text on which the picture takes a fifth to a half of the area."""
    side = round(max(image.size) / np.sqrt(rng.uniform(0.2, 0.5)))
    page = Image.new("RGB", (side, side), "white")
    draw, size = ImageDraw.Draw(page), max(8, side // 40)
    font = ImageFont.load_default(size=size)
    for top in range(size, side - size, 2 * size):
        draw.text((size, top), " ".join(rng.choice(WORDS, 16)), "black", font)
    left, top = (int(rng.integers(0, side - length + 1)) for length in image.size)
    page.paste(image, (left, top))
    return page


HARD_EDITS: dict[str, Callable[[Image.Image, np.random.Generator], Image.Image]] = {
    "quarter turn": _turn_a_quarter,
    "half crop": _halve,
    "on a page": _paste_on_page,
}


def edit_picture(pixels: Pixels, edit: str, rng: np.random.Generator) -> Image.Image:
    """Return an edited copy, saved as JPEG at a quality of 60 to 92."""
    return save_jpeg((EDITS | HARD_EDITS)[edit](Image.fromarray(pixels), rng), int(rng.integers(60, 93)))


def save_jpeg(image: Image.Image, quality: int) -> Image.Image:
    """Return what a JPEG of this quality shows."""
    target = io.BytesIO()
    image.save(target, "JPEG", quality=quality)
    return Image.open(target).convert("RGB")


def shoot_twice(scene: Pixels, other: Pixels, rng: np.random.Generator) -> tuple[str, int, Pixels, Pixels]:
    """Return what differs between two made-up shots of a scene [h, w, 3], by how many pixels of FRAME, and the shots.

    `other` shows a thing in front of the scene.
    """
    height, width = scene.shape[:2]
    unit, angle, amount = max(height, width) / FRAME, rng.uniform(0, 2 * np.pi), int(rng.choice(AMOUNTS))
    rows, columns = np.indices((height, width), np.float32)
    x, y = amount * unit * np.cos(angle), amount * unit * np.sin(angle)
    kind = ("depth", "turned camera", "something moved")[rng.integers(3)]
    first = scene.astype(np.float32)
    if kind == "depth":
        near = _draw_depth(rng, height, width)
        second = _look(first, columns + x * near, rows + y * near)
    elif kind == "turned camera":  # a turn by so much, in a camera whose focal length is the longer side
        across, down = (columns - width / 2) / max(height, width), (rows - height / 2) / max(height, width)
        bend = across * x + down * y
        second = _look(first, columns + x + bend * across, rows + y + bend * down)
    else:
        thing = cv2.resize(other, (width, height)).astype(np.float32)
        place, size = rng.uniform(0.3, 0.7, 2), rng.uniform(0.1, 0.5)
        still = rng.uniform(-1, 1, 2) * unit
        first, second = (
            _put(first, thing, place * (width, height) + moved, size * unit * FRAME)
            for moved in (np.zeros(2), np.array([3 * x, 3 * y]))
        )
        second = _look(second, columns + still[0], rows + still[1])
    return kind, amount, _expose(first, rng), _expose(second, rng)


def _draw_depth(rng: np.random.Generator, height: int, width: int) -> Field:
    """Draw how near things are, 0…1: a ground that comes nearer downwards, and things that stand on it."""
    ground = np.repeat(np.linspace(0, 1, height, dtype=np.float32)[:, None] ** 1.5, width, axis=1)
    depth = np.asarray(ground * rng.uniform(0.2, 0.8), np.float32)
    for _ in range(rng.integers(2, 7)):
        mask = np.zeros((height, width), np.uint8)
        centre = int(rng.integers(width)), int(rng.integers(height // 3, height))
        axes = int(width * rng.uniform(0.05, 0.25)), int(height * rng.uniform(0.08, 0.35))
        cv2.ellipse(mask, centre, axes, float(rng.uniform(0, 180)), 0, 360, 1, -1)
        depth = np.asarray(np.where(mask > 0, np.maximum(depth, rng.uniform(0.2, 1)), depth), np.float32)
    return depth


def _look(scene: Field, x: Field, y: Field) -> Field:
    """Return a scene [h, w, 3] as seen at the places x, y [h, w]."""
    places = x.astype(np.float32), y.astype(np.float32)
    return np.asarray(cv2.remap(scene, *places, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT), np.float32)


def _put(scene: Field, thing: Field, place: NDArray[np.float64], size: float) -> Field:
    """Return a scene with an oval of another picture in front, `size` pixels high, around a place x, y."""
    mask = np.zeros(scene.shape[:2], np.float32)
    cv2.ellipse(mask, (round(place[0]), round(place[1])), (max(3, round(size / 3)), max(3, round(size / 2))), 10, 0, 360, 1, -1)
    mask = np.asarray(cv2.GaussianBlur(mask, (0, 0), 1.2), np.float32)[..., None]
    rows, columns = np.indices(scene.shape[:2], np.float32)
    middle = np.array([scene.shape[1], scene.shape[0]]) / 2
    moved = _look(thing, columns - place[0] + middle[0], rows - place[1] + middle[1])
    return scene * (1 - mask) + moved * mask


def _expose(scene: Field, rng: np.random.Generator) -> Pixels:
    """Return the middle of a scene as a camera records it: with noise, another exposure and JPEG."""
    height, width = scene.shape[:2]
    top, left = round(height * (1 - SEEN) / 2), round(width * (1 - SEEN) / 2)
    seen = scene[top : height - top, left : width - left]
    noisy = np.clip(seen * rng.uniform(0.93, 1.07) + rng.normal(0, 2.5, seen.shape), 0, 255).astype(np.uint8)
    return np.asarray(save_jpeg(Image.fromarray(noisy), int(rng.integers(80, 95))))
