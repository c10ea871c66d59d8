"""Edits that put something on the image, or the image on something.

Images are RGB uint8 [h, w, 3] and never changed in place. Throughout, positions `x`, `y` and sizes are fractions of the image,
colours are RGB 0…255, `opacity` is in 0 (invisible) … 1, `font` is a number modulo the count of AugLy's fonts, and `seed` draws
what is random.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
from cv2.typing import MatLike
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from image_copies.data.arrays import Bools, Float32s, UInt8s
from image_copies.data.decode import as_uint8
from image_copies.data.errors import UserError

from .registry import Image, blend_in, edit, mix, pasting_edit, unit_grid

GLYPH_PIXELS = 40  # font size at which text is rendered before it is resized


@pasting_edit("overlay")
def overlay_image(
    image: Image,
    overlay: Image,
    opacity: float,
    size: float,
    x: float,
    y: float,
) -> Image:
    """Put `overlay` on the image: its height is `size` of the image's, its upper left corner at (x, y)."""
    height = max(2, round(image.shape[0] * size))
    width = max(2, round(overlay.shape[1] * height / overlay.shape[0]))
    small = cv2.resize(overlay, (width, height), interpolation=cv2.INTER_AREA)
    return _blend(image, small, np.float32(opacity), x, y)


@pasting_edit("background")
def overlay_onto_image(
    image: Image,
    background: Image,
    opacity: float,
    size: float,
    x: float,
    y: float,
) -> Image:
    """Put the image on `background`, inside, its height `size` of that one's; (x, y) go from top left to bottom right."""
    height = max(8, round(background.shape[0] * size))
    width = min(max(8, round(image.shape[1] * height / image.shape[0])), background.shape[1])
    small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    left = 1 - width / background.shape[1]
    top = 1 - height / background.shape[0]
    return _blend(background, small, np.float32(opacity), x * left, y * top)


@edit("text")
def overlay_emoji(
    image: Image,
    emoji: int,
    opacity: float,
    size: float,
    x: float,
    y: float,
) -> Image:
    """Put AugLy's emoji number `emoji`, modulo their count, at (x, y) on the image: its height is `size` of the image's."""
    side = max(2, round(image.shape[0] * size))
    picture = cv2.resize(_emoji(emoji % len(_emoji_files())), (side, side), interpolation=cv2.INTER_AREA)
    return _blend(
        image, picture[:, :, :3], picture[:, :, 3:].astype(np.float32) * np.float32(opacity / 255), x, y
    )


@edit("text")
def overlay_text(
    image: Image,
    text: str,
    font: int,
    size: float,
    colour: list[int],
    opacity: float,
    x: float,
    y: float,
) -> Image:
    """Write `text` in one of AugLy's fonts and a `colour`: its height is `size` of the short side, its corner at (x, y)."""
    mask = text_mask(text, font)
    height = max(3, round(min(image.shape[:2]) * size))
    width = max(3, round(mask.shape[1] * height / mask.shape[0]))
    mask = as_uint8(cv2.resize(mask, (width, height), interpolation=cv2.INTER_AREA))
    return _blend(
        image,
        np.array(colour, np.uint8),
        mask[..., None].astype(np.float32) * np.float32(opacity / 255),
        x,
        y,
    )


@edit("text")
def overlay_stripes(
    image: Image,
    width: float,
    degrees: float,
    density: float,
    line: str,
    opacity: float,
    colour: list[int],
) -> Image:
    """Draw stripes of a `colour`, rotated by `degrees`, over the whole image.

    `line` is "solid", "dotted" or "dashed"; `width` and `density` are in 0…1.
    """
    mask = _stripes(image.shape[0], image.shape[1], width, degrees, density)
    if line == "dotted":
        mask &= _stripes(image.shape[0], image.shape[1], width, degrees + 90, density)
    elif line == "dashed":
        mask &= _stripes(image.shape[0], image.shape[1], 0.7, degrees + 90, density)
    values = (
        np.arange(256, dtype=np.float32)[:, None] * (1 - opacity) + np.array(colour, np.float32) * opacity
    )
    covered = cv2.LUT(image, values.astype(np.uint8)[None])
    return as_uint8(cv2.copyTo(covered, mask.view(np.uint8), image.copy()))


@edit("frame")
def meme_format(
    image: Image,
    text: str,
    font: int,
    caption: float,
    background: list[int],
    colour: list[int],
) -> Image:
    """Add a caption above the image, `caption` × the image's height high: `text` in a `font` and a `colour` on a `background`."""
    height, width = image.shape[:2]
    meme = np.empty((height + max(4, round(height * caption)), width, 3), np.uint8)
    room = meme.shape[0] - height
    meme[room:] = image
    meme[:room] = background
    mask = text_mask(text, font)
    fit = min(0.9 * width / mask.shape[1], 0.8 * room / mask.shape[0])
    size = max(2, int(mask.shape[1] * fit)), max(2, int(mask.shape[0] * fit))
    mask = as_uint8(cv2.resize(mask, size, interpolation=cv2.INTER_AREA))
    x = (width - size[0]) / 2 / width
    y = (room - size[1]) / 2 / meme.shape[0]
    return _blend(
        meme, np.array(colour, np.uint8), mask[..., None].astype(np.float32) / np.float32(255), x, y
    )


@edit("frame")
def onto_screenshot(image: Image, template: int, folder: str | None = None) -> Image:
    """Put the image into one of AugLy's screenshots, or of a folder's pages, which is scaled to fit the image.

    `template` is a number modulo their count; `read_pages` says what pages are.
    """
    templates = _screenshots() if folder is None else read_pages(folder)
    picture, (left, top, right, bottom) = templates[template % len(templates)]
    height, width = image.shape[:2]
    factor = max(width / (right - left), height / (bottom - top))
    size = max(8, round(picture.shape[1] * factor)), max(8, round(picture.shape[0] * factor))
    page = cv2.resize(picture, size, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR)
    x, y = round(left * factor), round(top * factor)
    box = page[y : round(bottom * factor), x : round(right * factor)]
    box[:] = 0
    inside = image[: box.shape[0], : box.shape[1]]
    dy = (box.shape[0] - inside.shape[0]) // 2
    dx = (box.shape[1] - inside.shape[1]) // 2
    box[dy : dy + inside.shape[0], dx : dx + inside.shape[1]] = inside
    return as_uint8(page)


@edit("frame")
def border(image: Image, width: float, colour: list[int], bar: float) -> Image:
    """Add an app's frame: a border, `width` wide, of one `colour`, below a `bar` with round buttons; both of the short side."""
    side = min(image.shape[:2])
    edge, below = round(width * side), round(bar * side)
    framed = cv2.copyMakeBorder(image, edge, edge + below, edge, edge, cv2.BORDER_CONSTANT, value=colour)
    ink = [255 - value for value in colour]
    for number in range(4 if below >= 6 else 0):
        at = int(framed.shape[1] * (0.12 + 0.12 * number)), framed.shape[0] - edge // 2 - below // 2
        cv2.circle(framed, at, max(1, below // 4), ink, -1, cv2.LINE_AA)
    return as_uint8(framed)


@edit("text")
def watermark(
    image: Image,
    text: str,
    font: int,
    opacity: float,
    size: float,
    degrees: float,
) -> Image:
    """Repeat `text` in white all over the image, rotated by `degrees`; its height is `size` of the short side."""
    height, width = image.shape[:2]
    word = text_mask(text, font)
    tall = max(4, round(min(height, width) * size))
    word = as_uint8(
        cv2.resize(
            word, (max(4, round(word.shape[1] * tall / word.shape[0])), tall), interpolation=cv2.INTER_AREA
        )
    )
    cell = np.pad(word, ((tall // 2, tall // 2), (tall, tall)))
    reach = int(np.hypot(height, width)) + 2
    field = np.tile(cell, (reach // cell.shape[0] + 1, reach // cell.shape[1] + 1))[:reach, :reach]
    matrix = cv2.getRotationMatrix2D((reach / 2, reach / 2), degrees, 1.0)
    turned = cv2.warpAffine(field, matrix, (reach, reach))[(reach - height) // 2 :, (reach - width) // 2 :][
        :height, :width
    ]
    cover = (turned[..., None] * (opacity / 255)).astype(np.float32)
    return _blend(image, np.full(3, 255, np.uint8), cover, 0, 0)


@pasting_edit("overlay")
def collage(image: Image, overlay: Image, side_by_side: bool, first: bool, share: float) -> Image:
    """Join the image and `overlay` `side_by_side` or in a column, the image `first` or last.

    `overlay` takes `share`, 0…1, of the result's length.
    """
    height, width = image.shape[:2]
    if side_by_side:
        size = max(8, round(width * share / (1 - share))), height
    else:
        size = width, max(8, round(height * share / (1 - share)))
    other = cv2.resize(overlay, size, interpolation=cv2.INTER_AREA)
    return np.concatenate([image, other] if first else [other, image], axis=1 if side_by_side else 0)


@pasting_edit("overlay", "layout")
def grid(
    image: Image,
    overlay: Image,
    rows: int,
    columns: int,
    place: int,
    gap: float,
    colour: list[int],
    size: float,
    seed: int,
) -> Image:
    """Lay the image into the cell `place`, counted by rows, of a collage; the other cells show parts of `overlay`.

    Gaps are `gap` of the image's short side wide, in one `colour`. Of the length of the image's row and another one together,
    and so of columns, the image's has `size`, 0…1.
    """
    height, width = image.shape[:2]
    row, column = divmod(place % (rows * columns), columns)
    tall = max(8, round(height * (1 - size) / size))
    wide = max(8, round(width * (1 - size) / size))
    heights = [height if number == row else tall for number in range(rows)]
    widths = [width if number == column else wide for number in range(columns)]
    edge = round(gap * min(height, width))
    result = np.empty((sum(heights) + edge * (rows + 1), sum(widths) + edge * (columns + 1), 3), np.uint8)
    result[:] = colour
    rng = np.random.default_rng(seed)
    for cell in range(rows * columns):
        down, right = divmod(cell, columns)
        top = sum(heights[:down]) + edge * (down + 1)
        left = sum(widths[:right]) + edge * (right + 1)
        shown = image
        if cell != place % (rows * columns):
            part = _cut_part(overlay, rng)
            shown = as_uint8(cv2.resize(part, (widths[right], heights[down]), interpolation=cv2.INTER_AREA))
        result[top : top + shown.shape[0], left : left + shown.shape[1]] = shown
    return result


@pasting_edit("background", "layout")
def inset(
    image: Image,
    background: Image,
    size: float,
    x: float,
    y: float,
    rim: float,
    colour: list[int],
) -> Image:
    """Put the image, with a rim of `rim` of its short side in one `colour`, on `background`, as overlay_onto_image does."""
    edge = round(rim * min(image.shape[:2]))
    framed = cv2.copyMakeBorder(image, edge, edge, edge, edge, cv2.BORDER_CONSTANT, value=colour)
    return overlay_onto_image(as_uint8(framed), background, 1.0, size, x, y)


@pasting_edit("overlay")
def sticker(
    image: Image,
    overlay: Image,
    size: float,
    x: float,
    y: float,
    seed: int,
) -> Image:
    """Put a cut-out of `overlay`, with a white rim, at (x, y) on the image: its height is `size` of the image's."""
    side = max(8, round(image.shape[0] * size))
    rng = np.random.default_rng(seed)
    turn = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    reach = (
        0.42
        * side
        * (1 + sum(rng.normal(0, 0.08) * np.cos(k * turn + rng.uniform(0, 6)) for k in (2, 3, 5)))
    )
    outline = np.stack([side / 2 + reach * np.cos(turn), side / 2 + reach * np.sin(turn)], axis=1).astype(
        np.int32
    )
    inner = np.zeros((side, side), np.uint8)
    outer = np.zeros((side, side), np.uint8)
    cv2.fillPoly(inner, [outline], 255, lineType=cv2.LINE_AA)
    cv2.fillPoly(outer, [outline], 255, lineType=cv2.LINE_AA)
    cv2.polylines(outer, [outline], True, 255, max(1, side // 14), cv2.LINE_AA)
    inside = inner[..., None].astype(np.float32) / 255
    picture = cv2.resize(overlay, (side, side), interpolation=cv2.INTER_AREA) * inside + 255 * (1 - inside)
    return _blend(image, picture.astype(np.uint8), (outer[..., None] / 255).astype(np.float32), x, y)


@edit("cover")
def hide_boxes(image: Image, share: float, count: int, shade: int, seed: int) -> Image:
    """Hide `count` boxes of one grey shade, drawn from `seed`; each covers `share` of the image."""
    height, width = image.shape[:2]
    rng, result = np.random.default_rng(seed), image.copy()
    for _ in range(count):
        ratio = float(np.exp(rng.uniform(-0.7, 0.7)))
        tall = min(1.0, (share * ratio) ** 0.5)
        wide = min(1.0, (share / ratio) ** 0.5)
        top = rng.uniform(0, 1 - tall)
        left = rng.uniform(0, 1 - wide)
        result[
            int(top * height) : int((top + tall) * height), int(left * width) : int((left + wide) * width)
        ] = shade
    return result


@edit("cover")
def scribble(image: Image, width: float, strokes: int, colour: list[int], seed: int) -> Image:
    """Draw smooth strokes of a `colour` over the image by hand; `width` is a share of the short side."""
    height, wide = image.shape[:2]
    rng, result = np.random.default_rng(seed), image.copy()
    for _ in range(strokes):
        turns = np.cumsum(rng.normal(0, 0.25, 40)) + rng.uniform(0, 2 * np.pi)
        start = rng.uniform(0, 1, 2) * (wide, height)
        path = start + np.cumsum(
            np.stack([np.cos(turns), np.sin(turns)], axis=1) * max(height, wide) / 50, axis=0
        )
        thick = max(1, round(width * min(height, wide)))
        cv2.polylines(result, [path.astype(np.int32)], False, colour, thick, cv2.LINE_AA)
    return result


@lru_cache(maxsize=4096)
def text_mask(text: str, font: int) -> UInt8s:
    """Return the text as a mask uint8 [h, w], cropped to the ink; results are cached."""
    face = _fonts()[font % len(_fonts())]
    left, top, right, bottom = face.getbbox(text)
    canvas = Pillow.new("L", (max(4, int(right - left) + 2), max(4, int(bottom - top) + 2)))
    ImageDraw.Draw(canvas).text((1 - left, 1 - top), text, fill=255, font=face)
    return np.asarray(canvas)


def _blend(image: Image, top: MatLike, cover: Float32s | np.float32, x: float, y: float) -> Image:
    """Blend `top` ([h, w, 3] or a colour [3]) in at (x, y), clipped to the image; `cover`, 0…1, is a number or [h, w, 1]."""
    height, width = (np.shape(cover) if np.ndim(cover) else top.shape)[:2]
    left = int(x * image.shape[1])
    upper = int(y * image.shape[0])
    own_left, own_upper = max(0, -left), max(0, -upper)
    right = min(width, image.shape[1] - left)
    lower = min(height, image.shape[0] - upper)
    result = image.copy()
    if right <= own_left or lower <= own_upper:
        return result
    part = result[upper + own_upper : upper + lower, left + own_left : left + right]
    weight = cover[own_upper:lower, own_left:right] if np.ndim(cover) else cover  # type: ignore[index]  # np.ndim distinguishes arrays from numbers
    over = top[own_upper:lower, own_left:right] if top.ndim == 3 else top
    part[:] = np.rint(part + weight * (over.astype(np.float32) - part)).astype(np.uint8)
    return result


def _cut_part(image: Image, rng: np.random.Generator) -> Image:
    """Cut out a part of half the sides to all of them, now and then mirrored."""
    height, width = (np.array(image.shape[:2]) * rng.uniform(0.5, 1, 2)).astype(int).clip(1)
    top = int(rng.uniform(0, image.shape[0] - height + 1))
    left = int(rng.uniform(0, image.shape[1] - width + 1))
    part = image[top : top + height, left : left + width]
    return part[:, ::-1] if rng.random() < 0.3 else part


def _stripes(height: int, width: int, line: float, degrees: float, density: float) -> Bools:
    turn = np.deg2rad(degrees)
    distance = (1 - density) * min(height, width)
    y = (np.arange(height) - height / 2)[:, None] * (2 * np.pi * np.cos(turn) / distance)
    x = (np.arange(width) - width / 2) * (2 * np.pi * np.sin(turn) / distance)
    waves = np.cos(y) * np.cos(x) - np.sin(y) * np.sin(x)  # cos(x + y), computed from rows and columns
    inside: Bools = waves > np.cos(np.pi * line)
    return inside


def _assets() -> Path:
    spec = find_spec("augly")  # locates AugLy without importing it, which takes seconds
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("augly is not installed: python -m pip install -r requirements.txt")
    return Path(spec.origin).parent / "assets"


@lru_cache(maxsize=1)
def _emoji_files() -> list[Path]:
    return sorted((_assets() / "twemojis").rglob("*.png"))


@lru_cache(maxsize=1024)
def _emoji(number: int) -> UInt8s:
    with Pillow.open(_emoji_files()[number]) as picture:
        return np.asarray(picture.convert("RGBA"))


@lru_cache(maxsize=1)
def _fonts() -> list[ImageFont.FreeTypeFont]:
    """Open every tenth of AugLy's fonts, if it has Latin letters: enough variety, opened in milliseconds."""
    fonts = [
        ImageFont.truetype(path, GLYPH_PIXELS) for path in sorted((_assets() / "fonts").glob("*.ttf"))[::10]
    ]
    # without glyphs, both are the same box
    return [font for font in fonts if bytes(font.getmask("A")) != bytes(font.getmask("b"))]


# a page, and the box (left, top, right, bottom) for the image
Template = tuple[UInt8s, tuple[int, int, int, int]]
PAGE_WIDTH = 512  # pixels: wider pages are reduced


@lru_cache(maxsize=1)
def _screenshots() -> list[Template]:
    """Load AugLy's templates."""
    folder = _assets() / "screenshot_templates"
    boxes = json.loads((folder / "bboxes.json").read_text())
    templates = []
    for name, box in sorted(boxes.items()):
        with Pillow.open(folder / name) as picture:
            templates.append(_reduce_page(picture, box))
    return templates


@lru_cache(maxsize=8)
def read_pages(folder: str) -> list[Template]:
    """Load a folder's pages: every PNG with a hole, in the box around which the image is put.

    A hole is what is wholly transparent.

    Raises:
        UserError: There is no PNG, or one has no hole of 8 × 8 pixels.
    """
    pages = []
    for path in sorted(Path(folder).glob("*.png")):
        with Pillow.open(path) as picture:
            clear = np.asarray(picture.convert("RGBA"))[..., 3] == 0
            rows = np.flatnonzero(clear.any(axis=1))
            columns = np.flatnonzero(clear.any(axis=0))
            if min(len(rows), len(columns)) < 8:
                raise UserError(
                    f"{path} has no transparent part of 8 × 8 pixels: make the place of the image transparent."
                )
            pages.append(_reduce_page(picture, [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]))
    if not pages:
        raise UserError(
            f"{folder} has no page: templates are PNG files whose place of the image is transparent."
        )
    return pages


def _reduce_page(picture: Pillow.Image, box: Sequence[int]) -> Template:
    factor = min(1, PAGE_WIDTH / picture.width)
    small = picture.convert("RGB").resize((round(picture.width * factor), round(picture.height * factor)))
    left, top, right, bottom = (round(value * factor) for value in box)
    return np.asarray(small), (left, top, right, bottom)


@pasting_edit("other", "blend")
def double_exposure(image: Image, other: Image, mode: str, strength: float) -> Image:
    """Mix with both images at once: their mean, or as light ("screen") or ink ("multiply") on one another."""
    second = as_uint8(cv2.resize(other, image.shape[1::-1], interpolation=cv2.INTER_AREA))
    if mode == "mean":
        return mix(image, second, strength / 2)
    if mode == "multiply":
        return mix(image, as_uint8(cv2.multiply(image, second, scale=1 / 255)), strength)
    return mix(image, as_uint8(255 - cv2.multiply(255 - image, 255 - second, scale=1 / 255)), strength)


@pasting_edit("other", "blend")
def fade_into(image: Image, other: Image, degrees: float, share: float) -> Image:
    """Fade the image into `other` towards `degrees`; `share` of its length is the other's."""
    second = as_uint8(cv2.resize(other, image.shape[1::-1], interpolation=cv2.INTER_AREA))
    (y, x), turn = unit_grid(image), np.deg2rad(degrees)
    along = (x * np.cos(turn) + y * np.sin(turn)) / (abs(np.cos(turn)) + abs(np.sin(turn)))
    return blend_in(image, second, np.clip((along - (1 - 2 * share)) / 0.5 + 0.5, 0, 1))


@edit("bubble")
def speech_bubbles(image: Image, count: int, size: float, fill: list[int], seed: int) -> Image:
    """Draw `count` speech bubbles of a colour `fill` with lines of writing, `size` of the width wide."""
    rng, result = np.random.default_rng(seed), image.copy()
    height, width = image.shape[:2]
    for x, y, flat, tail in rng.uniform(0, 1, (count, 4)):
        wide = max(4, round(size * width / 2))
        tall = max(3, round(wide * (0.4 + 0.3 * flat)))
        centre = (int(x * width), int(y * height))
        end = int(centre[0] + (tail - 0.5) * 3 * wide), centre[1] + 2 * tall
        cv2.fillPoly(
            result,
            [np.array([centre, (centre[0] + wide // 3, centre[1]), end], np.int32)],
            fill,
            cv2.LINE_AA,
        )
        cv2.ellipse(result, centre, (wide, tall), 0, 0, 360, fill, -1, cv2.LINE_AA)
        for line in (-0.4, 0.0, 0.4):
            start = centre[0] - round(0.6 * wide), centre[1] + round(line * tall)
            cv2.line(result, start, (start[0] + wide, start[1]), (40, 40, 40), max(1, tall // 8))
    return result


@edit("bubble")
def confetti(image: Image, count: int, size: float, seed: int) -> Image:
    """Scatter `count` coloured shapes, up to `size` of the short side wide: circles, squares and triangles."""
    rng, result = np.random.default_rng(seed), image.copy()
    height, width = image.shape[:2]
    for x, y, turn, share in rng.random((count, 4)):
        corners = int(rng.choice([3, 4, 12]))
        angles = 2 * np.pi * (np.arange(corners) / corners + turn)
        radius = max(1.5, size * min(height, width) * (0.3 + 0.7 * share) / 2)
        shape = np.stack(
            [x * width + radius * np.cos(angles), y * height + radius * np.sin(angles)], axis=1
        )
        cv2.fillPoly(result, [shape.astype(np.int32)], rng.integers(0, 256, 3).tolist(), cv2.LINE_AA)
    return result
