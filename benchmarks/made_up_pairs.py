"""Pairs of pictures whose relation is known because it was made: edited copies, and second shots of the same scene.

Edits are those that people make to an album. Second shots are made from one photograph by shifting near and far by different
amounts, or by moving, removing or replacing something in front; both get the noise and the compression of an exposure.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageEnhance, ImageFont, ImageOps

Pixels = NDArray[np.uint8]
Field = NDArray[np.float32]
WORDS = ("happy", "birthday", "summer", "2019", "our", "trip", "to", "the", "lake", "with", "all", "of", "you")
FRAME = 480  # pixels of the longer side for which displacements are given
SEEN = 0.92  # share of a scene's sides that a shot sees


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


@dataclass(frozen=True)
class Shots:
    """Two made-up photographs of one scene.

    Attributes:
        kind: What differs between them.
        amount: By how much: pixels of FRAME by which layers are displaced; share of the longer side that a moved thing has.
        first: uint8 [h, w, 3].
        second: uint8 [h, w, 3].
    """

    kind: str
    amount: float
    first: Pixels
    second: Pixels


SCENES = ("layers", "depth", "thing moved", "thing removed", "thing replaced", "exposure")  # what may differ between two shots


def shoot_twice(photo: Pixels, other: Pixels, kind: str, rng: np.random.Generator) -> Shots:
    """Return two made-up photographs of the scene that a photograph [h, w, 3] shows; `other` gives things that come into it.

    The photograph is scaled to FRAME pixels. Every second pair is held by hand, the others by a tripod; every second one is of
    another exposure.
    """
    scene = _scale(photo, FRAME / SEEN)
    far = np.asarray(cv2.resize(_scale(other, FRAME), scene.shape[1::-1]), np.float32)
    amount = 0.0 if kind == "exposure" else float(rng.uniform(0.02, 0.3) if kind.startswith("thing") else rng.uniform(2, 32))
    first, second, angle = scene, scene, rng.uniform(0, 2 * np.pi)
    moved = amount * np.array([np.cos(angle), np.sin(angle)])
    if kind == "layers":
        second = _displace_layers(scene, moved, rng)
    elif kind == "depth":
        rows, columns = np.indices(scene.shape[:2], np.float32)
        near = _draw_depth(rng, *scene.shape[:2])
        second = _look(scene, columns + moved[0] * near, rows + moved[1] * near)
    elif kind != "exposure":
        first, second = _change_thing(scene, far, kind, amount * FRAME, rng)
    if rng.random() < 0.5:
        second = _hold_by_hand(second, rng)
    tones = (_draw_tones(rng), _draw_tones(rng)) if rng.random() < 0.5 else (np.array([1.0, 1, 1, 1]),) * 2
    return Shots(kind, amount, _expose(first, tones[0], rng), _expose(second, tones[1], rng))


def _scale(pixels: Pixels, side: float) -> Field:
    """Return a picture [h, w, 3] whose longer side has so many pixels."""
    factor = side / max(pixels.shape[:2])
    way = cv2.INTER_CUBIC if factor > 1 else cv2.INTER_AREA
    return np.asarray(cv2.resize(pixels, None, fx=factor, fy=factor, interpolation=way), np.float32)


def _displace_layers(scene: Field, moved: NDArray[np.float64], rng: np.random.Generator) -> Field:
    """Return a scene of which one to three layers in front are displaced, the nearest by x, y pixels.

    What a layer uncovers shows what lies beyond its edge.
    """
    rows, columns = np.indices(scene.shape[:2], np.float32)
    second, layers = scene, int(rng.integers(1, 4))
    for layer in range(1, layers + 1):
        x, y = np.round(moved * layer / layers)
        mask = _draw_layer(scene.shape[:2], rng)
        shifted = cv2.warpAffine(mask, np.array([[1, 0, x], [0, 1, y]]), mask.shape[::-1], borderMode=cv2.BORDER_REPLICATE)
        uncovered = (np.clip(mask - shifted, 0, 1))[..., None]
        second = second * (1 - uncovered) + _look(scene, columns - x, rows - y) * uncovered
        second = second * (1 - shifted[..., None]) + _look(scene, columns - x, rows - y) * shifted[..., None]
    return second


def _draw_depth(rng: np.random.Generator, height: int, width: int) -> Field:
    """Draw how near things are, 0…1: a ground that comes nearer downwards, and things that stand on it, the nearest at 1."""
    ground = np.repeat(np.linspace(0, 1, height, dtype=np.float32)[:, None] ** 1.5, width, axis=1)
    depth = np.asarray(ground * rng.uniform(0.2, 0.8), np.float32)
    for near in (1.0, *rng.uniform(0.2, 1, rng.integers(1, 6))):
        mask = np.zeros((height, width), np.uint8)
        centre = int(rng.integers(width)), int(rng.integers(height // 3, height))
        axes = int(width * rng.uniform(0.05, 0.25)), int(height * rng.uniform(0.08, 0.35))
        cv2.ellipse(mask, centre, axes, float(rng.uniform(0, 180)), 0, 360, 1, -1)
        depth = np.asarray(np.where(mask > 0, np.maximum(depth, near), depth), np.float32)
    return depth


def _draw_layer(shape: tuple[int, ...], rng: np.random.Generator) -> Field:
    """Return the mask 0…1 [h, w] of a layer with a smooth outline that takes 3 to 50 % of the frame."""
    coarse = cv2.resize(rng.normal(size=(4, 4)).astype(np.float32), shape[1::-1], interpolation=cv2.INTER_CUBIC)
    mask = (coarse > np.quantile(coarse, 1 - rng.uniform(0.03, 0.5))).astype(np.float32)
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), 0.8), np.float32)


def _change_thing(scene: Field, other: Field, kind: str, size: float, rng: np.random.Generator) -> tuple[Field, Field]:
    """Return a scene with a thing of so many pixels in front, and with the thing moved, removed or replaced by another one."""
    height, width = scene.shape[:2]
    place = rng.uniform(0.2, 0.8, 2) * (width, height)
    first = _put(scene, other, place, size)
    if kind == "thing removed":
        return first, scene
    if kind == "thing replaced":
        return first, _put(scene, np.ascontiguousarray(other[::-1, ::-1]), place, size)
    angle, far = rng.uniform(0, 2 * np.pi), max(2.0, rng.uniform(0.1, 1.5) * size)
    return first, _put(scene, other, place + far * np.array([np.cos(angle), np.sin(angle)]), size)


def _hold_by_hand(scene: Field, rng: np.random.Generator) -> Field:
    """Return a scene as seen by a camera that moved by some pixels and turned a little."""
    height, width = scene.shape[:2]
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    seen = corners + rng.uniform(-6, 6, 2).astype(np.float32) + rng.uniform(-3, 3, (4, 2)).astype(np.float32)
    mapped = cv2.getPerspectiveTransform(corners, seen)
    return np.asarray(
        cv2.warpPerspective(scene, mapped, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT), np.float32
    )


def _look(scene: Field, x: Field, y: Field) -> Field:
    """Return a scene [h, w, 3] as seen at the places x, y [h, w]."""
    places = x.astype(np.float32), y.astype(np.float32)
    return np.asarray(cv2.remap(scene, *places, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT), np.float32)


def _put(scene: Field, thing: Field, place: NDArray[np.float64], size: float) -> Field:
    """Return a scene with an oval of the middle of another picture in front, `size` pixels high, around a place x, y."""
    mask = np.zeros(scene.shape[:2], np.float32)
    cv2.ellipse(mask, (round(place[0]), round(place[1])), (max(3, round(size / 3)), max(3, round(size / 2))), 10, 0, 360, 1, -1)
    mask = np.asarray(cv2.GaussianBlur(mask, (0, 0), 0.8), np.float32)[..., None]
    rows, columns = np.indices(scene.shape[:2], np.float32)
    middle = np.array([scene.shape[1], scene.shape[0]]) / 2
    x, y = (np.asarray(grid - shift, np.float32) for grid, shift in zip((columns, rows), place - middle, strict=True))
    moved = _look(thing, x, y)
    return scene * (1 - mask) + moved * mask


def _draw_tones(rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw an exposure: gains of red, green and blue, and gamma."""
    return np.append(rng.uniform(0.85, 1.1) * rng.uniform(0.96, 1.04, 3), rng.uniform(0.85, 1.15))


def _expose(scene: Field, tones: NDArray[np.float64], rng: np.random.Generator) -> Pixels:
    """Return the middle of a scene as a camera records it: with its tones, with noise, and as JPEG."""
    height, width = scene.shape[:2]
    top, left = round(height * (1 - SEEN) / 2), round(width * (1 - SEEN) / 2)
    seen = np.clip(scene[top : height - top, left : width - left], 0, 255)
    toned = 255 * (seen / 255) ** tones[3] * tones[:3]
    noisy = np.clip(toned + rng.normal(0, rng.uniform(1, 3), seen.shape), 0, 255).round().astype(np.uint8)
    return np.asarray(save_jpeg(Image.fromarray(noisy), int(rng.integers(80, 96))))


def shoot_once(photo: Pixels, rng: np.random.Generator) -> Pixels:
    """Return what a camera records of the scene that a photograph [h, w, 3] shows."""
    return _expose(_scale(photo, FRAME / SEEN), _draw_tones(rng), rng)
