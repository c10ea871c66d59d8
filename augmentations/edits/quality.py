"""Edits that lose detail, and those that look like faults of transmission.

Images are RGB uint8 [h, w, 3] and never changed in place. Lengths are in pixels of an image with a short side of TUNED_SIDE and
scale with the image.
"""

import cv2
import numpy as np

from image_copies.data.decode import as_uint8

from .registry import TUNED_SIDE, Image, displace, edit, pixel_grid, scale_length

# the kernel of Pillow's sharpness
SMOOTHING_KERNEL = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13


@edit("quality")
def encoding_quality(image: Image, quality: int) -> Image:
    """Encode as JPEG at `quality`, 1…100, and decode again."""
    _, encoded = cv2.imencode(
        ".jpg",
        cv2.cvtColor(image, cv2.COLOR_RGB2BGR),
        [cv2.IMWRITE_JPEG_QUALITY, int(np.clip(quality, 1, 100))],
    )
    return as_uint8(cv2.imdecode(encoded, cv2.IMREAD_COLOR_RGB))


@edit("quality")
def blur(image: Image, radius: float) -> Image:
    """Apply a Gaussian blur; `radius` in pixels of an image with a short side of TUNED_SIDE."""
    sigma = radius * min(image.shape[:2]) / TUNED_SIDE
    return as_uint8(cv2.GaussianBlur(image, (0, 0), sigma) if sigma > 0.1 else image.copy())


@edit("quality")
def sharpen(image: Image, factor: float) -> Image:
    """Extrapolate from a smoothed copy by `factor`; 1 changes nothing."""
    smooth = cv2.filter2D(image, -1, SMOOTHING_KERNEL)
    return as_uint8(cv2.addWeighted(image, factor, smooth, 1 - factor, 0))


@edit("quality")
def shuffle_pixels(image: Image, share: float, seed: int) -> Image:
    """Permute a fraction `share`, 0…1, of the pixels, chosen by `seed`."""
    flat = image.reshape(-1, 3).copy()
    rng = np.random.default_rng(seed)
    places = rng.choice(len(flat), int(len(flat) * share), replace=False, shuffle=False)
    flat[places] = flat[rng.permutation(places)]
    return flat.reshape(image.shape)


@edit("quality")
def pixelization(image: Image, ratio: float) -> Image:
    """Shrink by `ratio`, 0…1, and enlarge again in blocks."""
    height, width = image.shape[:2]
    small = cv2.resize(
        image, (max(1, round(width * ratio)), max(1, round(height * ratio))), interpolation=cv2.INTER_AREA
    )
    return as_uint8(cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST))


@edit("quality")
def double_compression(image: Image, factor: float, first: int, second: int) -> Image:
    """Encode as JPEG at `factor` × the size, then again at the original size, as when an image passes through several platforms.

    `first` and `second` are the JPEG qualities, 1…100.
    """
    height, width = image.shape[:2]
    small = cv2.resize(
        image, (max(8, round(width * factor)), max(8, round(height * factor))), interpolation=cv2.INTER_AREA
    )
    smaller = encoding_quality(np.asarray(small, np.uint8), first)
    again = cv2.resize(smaller, (width, height), interpolation=cv2.INTER_LINEAR)
    return encoding_quality(np.asarray(again, np.uint8), second)


@edit("quality")
def moire(image: Image, period: float, degrees: float, strength: float) -> Image:
    """Imitate a photographed screen: stripes of a `strength` 0…1 at `degrees`, their `period` in pixels at TUNED_SIDE."""
    height, width = image.shape[:2]
    y = np.arange(height, dtype=np.float32)[:, None]
    x = np.arange(width, dtype=np.float32)
    period = max(2.2, period * min(height, width) / TUNED_SIDE)
    turn = np.deg2rad(degrees)
    phase = (x * np.cos(turn) + y * np.sin(turn)) * (2 * np.pi / period)
    waves = np.stack([np.sin(phase), np.sin(phase + 2.1), np.sin(phase * 1.03 + 4.2)], axis=2)
    return np.clip(image * (1 + strength * waves), 0, 255).astype(np.uint8)


@edit("noise")
def grain(image: Image, deviation: float, size: float, seed: int) -> Image:
    """Add the grain of film or of a dark scene, drawn from `seed`; `deviation` in grey levels, `size` in pixels at TUNED_SIDE."""
    height, width = image.shape[:2]
    clump = max(1.0, size * min(height, width) / TUNED_SIDE)
    rows = max(2, round(height / clump))
    columns = max(2, round(width / clump))
    noise = np.random.default_rng(seed).standard_normal((rows, columns), np.float32) * deviation
    spread = cv2.resize(noise, (width, height), interpolation=cv2.INTER_NEAREST)
    grained: Image = np.clip(image + spread[..., None], 0, 255).astype(np.uint8)
    return grained


@edit("noise")
def motion_blur(image: Image, length: float, degrees: float) -> Image:
    """Smear along a direction of `degrees`, as a moved camera does; `length` in pixels at TUNED_SIDE."""
    reach = length * min(image.shape[:2]) / TUNED_SIDE
    side = 2 * int(np.ceil(reach / 2)) + 1
    kernel = np.zeros((side, side), np.float32)
    middle = side // 2
    along = np.array([np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))]) * reach / 2
    ends = [tuple(np.rint(middle + sign * along).astype(int).tolist()) for sign in (-1, 1)]
    cv2.line(kernel, ends[0], ends[1], 1.0)
    return as_uint8(cv2.filter2D(image, -1, kernel / kernel.sum(), borderType=cv2.BORDER_REFLECT_101))


@edit("optics")
def zoom_blur(image: Image, reach: float) -> Image:
    """Blur from the middle outwards, as when zooming while the shutter is open: enlarged by up to 1 + `reach`."""
    height, width = image.shape[:2]
    total = np.zeros(image.shape, np.float32)
    for factor in np.linspace(1, 1 + reach, 8):
        matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), 0, factor)
        total += cv2.warpAffine(image, matrix, (width, height), borderMode=cv2.BORDER_REFLECT_101)
    return np.rint(total / 8).astype(np.uint8)


@edit("optics")
def defocus(image: Image, radius: float) -> Image:
    """Spread every point over a disc of `radius`, as a lens out of focus does."""
    reach = scale_length(radius, image, 0.5)
    across = np.arange(-int(np.ceil(reach)), int(np.ceil(reach)) + 1)
    disc = np.clip(reach + 0.5 - np.hypot(across[:, None], across), 0, 1).astype(np.float32)
    return as_uint8(cv2.filter2D(image, -1, disc / disc.sum(), borderType=cv2.BORDER_REFLECT_101))


@edit("optics")
def frosted_glass(image: Image, reach: float, seed: int) -> Image:
    """Take every pixel from somewhere within `reach`, as seen through rough glass."""
    height, width = image.shape[:2]
    away = np.random.default_rng(seed).uniform(-1, 1, (2, height, width)).astype(np.float32) * scale_length(
        reach, image, 0.0
    )
    y, x = pixel_grid(image)
    return displace(image, x + away[0], y + away[1])


@edit("glitch")
def tear_rows(image: Image, count: int, reach: float, seed: int) -> Image:
    """Push `count` bands of rows sideways by up to `reach` of the width, each channel a little further."""
    rng, result = np.random.default_rng(seed), image.copy()
    height, width = image.shape[:2]
    for top, share, push, apart in rng.random((count, 4)):
        rows = slice(int(top * height), int(top * height + (0.02 + 0.13 * share) * height) + 1)
        for channel in range(3):
            by = round((2 * push - 1 + 0.3 * apart * channel) * reach * width)
            result[rows, :, channel] = np.roll(image[rows, :, channel], by, axis=1)
    return result


@edit("glitch")
def break_blocks(image: Image, count: int, size: float, seed: int) -> Image:
    """Replace `count` blocks, up to `size` of the sides large, by others of the image in wrong channels, or by one colour."""
    rng, result = np.random.default_rng(seed), image.copy()
    height, width = image.shape[:2]
    for _ in range(count):
        tall = 2 + int(rng.random() * size * height / 2)
        wide = 2 + int(rng.random() * size * width)
        top, y = rng.integers(0, height - tall, 2)
        left, x = rng.integers(0, width - wide, 2)
        block = image[y : y + tall, x : x + wide]
        result[top : top + tall, left : left + wide] = (
            block[:1, :1] if rng.random() < 0.3 else block[..., rng.permutation(3)]
        )
    return result


@edit("glitch")
def scan_lines(image: Image, period: float, strength: float, shift: float) -> Image:
    """Darken every second line by `strength` and push it sideways by `shift` of the width; `period` in pixels at TUNED_SIDE."""
    y, _ = pixel_grid(image)
    odd = (y[:, 0] / scale_length(period, image, 2.0) % 1) >= 0.5
    result = image.copy()
    result[odd] = (
        np.roll(image[odd], round(shift * image.shape[1]), axis=1) * np.float32(1 - strength)
    ).astype(np.uint8)
    return result
