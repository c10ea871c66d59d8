"""Procedural pictures: scenes of overlapping textured shapes, deterministic for a given generator.

A dead-leaves model (shapes of power-law sizes that occlude each other) has the edges and scale statistics of photographs;
textures, gradients, layered landscapes, text and noise are added so that no single cue tells two pictures apart.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
from cv2.typing import MatLike
from numpy.typing import NDArray
from PIL import Image

from .arrays import Float32s, UInt8s
from .process import map_on_cores

Picture = UInt8s
Colour = Float32s
WORDS = (
    "river",
    "NORTH",
    "blue",
    "Open",
    "24",
    "market",
    "stone",
    "A7",
    "light",
    "Sale",
    "garden",
    "1987",
    "coffee",
    "EXIT",
)
FONTS = (
    cv2.FONT_HERSHEY_SIMPLEX,
    cv2.FONT_HERSHEY_COMPLEX,
    cv2.FONT_HERSHEY_TRIPLEX,
    cv2.FONT_HERSHEY_SCRIPT_COMPLEX,
)


def draw_picture(rng: np.random.Generator, long_side: int = 192) -> Picture:
    """Draw one picture, RGB uint8 [h, w, 3]; its long side is `long_side` pixels, its aspect ratio 1, 4:3, 3:2 or 16:9."""
    ratio = rng.choice([1.0, 4 / 3, 3 / 2, 16 / 9])
    short_side = round(long_side / ratio)
    height, width = (short_side, long_side) if rng.random() < 0.7 else (long_side, short_side)
    palette = _palette(rng)
    canvas = _background(rng, height, width, palette)
    scenes: tuple[Callable[..., None], ...] = (_leaves, _landscape, _still_life, _tiles)
    rng.choice(np.array(scenes, dtype=object), p=[0.4, 0.2, 0.25, 0.15])(rng, canvas, palette)
    if rng.random() < 0.25:
        _write_words(rng, canvas, palette)
    light = 0.75 + 0.5 * _ramp(rng, height, width)[..., None]
    noise = rng.standard_normal((height, width, 1), dtype=np.float32) * rng.uniform(0, 8)
    picture: Picture = np.clip(canvas * light + noise, 0, 255).astype(np.uint8)
    return picture


def _palette(rng: np.random.Generator) -> Colour:
    """Draw six related RGB colours [6, 3] in 0…255: a few hues with any saturation and brightness."""
    hue = (rng.uniform(0, 180) + rng.choice([0, 15, 40, 90], size=6) * rng.choice([-1, 1], size=6)) % 180
    hsv = np.stack([hue, rng.uniform(20, 230, 6), rng.uniform(30, 250, 6)], axis=1).astype(np.uint8)
    palette: Colour = cv2.cvtColor(hsv[None], cv2.COLOR_HSV2RGB)[0].astype(np.float32)
    return palette


def _colour(rng: np.random.Generator, palette: Colour) -> Colour:
    colour: Colour = np.clip(palette[rng.integers(len(palette))] + rng.normal(0, 14, 3), 0, 255).astype(
        np.float32
    )
    return colour


def _ramp(rng: np.random.Generator, height: int, width: int) -> Float32s:
    """Draw a smooth field [h, w] in 0…1: a coarse random grid, enlarged."""
    coarse = rng.random((rng.integers(2, 4), rng.integers(2, 4)), dtype=np.float32)
    return np.clip(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), 0, 1)


def _background(rng: np.random.Generator, height: int, width: int, palette: Colour) -> Float32s:
    ramp = _ramp(rng, height, width)[..., None]
    first, second = _colour(rng, palette), _colour(rng, palette)
    return first + ramp * (second - first)


def _texture(rng: np.random.Generator, height: int, width: int, first: Colour, second: Colour) -> Float32s:
    """Draw a textured patch [h, w, 3] between two colours: stripes, checks, dots, clouds, grain or a plain gradient."""
    y = np.arange(height, dtype=np.float32)[:, None]
    x = np.arange(width, dtype=np.float32)
    angle, period = rng.uniform(0, np.pi), rng.uniform(3, 24)
    cosine = np.float32(np.cos(angle))
    sine = np.float32(np.sin(angle))
    along, across = x * cosine + y * sine, y * cosine - x * sine
    kind = rng.integers(6)
    weight: MatLike
    if kind == 0:
        weight = 0.5 + 0.5 * np.sin(along * np.float32(2 * np.pi / period))
    elif kind == 1:
        weight = ((np.floor(along / period) + np.floor(across / period)) % 2).astype(np.float32)
    elif kind == 2:
        weight = (
            np.hypot(along % period - period / 2, across % period - period / 2) < period * 0.3
        ).astype(np.float32)
    elif kind == 3:
        cells = rng.random((max(2, int(height / period)), max(2, int(width / period))), dtype=np.float32)
        weight = cv2.resize(cells, (width, height), interpolation=cv2.INTER_CUBIC)
    elif kind == 4:
        weight = rng.random((height, width), dtype=np.float32)
    else:
        weight = _ramp(rng, height, width)
    weight = np.clip(weight, 0, 1, dtype=np.float32) * np.float32(rng.uniform(0.2, 1))
    return first + weight[..., None] * (second - first)


def _outline(rng: np.random.Generator, radius: float) -> NDArray[np.int32]:
    """Draw a closed outline around the origin, (x, y) in pixels [points, 2]: a leaf, a polygon, a star or a rounded blob."""
    kind = rng.integers(4)
    corners = int(rng.integers(3, 9))
    turn = np.linspace(0, 2 * np.pi, corners if kind == 1 else 48, endpoint=False)
    if kind == 0:
        reach = radius * (0.35 + 0.65 * np.abs(np.cos(turn)))
    elif kind == 1:
        reach = radius * rng.uniform(0.6, 1, len(turn))
    elif kind == 2:
        reach = radius * (0.65 + 0.35 * np.cos(corners * turn))
    else:
        waves = rng.normal(0, 0.12, (3, 2))
        reach = radius * (
            0.75
            + sum(a * np.cos((k + 1) * turn) + b * np.sin((k + 1) * turn) for k, (a, b) in enumerate(waves))
        )
    squeeze = rng.uniform(0.4, 1)
    angle = rng.uniform(0, 2 * np.pi)
    x, y = reach * np.cos(turn), reach * np.sin(turn) * squeeze
    return np.stack(
        [x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)], axis=1
    ).astype(np.int32)


def _paint(rng: np.random.Generator, canvas: Float32s, outline: NDArray[np.int32], palette: Colour) -> None:
    """Fill an outline with a texture and, half the time, give it a soft shadow."""
    height, width = canvas.shape[:2]
    left, top = np.maximum(outline.min(axis=0) - 3, 0)
    right, bottom = np.minimum(outline.max(axis=0) + 4, (width, height))
    if right - left < 2 or bottom - top < 2:
        return
    mask = np.zeros((bottom - top, right - left), np.uint8)
    cv2.fillPoly(mask, [outline - (left, top)], 255, lineType=cv2.LINE_AA)
    cover = (mask / np.float32(255))[..., None]
    patch = canvas[top:bottom, left:right]
    if rng.random() < 0.5:
        patch *= 1 - 0.5 * cv2.GaussianBlur(cover, (0, 0), 2.5)[..., None]
    texture = _texture(rng, bottom - top, right - left, _colour(rng, palette), _colour(rng, palette))
    patch += cover * (texture - patch)


def _leaves(rng: np.random.Generator, canvas: Float32s, palette: Colour) -> None:
    """Paint dead leaves: shapes whose sizes follow a power law, each occluding what lies below."""
    height, width = canvas.shape[:2]
    largest = max(height, width) * 0.4
    for _ in range(rng.integers(12, 45)):
        radius = min(largest, 8 / np.sqrt(1 - rng.random() * (1 - (8 / largest) ** 2)) * rng.uniform(1, 2))
        _paint(rng, canvas, _outline(rng, radius) + rng.integers(0, (width, height)), palette)


def _landscape(rng: np.random.Generator, canvas: Float32s, palette: Colour) -> None:
    """Paint layered hills under a sky, with a few things standing on them."""
    height, width = canvas.shape[:2]
    layers = int(rng.integers(3, 7))
    x = np.linspace(0, width, 64)
    for layer in range(layers):
        level = height * (0.3 + 0.7 * (layer + rng.uniform(-0.3, 0.3)) / layers)
        ridge = level + sum(
            height * rng.uniform(0.01, 0.1) / k * np.sin(2 * np.pi * k * x / width + rng.uniform(0, 6))
            for k in (1, 2, 3, 7)
        )
        outline = np.concatenate([np.stack([x, ridge], axis=1), [[width, height], [0, height]]]).astype(
            np.int32
        )
        _paint(rng, canvas, outline, palette)
        for _ in range(rng.integers(0, 5)):
            at = rng.integers(0, len(x))
            _paint(
                rng,
                canvas,
                _outline(rng, height * rng.uniform(0.03, 0.14)) + (int(x[at]), int(ridge[at])),
                palette,
            )


def _still_life(rng: np.random.Generator, canvas: Float32s, palette: Colour) -> None:
    """Paint a few large things on a table, with details painted inside."""
    height, width = canvas.shape[:2]
    table = int(height * rng.uniform(0.45, 0.8))
    surface = [[0, table], [width, table + rng.integers(-20, 20)], [width, height], [0, height]]
    _paint(rng, canvas, np.array(surface, np.int32), palette)
    for _ in range(rng.integers(2, 7)):
        at = np.array([rng.uniform(0.1, 0.9) * width, table + rng.uniform(-0.25, 0.15) * height])
        radius = min(height, width) * rng.uniform(0.1, 0.35)
        _paint(rng, canvas, _outline(rng, radius) + at.astype(np.int32), palette)
        for _ in range(rng.integers(0, 5)):
            detail = at + rng.normal(0, radius / 3, 2)
            _paint(
                rng,
                canvas,
                _outline(rng, radius * rng.uniform(0.08, 0.35)) + detail.astype(np.int32),
                palette,
            )


def _tiles(rng: np.random.Generator, canvas: Float32s, palette: Colour) -> None:
    """Paint a facade: a jittered grid of textured panes, some of them missing."""
    height, width = canvas.shape[:2]
    rows, columns = rng.integers(2, 8, size=2)
    rows_at = (
        np.sort(rng.uniform(0, height, rows + 1))
        if rng.random() < 0.5
        else np.linspace(0, height, rows + 1)
    )
    columns_at = np.linspace(0, width, columns + 1)
    gap = int(rng.integers(0, 8))
    for top, bottom in pairwise(rows_at.astype(int)):
        for left, right in pairwise(columns_at.astype(int)):
            if rng.random() < 0.85:
                corners = (
                    (left + gap, top + gap),
                    (right - gap, top + gap),
                    (right - gap, bottom - gap),
                    (left + gap, bottom - gap),
                )
                _paint(rng, canvas, np.array(corners, np.int32), palette)
    for _ in range(rng.integers(1, 8)):
        radius = min(height, width) * rng.uniform(0.05, 0.3)
        _paint(rng, canvas, _outline(rng, radius) + rng.integers(0, (width, height)), palette)


def _write_words(rng: np.random.Generator, canvas: Float32s, palette: Colour) -> None:
    height, width = canvas.shape[:2]
    for _ in range(rng.integers(1, 4)):
        cover = np.zeros((height, width), np.uint8)  # OpenCV writes text on 8-bit images only
        word = WORDS[rng.integers(len(WORDS))]
        font = FONTS[rng.integers(len(FONTS))]
        at = (int(rng.uniform(0, 0.7) * width), int(rng.uniform(0.1, 1) * height))
        cv2.putText(cover, word, at, font, rng.uniform(0.4, 1.8), 255, int(rng.integers(1, 4)), cv2.LINE_AA)
        canvas += (cover[..., None] / np.float32(255)) * (_colour(rng, palette) - canvas)


def write_pictures(
    folder: Path, prefix: str, count: int, seed: int, workers: int | None = None
) -> Iterator[Path]:
    """Write `count` pictures `<prefix>000000.jpg`, … (JPEG quality 90) into `folder`; yield each path once written.

    A picture depends on (seed, prefix, number) only. `workers` are processes; None for one per core.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write = partial(_write_picture, folder, prefix, seed)
    yield from map_on_cores(write, range(count), workers)


def _write_picture(folder: Path, prefix: str, seed: int, number: int) -> Path:
    picture = draw_picture(np.random.default_rng([seed, *prefix.encode(), number]))
    path = folder / f"{prefix}{number:06d}.jpg"
    Image.fromarray(picture).save(path, quality=90)
    return path
