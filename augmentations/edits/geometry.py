"""Edits that move pixels. Images are RGB uint8 [h, w, 3] and never changed in place."""

import math
from itertools import pairwise

import cv2
import numpy as np

from image_copies.data.decode import as_uint8

from .registry import Image, displace, edit, pixel_grid, smooth_noise, unit_grid

MIN_SIDE_PIXELS = 8
SMALL_BLUR = 4.0  # pixels; a blur wider than twice this is computed on a smaller image


@edit("geometry")
def scale(image: Image, factor: float) -> Image:
    """Shrink the image by `factor`, 0…1, to no less than MIN_SIDE_PIXELS per side."""
    return _resize(image, round(image.shape[1] * factor), round(image.shape[0] * factor))


@edit("flip")
def hflip(image: Image) -> Image:
    """Mirror left and right."""
    return as_uint8(cv2.flip(image, 1))


@edit("flip")
def vflip(image: Image) -> Image:
    """Mirror top and bottom."""
    return as_uint8(cv2.flip(image, 0))


@edit("geometry")
def rotate(image: Image, degrees: float) -> Image:
    """Rotate counter-clockwise by `degrees` and crop to the largest upright rectangle without black corners."""
    height, width = image.shape[:2]
    kept_width, kept_height = _largest_upright(width, height, degrees)
    matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), degrees, 1.0)
    matrix[0, 2] -= (width - kept_width) / 2
    matrix[1, 2] -= (height - kept_height) / 2
    size = max(MIN_SIDE_PIXELS, int(kept_width)), max(MIN_SIDE_PIXELS, int(kept_height))
    return as_uint8(
        cv2.warpAffine(image, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    )


@edit("geometry")
def rotate_whole(image: Image, degrees: float, colour: list[int]) -> Image:
    """Rotate counter-clockwise by `degrees` on a canvas that contains the whole image; the corners get the RGB `colour`."""
    height, width = image.shape[:2]
    sine = abs(math.sin(math.radians(degrees)))
    cosine = abs(math.cos(math.radians(degrees)))
    size = (
        max(MIN_SIDE_PIXELS, round(width * cosine + height * sine)),
        max(MIN_SIDE_PIXELS, round(width * sine + height * cosine)),
    )
    matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), degrees, 1.0)
    matrix[:, 2] += (size[0] - width) / 2, (size[1] - height) / 2
    turned = cv2.warpAffine(
        image, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=colour
    )
    return as_uint8(turned)


@edit("geometry")
def perspective(image: Image, corner_shifts: list[list[float]], crop_border: bool) -> Image:
    """Move the corners by `corner_shifts` [4, 2] = (x, y), as fractions of the short side.

    The corners are, in order, top left, top right, bottom right and bottom left. The black border is kept or, with `crop_border`,
    cropped as far as the corners moved inwards.
    """
    height, width = image.shape[:2]
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    moved = corners + np.array(corner_shifts, np.float32) * min(height, width)
    warped = cv2.warpPerspective(
        image, cv2.getPerspectiveTransform(corners, moved), (width, height), flags=cv2.INTER_LINEAR
    )
    if crop_border:
        left = max(moved[0, 0], moved[3, 0], 0)
        right = min(moved[1, 0], moved[2, 0], width)
        top = max(moved[0, 1], moved[1, 1], 0)
        bottom = min(moved[2, 1], moved[3, 1], height)
        if right - left >= MIN_SIDE_PIXELS and bottom - top >= MIN_SIDE_PIXELS:
            warped = warped[math.ceil(top) : int(bottom), math.ceil(left) : int(right)]
    return as_uint8(warped)


@edit("crop")
def crop(image: Image, x1: float, y1: float, x2: float, y2: float) -> Image:
    """Crop to the corners (x1, y1) and (x2, y2), fractions of width and height; at least MIN_SIDE_PIXELS per side remain."""
    top, bottom = _span(y1, y2, image.shape[0])
    left, right = _span(x1, x2, image.shape[1])
    return image[
        top:bottom, left:right
    ].copy()  # a crop of whole rows would otherwise be a view of the input


@edit("frame")
def pad(image: Image, width_share: float, height_share: float, colour: list[int]) -> Image:
    """Add a border of one RGB colour, fractions of width and height wide on each side."""
    x = round(image.shape[1] * width_share)
    y = round(image.shape[0] * height_share)
    return as_uint8(cv2.copyMakeBorder(image, y, y, x, x, cv2.BORDER_CONSTANT, value=colour))


@edit("frame")
def pad_to_square(image: Image, colour: list[int]) -> Image:
    """Add borders of one RGB colour until the image is square."""
    height, width = image.shape[:2]
    x, y = max(0, height - width), max(0, width - height)
    return as_uint8(
        cv2.copyMakeBorder(image, y // 2, y - y // 2, x // 2, x - x // 2, cv2.BORDER_CONSTANT, value=colour)
    )


@edit("frame")
def letterbox(image: Image, width: float, height: float, colour: list[int] | None) -> Image:
    """Centre the image on a canvas `width` and `height` times as large (each at least 1).

    The canvas has the RGB `colour` or, with None, is filled with the image itself, enlarged and blurred, as apps do with
    pictures of another aspect ratio.
    """
    tall, wide = image.shape[:2]
    size = max(wide, round(wide * width)), max(tall, round(tall * height))
    if colour is None:
        canvas = _enlarge_blurred(image, size, max(1.0, 0.06 * max(size)))
    else:
        canvas = np.full((size[1], size[0], 3), colour, np.uint8)
    left, top = (size[0] - wide) // 2, (size[1] - tall) // 2
    canvas[top : top + tall, left : left + wide] = image
    return canvas


@edit("warp")
def lens(image: Image, strength: float) -> Image:
    """Bend the image as a wide-angle lens does (strength above 0) or the other way (below 0); the corners move most."""
    height, width = image.shape[:2]
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    # so that no corner comes from outside
    factor = (1 + strength * (x * x + y * y)) / (1 + max(0.0, 2 * strength))
    return displace(image, (x * factor + 1) / 2 * (width - 1), (y * factor + 1) / 2 * (height - 1))


@edit("warp")
def wave(image: Image, amplitude: float, periods: float, upright: bool) -> Image:
    """Let rows, or with `upright` columns, swing by `amplitude` of the short side, `periods` times over the image."""
    height, width = image.shape[:2]
    y, x = np.meshgrid(
        np.arange(height, dtype=np.float64), np.arange(width, dtype=np.float64), indexing="ij"
    )
    reach = amplitude * min(height, width)
    if upright:
        return displace(image, x, y + reach * np.sin(2 * np.pi * periods * x / width))
    return displace(image, x + reach * np.sin(2 * np.pi * periods * y / height), y)


@edit("warp")
def shear(image: Image, share: float) -> Image:
    """Lean the image sideways: its top moves by `share` of the height, −1…1, and the wedges at the sides are cut off."""
    height, width = image.shape[:2]
    lean = float(np.clip(share * height, MIN_SIDE_PIXELS - width, width - MIN_SIDE_PIXELS))
    matrix = np.array([[1, lean / height, -max(0.0, lean)], [0, 1, 0]])
    size = max(MIN_SIDE_PIXELS, width - math.ceil(abs(lean))), height
    return as_uint8(
        cv2.warpAffine(image, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    )


def _span(start: float, end: float, length: int) -> tuple[int, int]:
    first, last = int(start * length), int(end * length)
    if last - first < MIN_SIDE_PIXELS:
        middle = (first + last) // 2
        first = int(np.clip(middle - MIN_SIDE_PIXELS // 2, 0, max(0, length - MIN_SIDE_PIXELS)))
        last = min(length, first + MIN_SIDE_PIXELS)
    return first, last


def _largest_upright(width: int, height: int, degrees: float) -> tuple[float, float]:
    """Return width and height of the largest upright rectangle inside the rotated image."""
    sine = abs(math.sin(math.radians(degrees)))
    cosine = abs(math.cos(math.radians(degrees)))
    long, short = max(width, height), min(width, height)
    if short <= 2 * sine * cosine * long or abs(sine - cosine) < 1e-10:
        half = short / 2
        return (half / sine, half / cosine) if width >= height else (half / cosine, half / sine)
    double = cosine * cosine - sine * sine
    return (width * cosine - height * sine) / double, (height * cosine - width * sine) / double


def _enlarge_blurred(image: Image, size: tuple[int, int], blur: float) -> Image:
    """Resize to `size` (width, height) with a Gaussian blur of deviation `blur` in pixels, computed at a smaller size.

    As if blurred at its whole size, to a few grey levels: a blur leaves nothing that the smaller one lacks, and the time of a
    direct one grows with the third power of the side.
    """
    factor = max(1, int(blur // SMALL_BLUR))
    small = max(1, round(size[0] / factor)), max(1, round(size[1] / factor))
    resized = cv2.resize(image, small, interpolation=cv2.INTER_AREA if factor > 1 else cv2.INTER_LINEAR)
    deviations = blur * small[0] / size[0], blur * small[1] / size[1]
    border = cv2.BORDER_REFLECT if factor > 1 else cv2.BORDER_REFLECT_101
    blurred = cv2.GaussianBlur(
        resized, (0, 0), sigmaX=deviations[0], sigmaY=deviations[1], borderType=border
    )
    return as_uint8(blurred if factor == 1 else cv2.resize(blurred, size, interpolation=cv2.INTER_LINEAR))


def _resize(image: Image, width: int, height: int) -> Image:
    size = max(MIN_SIDE_PIXELS, width), max(MIN_SIDE_PIXELS, height)
    return as_uint8(cv2.resize(image, size, interpolation=cv2.INTER_AREA))


@edit("swirl")
def swirl(image: Image, degrees: float, x: float, y: float) -> Image:
    """Turn the image by `degrees` at (x, y), −1…1, and by less and less outwards."""
    down, right = (axis - centre for axis, centre in zip(unit_grid(image), (y, x), strict=True))
    turn = np.deg2rad(degrees) * np.exp(-2 * (down * down + right * right))
    sine, cosine = np.sin(turn), np.cos(turn)
    places = right * cosine - down * sine + x, right * sine + down * cosine + y
    height, width = image.shape[:2]
    return displace(image, (places[0] + 1) / 2 * (width - 1), (places[1] + 1) / 2 * (height - 1))


@edit("swirl")
def ripple(image: Image, amplitude: float, rings: float) -> Image:
    """Let `rings` waves run outwards from the middle, as on water; `amplitude` is a share of the short side."""
    (down, right), (y, x) = unit_grid(image), pixel_grid(image)
    away = np.hypot(down, right) + 1e-6
    push = amplitude * min(image.shape[:2]) * np.sin(2 * np.pi * rings * away) / away
    return displace(image, x + push * right, y + push * down)


@edit("swirl")
def crumple(image: Image, reach: float, cells: int, seed: int) -> Image:
    """Move every pixel by about `reach` of the short side, smoothly: by random fields of `cells` hills per side."""
    rng = np.random.default_rng(seed)
    y, x = pixel_grid(image)
    length = reach * min(image.shape[:2])
    return displace(
        image, x + length * smooth_noise(image, cells, rng), y + length * smooth_noise(image, cells, rng)
    )


@edit("tiles")
def shuffle_tiles(image: Image, rows: int, columns: int, share: float, seed: int) -> Image:
    """Cut into `rows` × `columns` tiles and exchange a `share` of them, drawn from `seed`."""
    tall = image.shape[0] // rows
    wide = image.shape[1] // columns
    rng = np.random.default_rng(seed)
    result = image.copy()
    moved = rng.permutation(rows * columns)[: max(2, round(share * rows * columns))]
    for place, origin in zip(moved.tolist(), np.roll(moved, 1).tolist(), strict=True):
        y, x = divmod(place, columns)
        top, left = divmod(origin, columns)
        result[y * tall : (y + 1) * tall, x * wide : (x + 1) * wide] = image[
            top * tall : (top + 1) * tall, left * wide : (left + 1) * wide
        ]
    return result


@edit("tiles")
def space_tiles(image: Image, rows: int, columns: int, gap: float, colour: list[int]) -> Image:
    """Cut into `rows` × `columns` tiles and move them apart by a `gap` of the short side, on a `colour`."""
    tall = image.shape[0] // rows
    wide = image.shape[1] // columns
    space = round(gap * min(image.shape[:2]))
    result = np.full((rows * (tall + space) + space, columns * (wide + space) + space, 3), colour, np.uint8)
    for row in range(rows):
        for column in range(columns):
            tile = image[row * tall : (row + 1) * tall, column * wide : (column + 1) * wide]
            top = space + row * (tall + space)
            left = space + column * (wide + space)
            result[top : top + tall, left : left + wide] = tile
    return result


@edit("tiles")
def mirror_part(image: Image, share: float, upright: bool, first: bool) -> Image:
    """Replace a `share`, up to 0.5, at one side by the mirror image of what is next to it."""
    turned = image.swapaxes(0, 1) if upright else image
    turned = (turned if first else turned[:, ::-1]).copy()
    width = max(1, round(share * turned.shape[1]))
    turned[:, :width] = turned[:, width : 2 * width][:, ::-1]
    turned = turned if first else turned[:, ::-1]
    return np.ascontiguousarray(turned.swapaxes(0, 1) if upright else turned)


@edit("tiles")
def repeat(image: Image, rows: int, columns: int, mirrored: bool) -> Image:
    """Show the image `rows` × `columns` times, every second one `mirrored`."""
    height, width = image.shape[:2]
    size = max(8, round(width / max(rows, columns) * 1.5)), max(8, round(height / max(rows, columns) * 1.5))
    small = as_uint8(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
    pair = [small, as_uint8(cv2.flip(small, 1)) if mirrored else small]
    return np.concatenate(
        [np.concatenate([pair[(r + c) % 2] for c in range(columns)], axis=1) for r in range(rows)]
    )


@edit("tiles")
def shift_strips(image: Image, count: int, share: float, upright: bool) -> Image:
    """Cut into `count` strips and push every second one by a `share` of its length, round to the other end."""
    turned = image if upright else image.swapaxes(0, 1)
    result = turned.copy()
    edges = np.linspace(0, turned.shape[1], count + 1).astype(int)
    for start, end in list(pairwise(edges))[1::2]:
        result[:, start:end] = np.roll(turned[:, start:end], round(share * turned.shape[0]), axis=0)
    return np.ascontiguousarray(result if upright else result.swapaxes(0, 1))
