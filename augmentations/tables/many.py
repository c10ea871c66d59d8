"""Edits of many more kinds, for descriptors that are to find copies made in ways that nobody listed.

Only the table "many" has them, and no other table has their families, so that `queries.left_out` and `without_edits` can name
any of these. Every edit becomes both more probable and stronger with the intensity.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from image_copies.augmentations.edits import colour, drawing, geometry, overlays, quality, scenes
from image_copies.augmentations.edits.registry import EditFunction
from image_copies.augmentations.tables.row import DrawParameters, Edit, Parameters, rising

SHARE = 0.05  # probability of each edit at intensity 1: two or three of them in an image
DrawValue = Callable[[np.random.Generator, float], Any]  # (rng, intensity 0…1) → one parameter


def _between(low: float, high: float) -> DrawValue:
    return lambda rng, intensity: rng.uniform(low, high)


def _whole(low: int, high: int) -> DrawValue:
    """An integer from low to high − 1."""
    return lambda rng, intensity: int(rng.integers(low, high))


def _grown(low: float, high: float, start: float = 0.0) -> DrawValue:
    """`start` and, in proportion to the intensity, a number between `low` and `high`."""
    return lambda rng, intensity: start + intensity * rng.uniform(low, high)


def _counted(start: int, most: int) -> DrawValue:
    """`start` and up to `most` more, in proportion to the intensity."""
    return lambda rng, intensity: start + round(intensity * most * rng.random())


def _colour(low: int, high: int) -> DrawValue:
    return lambda rng, intensity: [int(value) for value in rng.integers(low, high, 3)]


def _coin(rng: np.random.Generator, intensity: float) -> bool:
    return bool(rng.random() < 0.5)


def _seed(rng: np.random.Generator, intensity: float) -> int:
    return int(rng.integers(2**31))


def _strength(rng: np.random.Generator, intensity: float) -> float:
    """How much of the image an edit replaces: from intensity 0.5 on now and then everything, at 1 in every second draw."""
    return min(1.0, 2 * intensity * float(rng.random()))


def _row(function: EditFunction, draw: DrawParameters | None = None, **values: DrawValue) -> Edit:
    """A row that is named after its function, whose parameters `draw` draws, or `values` one by one."""

    def draw_values(rng: np.random.Generator, intensity: float) -> Parameters:
        return {name: value(rng, intensity) for name, value in values.items()}

    return Edit(function.__name__, function, rising(SHARE), draw or draw_values)


def _draw_curve(rng: np.random.Generator, intensity: float) -> Parameters:
    """A curve that wanders off the diagonal; one of four falls where the intensity is high."""
    straight, fall = np.linspace(0, 1, 5), intensity * (rng.random() < 0.25)
    curve = straight * (1 - fall) + straight[::-1] * fall + intensity * rng.uniform(-0.5, 0.5, 5)
    return {"heights": curve.clip(0, 1).tolist()}


def _draw_inks(rng: np.random.Generator, intensity: float) -> Parameters:
    inks = [rng.integers(0, 130, 3).tolist(), rng.integers(120, 256, 3).tolist()]
    dark, light = inks[::-1] if rng.random() < 0.15 else inks
    return {"dark": dark, "light": light, "strength": _strength(rng, intensity)}


def _draw_split(rng: np.random.Generator, intensity: float) -> Parameters:
    shadows, highlights = intensity * rng.uniform(-0.5, 0.8, 3), intensity * rng.uniform(-0.8, 0.5, 3)
    return {"shadows": shadows.tolist(), "highlights": highlights.tolist()}


def _draw_print(rng: np.random.Generator, intensity: float) -> Parameters:
    inwards = intensity * rng.uniform(0.01, 0.16, (4, 2)) * [[1, 1], [-1, 1], [-1, -1], [1, -1]]
    yellow, shade, fibre = (intensity * rng.random(3) * [1, 0.8, 0.06]).tolist()
    return {
        "yellow": yellow,
        "shade": shade,
        "fibre": fibre,
        "shifts": inwards.tolist(),
        "seed": _seed(rng, intensity),
    }


ANY, GRID, TURN = _colour(0, 256), {"rows": _whole(2, 6), "columns": _whole(2, 6)}, _between(0, 360)
MANY_TABLE: Sequence[Edit] = (
    _row(colour.tone_curve, _draw_curve),
    _row(
        colour.posterize,
        lambda rng, intensity: {"levels": round(2 + 14 * (1 - intensity * rng.uniform(0.4, 1)))},
    ),
    _row(colour.two_tones, level=_between(0.6, 1.2), strength=_strength),
    _row(colour.equalize, tiles=_whole(1, 9), strength=_strength),
    _row(colour.expose, stops=_grown(-3, 2.5)),
    _row(colour.duotone, _draw_inks),
    _row(colour.split_tone, _draw_split),
    _row(colour.turn_hue, degrees=_grown(-180, 180), saturation=_grown(-0.7, 1.5, 1)),
    _row(drawing.relief, degrees=TURN, depth=_between(0.3, 1.2), strength=_strength),
    _row(drawing.outline, radius=_between(1, 6), gain=_between(0.6, 2.5), dark=_coin, strength=_strength),
    _row(drawing.ink, radius=_between(1, 6), level=_between(0.5, 1.1), strength=_strength),
    _row(drawing.engrave, period=_between(8, 24), degrees=TURN, strength=_strength),
    _row(
        drawing.paint,
        lambda rng, intensity: {
            "radius": 14 * intensity * rng.random(),
            "levels": round(20 - intensity * rng.uniform(6, 16)),
        },
    ),
    _row(drawing.dither, levels=_whole(2, 4), cell=_between(1, 8), strength=_strength),
    _row(drawing.spots, period=_grown(0, 26, 4), size=_grown(-0.7, -0.2, 1.4), colour=ANY),
    _row(
        drawing.crystals,
        count=lambda rng, intensity: 30 + round(2500 * (1 - intensity * rng.uniform(0.5, 0.95)) ** 2),
        rim=_grown(0, 0.8),
        colour=ANY,
        seed=_seed,
    ),
    _row(geometry.shuffle_tiles, **GRID, share=_grown(0, 1), seed=_seed),
    _row(geometry.space_tiles, **GRID, gap=_grown(0.01, 0.08), colour=ANY),
    _row(geometry.mirror_part, share=_grown(0.15, 0.5), upright=_coin, first=_coin),
    _row(geometry.repeat, rows=_counted(1, 3), columns=_counted(1, 3), mirrored=_coin),
    _row(geometry.shift_strips, count=_whole(2, 12), share=_grown(-0.4, 0.4), upright=_coin),
    _row(quality.tear_rows, count=_counted(1, 12), reach=_grown(0, 0.35), seed=_seed),
    _row(quality.break_blocks, count=_counted(2, 20), size=_grown(0, 0.35, 0.1), seed=_seed),
    _row(quality.scan_lines, period=_between(6, 30), strength=_grown(0, 1), shift=_grown(-0.06, 0.06)),
    _row(geometry.swirl, degrees=_grown(-180, 180), x=_between(-0.4, 0.4), y=_between(-0.4, 0.4)),
    _row(geometry.ripple, amplitude=_grown(0, 0.06), rings=_between(1, 5)),
    _row(geometry.crumple, reach=_grown(0.016, 0.08), cells=_whole(2, 7), seed=_seed),
    _row(
        overlays.double_exposure,
        mode=lambda rng, _: str(rng.choice(["mean", "screen", "multiply"])),
        strength=_strength,
    ),
    _row(overlays.fade_into, degrees=TURN, share=_grown(0, 0.5, 0.1)),
    _row(scenes.cut_round, power=_between(1.5, 6), size=_grown(-0.45, 0, 1.1), colour=ANY),
    _row(scenes.tear_edges, width=_grown(0, 0.22), colour=_colour(150, 256), seed=_seed),
    _row(scenes.film_strip, width=_grown(0, 0.26, 0.04), holes=_whole(5, 20), upright=_coin),
    _row(
        scenes.rain,
        drops=_counted(20, 500),
        length=_between(0.04, 0.25),
        degrees=_between(-40, 40),
        strength=_strength,
        seed=_seed,
    ),
    _row(scenes.snow, flakes=_counted(10, 240), size=_between(0.01, 0.06), strength=_strength, seed=_seed),
    _row(scenes.fog, density=_grown(0, 0.85), cells=_whole(1, 6), seed=_seed),
    _row(
        scenes.shadow,
        x=_between(-1, 1),
        degrees=_between(-80, 80),
        width=_between(0.1, 0.9),
        darkness=_grown(0, 0.9),
    ),
    _row(
        scenes.glow,
        x=_between(-1.1, 1.1),
        y=_between(-1.1, 1.1),
        reach=_between(0.4, 1.2),
        colour=ANY,
        strength=_grown(0, 1.6),
    ),
    _row(
        scenes.vignette,
        x=_between(-0.4, 0.4),
        y=_between(-0.4, 0.4),
        reach=_between(0.6, 1.5),
        stretch=_between(0.7, 1.4),
        power=_between(1, 4),
        darkness=_grown(0.4, 1),
    ),
    _row(
        scenes.screen_pixels,
        period=_between(5, 20),
        glare=_grown(0, 0.7),
        blue=_grown(-0.2, 0.4),
        strength=_grown(0, 1),
    ),
    _row(
        scenes.on_phone,
        size=_grown(-0.45, -0.1, 1),
        degrees=_grown(-35, 35),
        bars=_between(0.1, 0.5),
        colour=ANY,
    ),
    _row(
        scenes.in_document,
        size=_grown(-0.6, -0.15, 1),
        x=_between(0, 1),
        y=_between(0, 1),
        lines=_whole(12, 40),
        seed=_seed,
    ),
    _row(scenes.photocopy, contrast=_between(1, 4), specks=_grown(0, 0.1), strength=_strength, seed=_seed),
    _row(scenes.creases, folds=_whole(1, 7), strength=_grown(0, 1), seed=_seed),
    _row(scenes.stains, share=_grown(0, 0.4, 0.1), colour=_colour(0, 170), strength=_strength, seed=_seed),
    _row(scenes.photographed_print, _draw_print),
    _row(
        overlays.speech_bubbles,
        count=_counted(1, 4),
        size=_grown(0, 0.25, 0.1),
        fill=_colour(200, 256),
        seed=_seed,
    ),
    _row(overlays.confetti, count=_counted(4, 70), size=_between(0.03, 0.12), seed=_seed),
    _row(quality.zoom_blur, reach=_grown(0, 0.35)),
    _row(quality.defocus, radius=_grown(0, 16)),
    _row(quality.frosted_glass, reach=_grown(0, 18), seed=_seed),
)
