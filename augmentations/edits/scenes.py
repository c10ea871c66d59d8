"""Edits that look like weather, documents, prints, screens and cut outlines."""

import cv2
import numpy as np

from image_copies.data.decode import as_uint8

from .registry import (
    Image,
    blend_in,
    coloured,
    edit,
    grey_of,
    mix,
    pixel_grid,
    scale_length,
    smooth_noise,
    unit_grid,
)


@edit("weather")
def rain(
    image: Image,
    drops: int,
    length: float,
    degrees: float,
    strength: float,
    seed: int,
) -> Image:
    """Draw `drops` light streaks, `length` of the short side long, at `degrees` from upright, and dull the image."""
    height, width = image.shape[:2]
    cover = np.zeros((height, width), np.uint8)
    short = min(height, width)
    lean = np.array([np.sin(np.deg2rad(degrees)), np.cos(np.deg2rad(degrees))]) * length * short
    starts = np.random.default_rng(seed).random((drops, 2)) * (width, height)
    streaks = np.stack([starts, starts + lean], axis=1).astype(np.int32)
    cv2.polylines(cover, list(streaks), False, 255, max(1, short // 150), cv2.LINE_AA)
    dull = as_uint8(cv2.convertScaleAbs(image, alpha=1 - 0.4 * strength, beta=40 * strength))
    return blend_in(dull, [225, 230, 240], cover.astype(np.float32) * np.float32(strength / 255))


@edit("weather")
def snow(image: Image, flakes: int, size: float, strength: float, seed: int) -> Image:
    """Let `flakes` fall, up to `size` of the short side wide, and brighten the image."""
    height, width = image.shape[:2]
    cover = np.zeros((height, width), np.uint8)
    for y, x, wide in np.random.default_rng(seed).random((flakes, 3)):
        radius = max(1, round(size * min(height, width) * (0.3 + 0.7 * wide) / 2))
        cv2.circle(cover, (int(x * width), int(y * height)), radius, 255, -1, cv2.LINE_AA)
    soft = cv2.GaussianBlur(cover, (0, 0), 0.8)
    bright = as_uint8(cv2.convertScaleAbs(image, alpha=1 - 0.3 * strength, beta=75 * strength))
    return blend_in(bright, [255, 255, 255], soft.astype(np.float32) / np.float32(255))


@edit("weather")
def fog(image: Image, density: float, cells: int, seed: int) -> Image:
    """Hide the image behind light fog of `density` 0…1 with `cells` clouds per side, drawn from `seed`."""
    clouds = smooth_noise(image, cells, np.random.default_rng(seed))
    return blend_in(image, [215, 218, 222], np.clip(density * (1 + 0.5 * clouds), 0, 1))


@edit("weather")
def shadow(image: Image, x: float, degrees: float, width: float, darkness: float) -> Image:
    """Darken a soft band through (x, 0), `width` wide, both in units of half a side, at `degrees`, as window bars do."""
    (down, right), turn = unit_grid(image), np.deg2rad(degrees)
    away = np.abs((right - x) * np.cos(turn) + down * np.sin(turn))
    return blend_in(image, [0, 0, 0], darkness * np.clip((width - away) * 8 + 0.5, 0, 1))


@edit("weather")
def glow(
    image: Image,
    x: float,
    y: float,
    reach: float,
    colour: list[int],
    strength: float,
) -> Image:
    """Let light of a `colour` leak in around (x, y), `reach` wide, all in units of half a side."""
    down, right = unit_grid(image)
    light = np.exp(-((down - y) ** 2 + (right - x) ** 2) / reach**2)
    lit: Image = np.clip(image + strength * light[..., None] * np.array(colour, np.float32), 0, 255).astype(
        np.uint8
    )
    return lit


@edit("weather")
def vignette(
    image: Image,
    x: float,
    y: float,
    reach: float,
    stretch: float,
    power: float,
    darkness: float,
) -> Image:
    """Darken smoothly away from (x, y), by `darkness` 0…1 from `reach` on: an ellipse `stretch` times as wide as high.

    Places and lengths are in units of half a side; `power` is how late the shade sets in.
    """
    down, right = unit_grid(image)
    away = np.hypot((right - x) / stretch, (down - y) * stretch) / reach
    return blend_in(image, [0, 0, 0], darkness * np.clip(away, 0, 1) ** power)


@edit("paper")
def in_document(
    image: Image,
    size: float,
    x: float,
    y: float,
    lines: int,
    seed: int,
) -> Image:
    """Put the image on a page of `lines` of writing, `size` of its width wide; (x, y) go from top left to bottom right."""
    height, width = image.shape[:2]
    wide = round(width / size)
    tall = round(max(width, height) / size * 1.2)
    page = np.full((tall, wide, 3), 250, np.uint8)
    rng = np.random.default_rng(seed)
    step, margin = tall / (lines + 1), wide // 16
    for line in range(lines):
        top = int((line + 0.7) * step)
        for start in range(margin, int(wide - margin - rng.random() * wide * 0.3), max(4, wide // 12)):
            page[
                top : top + max(1, int(step / 3)), start : start + int(wide / 12 * rng.uniform(0.4, 0.9))
            ] = 70
    top = round(y * (tall - height))
    left = round(x * (wide - width))
    page[
        max(0, top - margin // 2) : top + height + margin // 2,
        max(0, left - margin // 2) : left + width + margin // 2,
    ] = 250
    page[top : top + height, left : left + width] = image
    return page


@edit("paper")
def photocopy(image: Image, contrast: float, specks: float, strength: float, seed: int) -> Image:
    """Mix with a photocopy: grey, a `contrast`, black and white `specks` as a share of the pixels."""
    noise = np.random.default_rng(seed).random(image.shape[:2], np.float32)
    copied = np.clip((grey_of(image) - np.float32(150)) * contrast + 170, 0, 255)
    copied[noise < specks / 2] = 0
    copied[noise > 1 - specks / 2] = 255
    return mix(image, coloured(copied.astype(np.uint8)), strength)


@edit("paper")
def creases(image: Image, folds: int, strength: float, seed: int) -> Image:
    """Fold the print `folds` times: light lines, each side of which is shaded otherwise."""
    y, x = unit_grid(image)
    shade = np.ones(image.shape[:2], np.float32)
    lines = np.zeros(image.shape[:2], np.float32)
    for turn, offset, depth in np.random.default_rng(seed).uniform(-1, 1, (folds, 3)):
        away = x * np.cos(np.pi * turn) + y * np.sin(np.pi * turn) - 0.8 * offset
        shade *= 1 + strength * 0.45 * depth * np.tanh(6 * away) * np.exp(-np.abs(away))
        lines = np.maximum(lines, np.clip(1 - np.abs(away) * min(image.shape[:2]) / 3, 0, 1))
    shaded = np.clip(image * shade[..., None], 0, 255).astype(np.uint8)
    return blend_in(shaded, [245, 243, 238], strength * lines)


@edit("paper")
def stains(image: Image, share: float, colour: list[int], strength: float, seed: int) -> Image:
    """Spill something of a `colour` over about `share` of the image, darker at its rim."""
    spread = smooth_noise(image, 4, np.random.default_rng(seed))
    level = np.quantile(spread[::4, ::4], 1 - share)
    inside = np.clip((spread - level) * 12, 0, 1)
    rim = np.clip(1 - np.abs(spread - level) * 8, 0, 1)
    return blend_in(image, colour, strength * np.clip(0.7 * inside + 0.3 * rim, 0, 1))


@edit("paper")
def photographed_print(
    image: Image,
    yellow: float,
    shade: float,
    fibre: float,
    shifts: list[list[float]],
    seed: int,
) -> Image:
    """Photograph a print: pale `yellow`ish paper with `fibre`, `shade`d to one side, corners moved by `shifts` [4, 2]."""
    height, width = image.shape[:2]
    rng, (y, x) = np.random.default_rng(seed), unit_grid(image)
    paper = np.array([250, 246 - 20 * yellow, 238 - 70 * yellow], np.float32)
    light = (
        1 - shade * (0.5 + 0.5 * (x * np.sign(shifts[0][0]) + y) / 2) + fibre * smooth_noise(image, 40, rng)
    )
    inked = (25 + image * np.float32(0.86)) / 255 * paper * light[..., None]
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(
        corners, (corners + np.array(shifts) * (width, height)).astype(np.float32)
    )
    table = [int(value) for value in 60 + 120 * rng.random(3)]
    flat = np.clip(inked, 0, 255).astype(np.uint8)
    return as_uint8(cv2.warpPerspective(flat, matrix, (width, height), borderValue=table))


@edit("screen")
def screen_pixels(image: Image, period: float, glare: float, blue: float, strength: float) -> Image:
    """Photograph a screen: a grid of red, green and blue columns (`period` in pixels at TUNED_SIDE), `glare`, `blue`r light."""
    (y, x), (down, right) = pixel_grid(image), unit_grid(image)
    phase = 2 * np.pi / scale_length(period, image, 2.3)
    columns = np.stack([np.cos(x * phase + third) for third in (0.0, 2.1, 4.2)], axis=-1)
    rows = np.cos(y * phase)[..., None]
    light = (1 - strength * (0.5 - 0.35 * columns - 0.15 * rows)) * np.array(
        [1 - blue, 1 - blue / 2, 1 + blue], np.float32
    )
    shine = 255 * glare * np.clip(1 - np.abs(right - down - 0.4) * 1.5, 0, 1)
    photographed: Image = np.clip(image * light + shine[..., None], 0, 255).astype(np.uint8)
    return photographed


@edit("screen")
def on_phone(image: Image, size: float, degrees: float, bars: float, colour: list[int]) -> Image:
    """Show the image on a phone with a black case and `bars` above and below, turned by `degrees` on a table of a `colour`."""
    height, width = image.shape[:2]
    tall = round(height * (1 + 2 * bars))
    wide = round(width * 1.1)
    edge = max(2, round(0.05 * width))
    phone = np.full((tall, wide, 3), 15, np.uint8)
    top, left = (tall - height) // 2, (wide - width) // 2
    phone[edge : tall - edge, left : left + width] = 235
    phone[top : top + height, left : left + width] = image
    canvas = round(tall / size), round(wide / size)
    matrix = cv2.getRotationMatrix2D((wide / 2, tall / 2), degrees, 1.0)
    matrix[:, 2] += (canvas[1] - wide) / 2, (canvas[0] - tall) / 2
    return as_uint8(
        cv2.warpAffine(phone, matrix, canvas[::-1], borderMode=cv2.BORDER_CONSTANT, borderValue=colour)
    )


@edit("cutout")
def cut_round(image: Image, power: float, size: float, colour: list[int]) -> Image:
    """Keep an ellipse (`power` 2) or a rectangle with round corners (more) of `size` of the image, on a `colour`."""
    y, x = unit_grid(image)
    away = (np.abs(y / size) ** power + np.abs(x / size) ** power) ** (1 / power)
    return blend_in(image, colour, np.clip((away - 1) * min(image.shape[:2]) * size / 2 + 0.5, 0, 1))


@edit("cutout")
def tear_edges(image: Image, width: float, colour: list[int], seed: int) -> Image:
    """Tear the edges off, about `width` of the short side, along a rough line drawn from `seed`."""
    y, x = pixel_grid(image)
    height, wide = image.shape[:2]
    rng = np.random.default_rng(seed)
    inwards = np.minimum(np.minimum(y, height - 1 - y), np.minimum(x, wide - 1 - x)) / min(height, wide)
    rough = 1 + 0.5 * smooth_noise(image, 6, rng) + 0.35 * smooth_noise(image, 24, rng)
    return blend_in(image, colour, (inwards < width * rough).astype(np.float32))


@edit("cutout")
def film_strip(image: Image, width: float, holes: int, upright: bool) -> Image:
    """Put the image on film: black margins, `width` of the short side wide, with a row of `holes` white holes on either side."""
    turned = image.swapaxes(0, 1) if upright else image
    margin = max(3, round(width * min(image.shape[:2])))
    edge = np.zeros((margin, turned.shape[1], 3), np.uint8)
    starts = (np.arange(holes) + 0.25) * turned.shape[1] / holes
    for start in starts:
        edge[margin // 4 : margin - margin // 4, int(start) : int(start + turned.shape[1] / holes / 2)] = (
            240
        )
    film = np.concatenate([edge, turned, edge])
    return np.ascontiguousarray(film.swapaxes(0, 1) if upright else film)
