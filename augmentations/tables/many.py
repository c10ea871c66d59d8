"""Edits of many more kinds, for descriptors that are to find copies made in ways that nobody listed.

Only the table "many" has them, and no other table has their families, so that `queries.left_out` and `without_edits` can name
any of these. Every edit becomes both more probable and stronger with the intensity.
"""

from collections.abc import Sequence

import numpy as np

from ..edits import colour, drawing, geometry, overlays, quality, scenes
from ..edits.registry import EditFunction
from .row import (
    ANY_COLOUR,
    TURN,
    DrawParameters,
    DrawValue,
    Edit,
    Parameters,
    between,
    coin,
    colour_between,
    draw_fill,
    drawn,
    grown,
    rising,
    seed,
    whole,
)

PROBABILITY = 0.05  # probability of each edit at intensity 1: two or three of them in an image


def _counted(start: int, most: int) -> DrawValue:
    """`start` and up to `most` more, in proportion to the intensity."""
    return lambda rng, intensity: start + round(intensity * most * rng.random())


def _strength(rng: np.random.Generator, intensity: float) -> float:
    """How much of the image an edit replaces: from intensity 0.5 on now and then everything, at 1 in every second draw."""
    return min(1.0, 2 * intensity * float(rng.random()))


def _row(function: EditFunction, draw: DrawParameters | None = None, **values: DrawValue) -> Edit:
    """A row that is named after its function, whose parameters `draw` draws, or `values` one by one."""
    return Edit(function.__name__, function, rising(PROBABILITY), draw or drawn(**values))


def _draw_curve(rng: np.random.Generator, intensity: float) -> Parameters:
    """A curve that wanders off the diagonal; one of four falls where the intensity is high."""
    straight = np.linspace(0, 1, 5)
    fall = intensity * (rng.random() < 0.25)
    curve = straight * (1 - fall) + straight[::-1] * fall + intensity * rng.uniform(-0.5, 0.5, 5)
    return {"heights": curve.clip(0, 1).tolist()}


def _draw_inks(rng: np.random.Generator, intensity: float) -> Parameters:
    inks = [rng.integers(0, 130, 3).tolist(), rng.integers(120, 256, 3).tolist()]
    dark, light = inks[::-1] if rng.random() < 0.15 else inks
    return {"dark": dark, "light": light, "strength": _strength(rng, intensity)}


def _draw_split(rng: np.random.Generator, intensity: float) -> Parameters:
    shadows = intensity * rng.uniform(-0.5, 0.8, 3)
    highlights = intensity * rng.uniform(-0.8, 0.5, 3)
    return {"shadows": shadows.tolist(), "highlights": highlights.tolist()}


def _draw_print(rng: np.random.Generator, intensity: float) -> Parameters:
    inwards = intensity * rng.uniform(0.01, 0.16, (4, 2)) * [[1, 1], [-1, 1], [-1, -1], [1, -1]]
    yellow, shade, fibre = (intensity * rng.random(3) * [1, 0.8, 0.06]).tolist()
    return {
        "yellow": yellow,
        "shade": shade,
        "fibre": fibre,
        "shifts": inwards.tolist(),
        "seed": seed(rng, intensity),
    }


def _draw_rim(rng: np.random.Generator, intensity: float) -> float:
    """No rim, or one of up to a tenth, as often."""
    return max(0.0, float(rng.uniform(-0.1, 0.1)))


def _draw_grid(rng: np.random.Generator, intensity: float) -> Parameters:
    """Two pictures side by side or in a column as often as up to three in each of up to three rows."""
    rows = columns = 1
    if rng.random() < 0.5:
        rows, columns = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    if rows * columns == 1:
        rows, columns = [(1, 2), (2, 1)][rng.integers(2)]
    return {
        "rows": rows,
        "columns": columns,
        "place": int(rng.integers(rows * columns)),
        "gap": _draw_rim(rng, intensity),
        "colour": draw_fill(rng, intensity),
        "size": 0.5 + (1 - intensity) * 0.2 + intensity * float(rng.uniform(-0.15, 0.15)),
        "seed": seed(rng, intensity),
    }


# after these the image is a part of the picture already
PASTED_BEFORE = (
    "overlay_image",
    "severe_crop",
    "collage",
    "hide_inside",
    "onto_screenshot",
    "meme_format",
    "on_phone",
    "in_document",
    "repeat",
)
GRID = {"rows": whole(2, 6), "columns": whole(2, 6)}
MANY_TABLE: Sequence[Edit] = (
    _row(colour.tone_curve, _draw_curve),
    _row(
        colour.posterize,
        lambda rng, intensity: {"levels": round(2 + 14 * (1 - intensity * rng.uniform(0.4, 1)))},
    ),
    _row(colour.two_tones, level=between(0.6, 1.2), strength=_strength),
    _row(colour.equalize, tiles=whole(1, 9), strength=_strength),
    _row(colour.expose, stops=grown(-3, 2.5)),
    _row(colour.duotone, _draw_inks),
    _row(colour.split_tone, _draw_split),
    _row(colour.turn_hue, degrees=grown(-180, 180), saturation=grown(-0.7, 1.5, 1)),
    _row(drawing.relief, degrees=TURN, depth=between(0.3, 1.2), strength=_strength),
    _row(drawing.outline, radius=between(1, 6), gain=between(0.6, 2.5), dark=coin, strength=_strength),
    _row(drawing.ink, radius=between(1, 6), level=between(0.5, 1.1), strength=_strength),
    _row(drawing.engrave, period=between(8, 24), degrees=TURN, strength=_strength),
    _row(
        drawing.paint,
        lambda rng, intensity: {
            "radius": 14 * intensity * rng.random(),
            "levels": round(20 - intensity * rng.uniform(6, 16)),
        },
    ),
    _row(drawing.dither, levels=whole(2, 4), cell=between(1, 8), strength=_strength),
    _row(drawing.spots, period=grown(0, 26, 4), size=grown(-0.7, -0.2, 1.4), colour=ANY_COLOUR),
    _row(
        drawing.crystals,
        count=lambda rng, intensity: 30 + round(2500 * (1 - intensity * rng.uniform(0.5, 0.95)) ** 2),
        rim=grown(0, 0.8),
        colour=ANY_COLOUR,
        seed=seed,
    ),
    _row(geometry.shuffle_tiles, **GRID, share=grown(0, 1), seed=seed),
    _row(geometry.space_tiles, **GRID, gap=grown(0.01, 0.08), colour=ANY_COLOUR),
    _row(geometry.mirror_part, share=grown(0.15, 0.5), upright=coin, first=coin),
    _row(geometry.repeat, rows=_counted(1, 3), columns=_counted(1, 3), mirrored=coin),
    _row(geometry.shift_strips, count=whole(2, 12), share=grown(-0.4, 0.4), upright=coin),
    _row(quality.tear_rows, count=_counted(1, 12), reach=grown(0, 0.35), seed=seed),
    _row(quality.break_blocks, count=_counted(2, 20), size=grown(0, 0.35, 0.1), seed=seed),
    _row(quality.scan_lines, period=between(6, 30), strength=grown(0, 1), shift=grown(-0.06, 0.06)),
    _row(geometry.swirl, degrees=grown(-180, 180), x=between(-0.4, 0.4), y=between(-0.4, 0.4)),
    _row(geometry.ripple, amplitude=grown(0, 0.06), rings=between(1, 5)),
    _row(geometry.crumple, reach=grown(0.016, 0.08), cells=whole(2, 7), seed=seed),
    _row(
        overlays.double_exposure,
        mode=lambda rng, _: str(rng.choice(["mean", "screen", "multiply"])),
        strength=_strength,
    ),
    _row(overlays.fade_into, degrees=TURN, share=grown(0, 0.5, 0.1)),
    _row(scenes.cut_round, power=between(1.5, 6), size=grown(-0.45, 0, 1.1), colour=ANY_COLOUR),
    _row(scenes.tear_edges, width=grown(0, 0.22), colour=colour_between(150, 256), seed=seed),
    _row(scenes.film_strip, width=grown(0, 0.26, 0.04), holes=whole(5, 20), upright=coin),
    _row(
        scenes.rain,
        drops=_counted(20, 500),
        length=between(0.04, 0.25),
        degrees=between(-40, 40),
        strength=_strength,
        seed=seed,
    ),
    _row(scenes.snow, flakes=_counted(10, 240), size=between(0.01, 0.06), strength=_strength, seed=seed),
    _row(scenes.fog, density=grown(0, 0.85), cells=whole(1, 6), seed=seed),
    _row(
        scenes.shadow,
        x=between(-1, 1),
        degrees=between(-80, 80),
        width=between(0.1, 0.9),
        darkness=grown(0, 0.9),
    ),
    _row(
        scenes.glow,
        x=between(-1.1, 1.1),
        y=between(-1.1, 1.1),
        reach=between(0.4, 1.2),
        colour=ANY_COLOUR,
        strength=grown(0, 1.6),
    ),
    _row(
        scenes.vignette,
        x=between(-0.4, 0.4),
        y=between(-0.4, 0.4),
        reach=between(0.6, 1.5),
        stretch=between(0.7, 1.4),
        power=between(1, 4),
        darkness=grown(0.4, 1),
    ),
    _row(
        scenes.screen_pixels,
        period=between(5, 20),
        glare=grown(0, 0.7),
        blue=grown(-0.2, 0.4),
        strength=grown(0, 1),
    ),
    _row(
        scenes.on_phone,
        size=grown(-0.45, -0.1, 1),
        degrees=grown(-35, 35),
        bars=between(0.1, 0.5),
        colour=ANY_COLOUR,
    ),
    _row(
        scenes.in_document,
        size=grown(-0.6, -0.15, 1),
        x=between(0, 1),
        y=between(0, 1),
        lines=whole(12, 40),
        seed=seed,
    ),
    _row(scenes.photocopy, contrast=between(1, 4), specks=grown(0, 0.1), strength=_strength, seed=seed),
    _row(scenes.creases, folds=whole(1, 7), strength=grown(0, 1), seed=seed),
    _row(
        scenes.stains,
        share=grown(0, 0.4, 0.1),
        colour=colour_between(0, 170),
        strength=_strength,
        seed=seed,
    ),
    _row(scenes.photographed_print, _draw_print),
    _row(
        overlays.speech_bubbles,
        count=_counted(1, 4),
        size=grown(0, 0.25, 0.1),
        fill=colour_between(200, 256),
        seed=seed,
    ),
    _row(overlays.confetti, count=_counted(4, 70), size=between(0.03, 0.12), seed=seed),
    _row(quality.zoom_blur, reach=grown(0, 0.35)),
    _row(quality.defocus, radius=grown(0, 16)),
    _row(quality.frosted_glass, reach=grown(0, 18), seed=seed),
    Edit("grid", overlays.grid, rising(PROBABILITY), _draw_grid, not_after=PASTED_BEFORE),
    Edit(
        "inset",
        overlays.inset,
        rising(PROBABILITY),
        drawn(
            size=grown(-0.7, -0.2, 0.9), x=between(0, 1), y=between(0, 1), rim=_draw_rim, colour=draw_fill
        ),
        not_after=("grid", *PASTED_BEFORE),
    ),
)
