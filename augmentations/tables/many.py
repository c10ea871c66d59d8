"""Edits of many more kinds, for descriptors that are to find copies made in ways that nobody listed.

Only the table "many" has them, and no other table has their families, so that `queries.left_out` and `without_edits` can name
any of these. Every edit becomes both more probable and stronger with the intensity.
"""

from collections.abc import Sequence

import numpy as np

from image_copies.augmentations.edits import (
    blends,
    bubbles,
    cutouts,
    drawing,
    glitches,
    optics,
    papers,
    printing,
    screens,
    swirls,
    tiles,
    tint,
    tone,
    weather,
)
from image_copies.augmentations.edits.registry import EditFunction
from image_copies.augmentations.tables.row import DrawParameters, Edit, Parameters, rising

SHARE = 0.05  # probability of each edit at intensity 1: two or three of them in an image


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31))


def _colour(rng: np.random.Generator, low: int = 0, high: int = 256) -> list[int]:
    return [int(value) for value in rng.integers(low, high, 3)]


def _count(rng: np.random.Generator, intensity: float, most: int) -> int:
    return round(intensity * most * float(rng.random()))


def _coin(rng: np.random.Generator) -> bool:
    return bool(rng.random() < 0.5)


def _strength(rng: np.random.Generator, intensity: float) -> float:
    """How much of the image an edit replaces: from intensity 0.5 on now and then everything, at 1 in every second draw."""
    return min(1.0, 2 * intensity * float(rng.random()))


def _draw_curve(rng: np.random.Generator, intensity: float) -> Parameters:
    """A curve that wanders off the diagonal; one of four falls where the intensity is high."""
    straight, fall = np.linspace(0, 1, 5), intensity * (rng.random() < 0.25)
    curve = straight * (1 - fall) + straight[::-1] * fall + intensity * rng.uniform(-0.5, 0.5, 5)
    return {"heights": curve.clip(0, 1).tolist()}


def _draw_inks(rng: np.random.Generator, intensity: float) -> Parameters:
    dark, light = _colour(rng, 0, 130), _colour(rng, 120, 256)
    dark, light = (light, dark) if rng.random() < 0.15 else (dark, light)
    return {"dark": dark, "light": light, "strength": _strength(rng, intensity)}


def _draw_split(rng: np.random.Generator, intensity: float) -> Parameters:
    shadows, highlights = intensity * rng.uniform(-0.5, 0.8, 3), intensity * rng.uniform(-0.8, 0.5, 3)
    return {"shadows": shadows.tolist(), "highlights": highlights.tolist()}


def _draw_curl(rng: np.random.Generator, intensity: float) -> Parameters:
    x, y = rng.uniform(-0.4, 0.4, 2).tolist()
    return {"degrees": intensity * rng.uniform(20, 180) * rng.choice([-1, 1]), "x": x, "y": y}


def _draw_phone(rng: np.random.Generator, intensity: float) -> Parameters:
    size = 1 - intensity * rng.uniform(0.1, 0.45)
    return {"size": size, "degrees": intensity * rng.uniform(-35, 35), "bars": rng.uniform(0.1, 0.5), "colour": _colour(rng)}


def _draw_page(rng: np.random.Generator, intensity: float) -> Parameters:
    size, (x, y) = 1 - intensity * rng.uniform(0.15, 0.6), rng.random(2).tolist()
    return {"size": size, "x": x, "y": y, "lines": int(rng.integers(12, 40)), "seed": _seed(rng)}


def _draw_print(rng: np.random.Generator, intensity: float) -> Parameters:
    inwards = intensity * rng.uniform(0.01, 0.16, (4, 2)) * [[1, 1], [-1, 1], [-1, -1], [1, -1]]
    yellow, shade, fibre = (intensity * rng.random(3) * [1, 0.8, 0.06]).tolist()
    return {"yellow": yellow, "shade": shade, "fibre": fibre, "shifts": inwards.tolist(), "seed": _seed(rng)}


def _draw_glow(rng: np.random.Generator, intensity: float) -> Parameters:
    x, y = rng.uniform(-1.1, 1.1, 2).tolist()
    return {"x": x, "y": y, "reach": rng.uniform(0.4, 1.2), "colour": _colour(rng), "strength": 1.6 * intensity * rng.random()}


def _grid(rng: np.random.Generator, most: int) -> Parameters:
    rows, columns = rng.integers(2, most + 1, 2).tolist()
    return {"rows": rows, "columns": columns}


ROWS: Sequence[tuple[EditFunction, DrawParameters]] = (
    (tone.tone_curve, _draw_curve),
    (tone.posterize, lambda rng, i: {"levels": round(2 + 14 * (1 - i * rng.uniform(0.4, 1)))}),
    (tone.two_tones, lambda rng, i: {"level": rng.uniform(0.6, 1.2), "strength": _strength(rng, i)}),
    (tone.equalize, lambda rng, i: {"tiles": int(rng.integers(1, 9)), "strength": _strength(rng, i)}),
    (tint.duotone, _draw_inks),
    (tint.split_tone, _draw_split),
    (tint.turn_hue, lambda rng, i: {"degrees": i * rng.uniform(-180, 180), "saturation": 1 + i * rng.uniform(-0.7, 1.5)}),
    (
        drawing.relief,
        lambda rng, i: {"degrees": rng.uniform(0, 360), "depth": rng.uniform(0.3, 1.2), "strength": _strength(rng, i)},
    ),
    (
        drawing.outline,
        lambda rng, i: {
            "radius": rng.uniform(1, 6),
            "gain": rng.uniform(0.6, 2.5),
            "dark": bool(rng.random() < 0.7),
            "strength": _strength(rng, i),
        },
    ),
    (
        drawing.ink,
        lambda rng, i: {"radius": rng.uniform(1, 6), "level": rng.uniform(0.5, 1.1), "strength": _strength(rng, i)},
    ),
    (
        drawing.engrave,
        lambda rng, i: {"period": rng.uniform(8, 24), "degrees": rng.uniform(0, 180), "strength": _strength(rng, i)},
    ),
    (drawing.paint, lambda rng, i: {"radius": 14 * i * rng.random(), "levels": round(20 - i * rng.uniform(6, 16))}),
    (
        printing.dither,
        lambda rng, i: {"levels": int(rng.integers(2, 4)), "cell": rng.uniform(1, 8), "strength": _strength(rng, i)},
    ),
    (
        printing.spots,
        lambda rng, i: {"period": 4 + 26 * i * rng.random(), "size": 1.4 - i * rng.uniform(0.2, 0.7), "colour": _colour(rng)},
    ),
    (
        printing.crystals,
        lambda rng, i: {
            "count": 30 + round(2500 * (1 - i * rng.uniform(0.5, 0.95)) ** 2),
            "rim": i * rng.uniform(-1, 1) ** 2,
            "colour": _colour(rng),
            "seed": _seed(rng),
        },
    ),
    (tiles.shuffle_tiles, lambda rng, i: {**_grid(rng, 5), "share": i * rng.random(), "seed": _seed(rng)}),
    (tiles.space_tiles, lambda rng, i: {**_grid(rng, 5), "gap": i * rng.uniform(0.01, 0.08), "colour": _colour(rng)}),
    (tiles.mirror_part, lambda rng, i: {"share": 0.5 * i * rng.uniform(0.3, 1), "upright": _coin(rng), "first": _coin(rng)}),
    (tiles.repeat, lambda rng, i: {"rows": 1 + _count(rng, i, 3), "columns": 1 + _count(rng, i, 3), "mirrored": _coin(rng)}),
    (
        tiles.shift_strips,
        lambda rng, i: {"count": int(rng.integers(2, 12)), "share": i * rng.uniform(-0.4, 0.4), "upright": _coin(rng)},
    ),
    (glitches.tear_rows, lambda rng, i: {"count": 1 + _count(rng, i, 12), "reach": 0.35 * i * rng.random(), "seed": _seed(rng)}),
    (
        glitches.break_blocks,
        lambda rng, i: {"count": 2 + _count(rng, i, 20), "size": 0.1 + 0.35 * i * rng.random(), "seed": _seed(rng)},
    ),
    (
        glitches.scan_lines,
        lambda rng, i: {"period": rng.uniform(6, 30), "strength": i * rng.random(), "shift": 0.06 * i * rng.uniform(-1, 1)},
    ),
    (swirls.swirl, _draw_curl),
    (swirls.ripple, lambda rng, i: {"amplitude": 0.06 * i * rng.random(), "rings": rng.uniform(1, 5)}),
    (
        swirls.crumple,
        lambda rng, i: {"reach": 0.08 * i * rng.uniform(0.2, 1), "cells": int(rng.integers(2, 7)), "seed": _seed(rng)},
    ),
    (
        blends.double_exposure,
        lambda rng, i: {"mode": str(rng.choice(["mean", "screen", "multiply"])), "strength": _strength(rng, i)},
    ),
    (blends.fade_into, lambda rng, i: {"degrees": rng.uniform(0, 360), "share": 0.1 + 0.5 * i * rng.random()}),
    (
        cutouts.cut_round,
        lambda rng, i: {"power": rng.uniform(1.5, 6), "size": 1.1 - 0.45 * i * rng.random(), "colour": _colour(rng)},
    ),
    (cutouts.tear_edges, lambda rng, i: {"width": 0.22 * i * rng.random(), "colour": _colour(rng, 150), "seed": _seed(rng)}),
    (
        cutouts.film_strip,
        lambda rng, i: {"width": 0.04 + 0.26 * i * rng.random(), "holes": int(rng.integers(5, 20)), "upright": _coin(rng)},
    ),
    (
        weather.rain,
        lambda rng, i: {
            "drops": 20 + _count(rng, i, 500),
            "length": rng.uniform(0.04, 0.25),
            "degrees": rng.uniform(-40, 40),
            "strength": _strength(rng, i),
            "seed": _seed(rng),
        },
    ),
    (
        weather.snow,
        lambda rng, i: {
            "flakes": 10 + _count(rng, i, 240),
            "size": rng.uniform(0.01, 0.06),
            "strength": _strength(rng, i),
            "seed": _seed(rng),
        },
    ),
    (weather.fog, lambda rng, i: {"density": 0.85 * i * rng.random(), "cells": int(rng.integers(1, 6)), "seed": _seed(rng)}),
    (
        weather.shadow,
        lambda rng, i: {
            "x": rng.uniform(-1, 1),
            "degrees": rng.uniform(-80, 80),
            "width": rng.uniform(0.1, 0.9),
            "darkness": 0.9 * i * rng.random(),
        },
    ),
    (weather.glow, _draw_glow),
    (
        screens.screen_pixels,
        lambda rng, i: {
            "period": rng.uniform(5, 20),
            "glare": 0.7 * i * rng.random(),
            "blue": 0.4 * i * rng.uniform(-0.5, 1),
            "strength": i * rng.random(),
        },
    ),
    (screens.on_phone, _draw_phone),
    (papers.in_document, _draw_page),
    (
        papers.photocopy,
        lambda rng, i: {
            "contrast": rng.uniform(1, 4),
            "specks": 0.1 * i * rng.random(),
            "strength": _strength(rng, i),
            "seed": _seed(rng),
        },
    ),
    (papers.creases, lambda rng, i: {"folds": int(rng.integers(1, 7)), "strength": i * rng.random(), "seed": _seed(rng)}),
    (
        papers.stains,
        lambda rng, i: {
            "share": 0.1 + 0.4 * i * rng.random(),
            "colour": _colour(rng, 0, 170),
            "strength": _strength(rng, i),
            "seed": _seed(rng),
        },
    ),
    (papers.photographed_print, _draw_print),
    (
        bubbles.speech_bubbles,
        lambda rng, i: {
            "count": 1 + _count(rng, i, 4),
            "size": 0.1 + 0.25 * i * rng.random(),
            "fill": _colour(rng, 200),
            "seed": _seed(rng),
        },
    ),
    (bubbles.confetti, lambda rng, i: {"count": 4 + _count(rng, i, 70), "size": rng.uniform(0.03, 0.12), "seed": _seed(rng)}),
    (optics.zoom_blur, lambda rng, i: {"reach": 0.35 * i * rng.random()}),
    (optics.defocus, lambda rng, i: {"radius": 16 * i * rng.random()}),
    (optics.frosted_glass, lambda rng, i: {"reach": 18 * i * rng.random(), "seed": _seed(rng)}),
)
MANY_TABLE: Sequence[Edit] = tuple(Edit(function.__name__, function, rising(SHARE), draw) for function, draw in ROWS)
