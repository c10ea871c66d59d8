"""Procedural pictures with classes: a class is a combination of shape, texture and hue; an instance is one picture of it.

Every instance has its own position, size, rotation, tint, light, background scene and clutter. Edited copies of it share all of
these, which makes recognising the class, the instance and the copy three different tasks. Deterministic given the seed.
"""

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from image_copies.data.arrays import Float32s, Float64s
from image_copies.data.images import ImageSet
from image_copies.data.labels import LabelledImages, label_images
from image_copies.data.procedural import Picture, draw_picture
from image_copies.data.process import map_on_cores

Ring = Float64s


def _polar(reach: Float64s | float, points: int = 96) -> Ring:
    turn = np.linspace(0, 2 * np.pi, points, endpoint=False)
    return np.stack([reach * np.cos(turn), reach * np.sin(turn)], axis=1)


def _corners(*corners: tuple[float, float]) -> Ring:
    return np.array(corners, dtype=np.float64)


def _star(points: int, inner: float) -> Ring:
    return _polar(np.where(np.arange(2 * points) % 2 == 0, 1.0, inner), 2 * points)


def _crescent() -> Ring:
    outer = np.linspace(0.25 * np.pi, 1.75 * np.pi, 48)
    inner = np.linspace(1.6 * np.pi, 0.4 * np.pi, 48)
    edge = np.stack([np.cos(outer), np.sin(outer)], axis=1)
    bite = np.stack([0.47 + 0.75 * np.cos(inner), 0.75 * np.sin(inner)], axis=1)
    return np.concatenate([edge, bite])


def _heart() -> Ring:
    t = np.linspace(0, 2 * np.pi, 96, endpoint=False)
    across = 16 * np.sin(t) ** 3
    along = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.stack([across, -along], axis=1) / 17


POLYGONS: dict[str, list[Ring]] = {
    "disc": [_polar(0.9)],
    "triangle": [_polar(1.0, 3)],
    "square": [_polar(1.0, 4)],
    "star": [_star(5, 0.42)],
    "ring": [_polar(1.0), _polar(0.5)],
    "crescent": [_crescent()],
    "heart": [_heart()],
    "cross": [
        _corners(
            *((-0.32, -1), (0.32, -1), (0.32, -0.32), (1, -0.32), (1, 0.32), (0.32, 0.32)),
            *((0.32, 1), (-0.32, 1), (-0.32, 0.32), (-1, 0.32), (-1, -0.32), (-0.32, -0.32)),
        )
    ],
    "arrow": [
        _corners((1, 0), (0.1, 0.8), (0.1, 0.3), (-0.95, 0.3), (-0.95, -0.3), (0.1, -0.3), (0.1, -0.8))
    ],
    "flower": [_polar(0.72 + 0.28 * np.cos(6 * np.linspace(0, 2 * np.pi, 96, endpoint=False)))],
    "frame": [_polar(1.0, 4), _polar(0.55, 4)],
    "corner": [_corners((-0.8, -0.8), (0.8, -0.8), (0.8, -0.2), (-0.2, -0.2), (-0.2, 0.8), (-0.8, 0.8))],
}


Field = Float32s
TEXTURES = ("plain", "stripes", "checks", "dots", "rings", "rays")
HUES = {
    "red": 0,
    "yellow": 28,
    "green": 60,
    "blue": 108,
    "violet": 138,
    "pink": 160,
}  # in units of 2°, as in OpenCV's HSV (0…179)
CLASSES = tuple("-".join(names) for names in product(POLYGONS, TEXTURES, HUES))


def class_names(seed: int) -> list[str]:
    """Return all class names "shape-texture-hue", in a seeded order; a set of n classes uses the first n."""
    return [CLASSES[index] for index in np.random.default_rng([seed, 1]).permutation(len(CLASSES))]


def draw_shape(name: str, rng: np.random.Generator, size: int = 128) -> Picture:
    """Draw an instance of the class `name`, such as "star-dots-blue": RGB uint8 [size, size, 3]."""
    shape, texture, hue = name.split("-")
    canvas = _scene(rng, size)
    colours = _colours(rng, HUES[hue])
    for _ in range(rng.integers(1, 4)):  # clutter: small shapes of any class
        other_shape, other_texture, other_hue = CLASSES[rng.integers(len(CLASSES))].split("-")
        centre = rng.uniform(0, size, 2)
        _paint(
            rng,
            canvas,
            other_shape,
            other_texture,
            _colours(rng, HUES[other_hue]),
            centre,
            size * rng.uniform(0.05, 0.1),
        )
    radius = size * rng.uniform(0.2, 0.38)
    centre = rng.uniform(0.8 * radius, size - 0.8 * radius, 2)
    _paint(rng, canvas, shape, texture, colours, centre, radius)
    canvas *= rng.uniform(0.75, 1.2) * rng.uniform(0.88, 1.12, 3).astype(np.float32)
    canvas += rng.standard_normal((size, size, 1), dtype=np.float32) * np.float32(rng.uniform(1, 9))
    return np.clip(canvas, 0, 255).astype(np.uint8)


def write_disjoint_shapes(
    folder: Path,
    training: int,
    test: int,
    instances: int,
    seed: int,
    size: int = 128,
    workers: int | None = None,
) -> tuple[LabelledImages, LabelledImages]:
    """Write two sets with disjoint classes, `folder`/train/<class>-000.jpg, … and `folder`/test/….

    Args:
        folder: Where the two folders are created.
        training: Number of classes of the training set.
        test: Number of classes of the test set.
        instances: Pictures per class.
        seed: Seed of the order of the classes and of the pictures; a picture depends on (seed, class, instance) only.
        size: Side of the pictures in pixels.
        workers: Number of processes; None for one per core.
    """
    names = class_names(seed)
    return (
        _write_shapes(folder / "train", names[:training], instances, seed, size, workers),
        _write_shapes(folder / "test", names[training : training + test], instances, seed, size, workers),
    )


def _write_shapes(
    folder: Path, names: Sequence[str], instances: int, seed: int, size: int, workers: int | None
) -> LabelledImages:
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [(name, instance) for name in names for instance in range(instances)]
    paths = list(map_on_cores(partial(_write_shape, folder, seed, size), tasks, workers))
    return label_images(ImageSet([path.stem for path in paths], paths), [name for name, _ in tasks])


def _write_shape(folder: Path, seed: int, size: int, task: tuple[str, int]) -> Path:
    name, instance = task
    path = folder / f"{name}-{instance:03d}.jpg"
    Image.fromarray(draw_shape(name, np.random.default_rng([seed, *name.encode(), instance]), size)).save(
        path, quality=92
    )
    return path


def _scene(rng: np.random.Generator, size: int) -> Field:
    """Draw the background scene [size, size, 3], usually paler than the shape."""
    picture = cv2.resize(draw_picture(rng, size), (size, size), interpolation=cv2.INTER_LINEAR).astype(
        np.float32
    )
    mean = picture.mean(axis=(0, 1))
    paler: Field = mean + np.float32(rng.uniform(0.35, 0.9)) * (picture - mean)
    return paler


def _colours(rng: np.random.Generator, hue: int) -> Field:
    """Draw two colours [2, 3] of about this hue, one light and one dark, in random order."""
    shifted = (hue + rng.normal(0, 3.5)) % 180
    hsv = [
        [shifted, rng.uniform(110, 240), rng.uniform(190, 255)],
        [shifted, rng.uniform(140, 255), rng.uniform(60, 120)],
    ]
    colours: Field = cv2.cvtColor(np.array([hsv], np.uint8), cv2.COLOR_HSV2RGB)[0].astype(np.float32)
    return colours[:: rng.choice([-1, 1])]


def _paint(
    rng: np.random.Generator,
    canvas: Field,
    shape: str,
    texture: str,
    colours: Field,
    centre: Float64s,
    radius: float,
) -> None:
    """Paint a rotated and slightly squeezed shape with its texture and a soft shadow onto the canvas."""
    angle = rng.uniform(0, 2 * np.pi)
    squeeze = rng.uniform(0.8, 1.0)
    shadow = rng.uniform(0, 0.5)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    left, top = np.maximum(centre - radius - 8, 0).astype(int)
    right, bottom = np.minimum(centre + radius + 9, canvas.shape[0]).astype(int)
    patch = canvas[top:bottom, left:right]
    origin = centre - (left, top)
    rings = [
        np.round(16 * (origin + (radius * ring * (1, squeeze)) @ turn.T)).astype(np.int32)
        for ring in POLYGONS[shape]
    ]
    mask = np.zeros(patch.shape[:2], np.uint8)
    # coordinates in 1/16 pixel; an inner ring is a hole
    cv2.fillPoly(mask, rings, 255, lineType=cv2.LINE_AA, shift=4)
    cover = (mask / np.float32(255))[..., None]
    patch *= 1 - np.float32(shadow) * cv2.GaussianBlur(cover, (0, 0), 2.5)[..., None]
    y, x = np.mgrid[: bottom - top, : right - left].astype(np.float32)
    local = ((np.stack([x, y], axis=2) - origin) @ turn / radius).astype(np.float32)
    weight = _texture(rng, texture, local[..., 0], local[..., 1])[..., None]
    patch += cover * (colours[0] + weight * (colours[1] - colours[0]) - patch)


def _texture(rng: np.random.Generator, kind: str, u: Field, v: Field) -> Field:
    """Return the texture as weights [h, w] in 0…1; (u, v) are the shape's own coordinates, −1…1 inside it."""
    waves, phase = rng.uniform(2.4, 4.2), rng.uniform(0, 1, 2)
    if kind == "plain":
        return np.clip(0.25 + 0.2 * (u * np.float32(phase[0] - 0.5) + v * np.float32(phase[1] - 0.5)), 0, 1)
    if kind == "stripes":
        wave = np.sin(2 * np.pi * (waves * u / 1.4 + phase[0]))
    elif kind == "checks":
        wave = np.sin(np.pi * (waves * u + phase[0])) * np.sin(np.pi * (waves * v + phase[1])) * 3
    elif kind == "dots":
        wave = (
            2.2
            * (
                0.36
                - np.hypot((waves * u / 1.3 + phase[0]) % 1 - 0.5, (waves * v / 1.3 + phase[1]) % 1 - 0.5)
            )
            * 3
        )
    elif kind == "rings":
        wave = np.sin(2 * np.pi * (waves * np.hypot(u, v) / 1.5 + phase[0]))
    else:
        wave = np.sin(round(waves * 2) * np.arctan2(v, u) + 2 * np.pi * phase[0])
    weights: Field = np.clip(0.5 + 2 * wave, 0, 1).astype(np.float32)
    return weights
