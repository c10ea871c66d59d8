"""Edits that move pixels. Images are uint8 [h, w, 3] RGB and never changed in place."""

import math

import cv2
import numpy as np

from augmentations.edits.registry import Image, edit
from data.pixels import as_uint8

MIN_SIDE_PIXELS = 8


@edit
def scale(image: Image, factor: float) -> Image:
    """Shrink the image by `factor`, at most 1; at least 8 pixels a side stay."""
    return _resize(image, round(image.shape[1] * factor), round(image.shape[0] * factor))


@edit
def hflip(image: Image) -> Image:
    """Mirror left and right."""
    return as_uint8(cv2.flip(image, 1))


@edit
def vflip(image: Image) -> Image:
    """Mirror top and bottom."""
    return as_uint8(cv2.flip(image, 0))


@edit
def rotate(image: Image, degrees: float) -> Image:
    """Turn counter-clockwise by `degrees` and keep the largest upright rectangle without black corners."""
    height, width = image.shape[:2]
    kept_width, kept_height = _largest_upright(width, height, degrees)
    matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), degrees, 1.0)
    matrix[0, 2] -= (width - kept_width) / 2
    matrix[1, 2] -= (height - kept_height) / 2
    size = max(MIN_SIDE_PIXELS, int(kept_width)), max(MIN_SIDE_PIXELS, int(kept_height))
    return as_uint8(cv2.warpAffine(image, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101))


@edit
def rotate_whole(image: Image, degrees: float, colour: list[int]) -> Image:
    """Turn counter-clockwise by `degrees` on a canvas that holds the whole image; the corners are filled with `colour`."""
    height, width = image.shape[:2]
    sine, cosine = abs(math.sin(math.radians(degrees))), abs(math.cos(math.radians(degrees)))
    size = (
        max(MIN_SIDE_PIXELS, round(width * cosine + height * sine)),
        max(MIN_SIDE_PIXELS, round(width * sine + height * cosine)),
    )
    matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), degrees, 1.0)
    matrix[:, 2] += (size[0] - width) / 2, (size[1] - height) / 2
    turned = cv2.warpAffine(image, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=colour)
    return as_uint8(turned)


@edit
def perspective(image: Image, corner_shifts: list[list[float]], crop_border: bool) -> Image:
    """Move the four corners (top left, top right, bottom right, bottom left) by shares of the short side [4, 2].

    The black border is kept or, with `crop_border`, cropped as far as the corners moved inwards.
    """
    height, width = image.shape[:2]
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    moved = corners + np.array(corner_shifts, np.float32) * min(height, width)
    warped = cv2.warpPerspective(image, cv2.getPerspectiveTransform(corners, moved), (width, height), flags=cv2.INTER_LINEAR)
    if crop_border:
        left, right = max(moved[0, 0], moved[3, 0], 0), min(moved[1, 0], moved[2, 0], width)
        top, bottom = max(moved[0, 1], moved[1, 1], 0), min(moved[2, 1], moved[3, 1], height)
        if right - left >= MIN_SIDE_PIXELS and bottom - top >= MIN_SIDE_PIXELS:
            warped = warped[math.ceil(top) : int(bottom), math.ceil(left) : int(right)]
    return as_uint8(warped)


@edit
def crop(image: Image, x1: float, y1: float, x2: float, y2: float) -> Image:
    """Keep the part between the corners, given as shares of width and height; at least 8 pixels a side."""
    height, width = image.shape[:2]
    left, right = _span(x1, x2, width)
    top, bottom = _span(y1, y2, height)
    return image[top:bottom, left:right].copy()  # a crop of whole rows would else be a view of the input


@edit
def resized_crop(image: Image, area: float, ratio: float, x: float, y: float) -> Image:
    """Cut out a part of `area` × the image's area and aspect `ratio` (width / height), at shares (x, y) of the room left."""
    height, width = image.shape[:2]
    part_width = int(np.clip(round((area * height * width * ratio) ** 0.5), 2, width))
    part_height = int(np.clip(round((area * height * width / ratio) ** 0.5), 2, height))
    left, top = round(x * (width - part_width)), round(y * (height - part_height))
    return image[top : top + part_height, left : left + part_width].copy()  # never a view of the input


@edit
def pad(image: Image, width_share: float, height_share: float, colour: list[int]) -> Image:
    """Add a border of one colour: shares of width and height on each side."""
    x, y = round(image.shape[1] * width_share), round(image.shape[0] * height_share)
    return as_uint8(cv2.copyMakeBorder(image, y, y, x, x, cv2.BORDER_CONSTANT, value=colour))


@edit
def pad_to_square(image: Image, colour: list[int]) -> Image:
    """Add borders of one colour to the shorter sides, until the image is square."""
    height, width = image.shape[:2]
    x, y = max(0, height - width), max(0, width - height)
    return as_uint8(cv2.copyMakeBorder(image, y // 2, y - y // 2, x // 2, x - x // 2, cv2.BORDER_CONSTANT, value=colour))


@edit
def letterbox(image: Image, width: float, height: float, colour: list[int] | None) -> Image:
    """Centre the image on a canvas `width` and `height` times as large (each at least 1).

    The canvas has one colour or, without one, is filled with the image itself, enlarged and blurred, as apps do with pictures
    of another shape.
    """
    tall, wide = image.shape[:2]
    size = max(wide, round(wide * width)), max(tall, round(tall * height))
    if colour is None:
        blur = max(1.0, 0.06 * max(size))
        canvas = as_uint8(cv2.GaussianBlur(cv2.resize(image, size, interpolation=cv2.INTER_LINEAR), (0, 0), blur))
    else:
        canvas = np.full((size[1], size[0], 3), colour, np.uint8)
    left, top = (size[0] - wide) // 2, (size[1] - tall) // 2
    canvas[top : top + tall, left : left + wide] = image
    return canvas


def _span(start: float, end: float, length: int) -> tuple[int, int]:
    first, last = int(start * length), int(end * length)
    if last - first < MIN_SIDE_PIXELS:
        middle = (first + last) // 2
        first = int(np.clip(middle - MIN_SIDE_PIXELS // 2, 0, max(0, length - MIN_SIDE_PIXELS)))
        last = min(length, first + MIN_SIDE_PIXELS)
    return first, last


def _largest_upright(width: int, height: int, degrees: float) -> tuple[float, float]:
    """Width and height of the largest upright rectangle inside the turned one."""
    sine, cosine = abs(math.sin(math.radians(degrees))), abs(math.cos(math.radians(degrees)))
    long, short = max(width, height), min(width, height)
    if short <= 2 * sine * cosine * long or abs(sine - cosine) < 1e-10:
        half = short / 2
        return (half / sine, half / cosine) if width >= height else (half / cosine, half / sine)
    double = cosine * cosine - sine * sine
    return (width * cosine - height * sine) / double, (height * cosine - width * sine) / double


def _resize(image: Image, width: int, height: int) -> Image:
    size = max(MIN_SIDE_PIXELS, width), max(MIN_SIDE_PIXELS, height)
    return as_uint8(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
