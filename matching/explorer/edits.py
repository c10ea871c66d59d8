"""The edits that the page offers: every row of the tables, or a random composition as in training."""

from typing import Any, Literal

import numpy as np

from image_copies.augmentations.composition import TABLES, Edited, OverlaySource, edit_image, replay
from image_copies.augmentations.edits.registry import TUNED_SIDE, EditFunction, Image
from image_copies.augmentations.randomness import generator_for
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.augmentations.tables.isc2021 import QUERY_TABLE
from image_copies.augmentations.tables.row import Edit, Parameters
from image_copies.data.errors import UserError
from image_copies.data.squares import resize_square, shrink

COMPOSITION = "composition"
EDITS: dict[str, Edit] = {edit.name: edit for edit in TABLES["many"]}
SEED = 0
RANKED_DRAWS = 9  # random draws that are sorted by strength, for edits whose parameters do not depend on the intensity
COMPARED_SIDE = 48  # side in pixels of the squares to which images are reduced before their change is measured
Grade = Literal["intensity", "draws", "none"]


def list_edits(others: OverlaySource | None) -> list[dict[str, Any]]:
    """List each edit's name, group, grade (what the slider changes, see `grade_of`) and whether it is usable with `others`."""
    rows = [
        {
            "name": edit.name,
            "group": "the paper's edits" if edit in QUERY_TABLE else "edits beyond the paper",
            "grade": grade_of(edit),
            "usable": not edit.needs_overlay or others is not None,
        }
        for edit in EDITS.values()
    ]
    return [{"name": COMPOSITION, "group": "", "grade": "intensity", "usable": True}, *rows]


def grade_of(edit: Edit) -> Grade:
    """Return what the slider changes: "intensity" if the edit's parameters depend on it, else which of its "draws", or "none"."""

    def draw_parameters(intensity: float, draw: int) -> tuple[EditFunction, Parameters]:
        return edit.draw(generator_for(SEED, draw, edit.name), intensity)

    if draw_parameters(0.2, 0) != draw_parameters(1.0, 0):
        return "intensity"
    return "draws" if any(draw_parameters(1.0, 0) != draw_parameters(1.0, draw) for draw in range(1, 5)) else "none"


def apply_edit(image: Image, name: str, intensity: float, draw: int, others: OverlaySource | None) -> Edited:
    """Apply one edit, or a random COMPOSITION of several, to a picture uint8 [h, w, 3], which is reduced to TUNED_SIDE first.

    The slider's position `intensity` is 0…1; `others` are images that the edit may paste.

    Raises:
        UserError: when there is no such edit, or it pastes other images and there are none.
    """
    image = shrink(image, TUNED_SIDE)
    if name == COMPOSITION:
        settings = AugmentationSettings(intensity=intensity, extra=True)
        return edit_image(image, settings, generator_for(SEED, draw, name), others)
    if name not in EDITS:
        raise UserError(f"There is no edit {name!r}. /api/about lists them all.")
    edit = EDITS[name]
    if edit.needs_overlay and others is None:
        raise UserError(f"{name} pastes other images, but the run's training images are missing. Choose another edit.")
    if grade_of(edit) != "draws":
        return _once(image, edit, intensity, draw, others)
    tries = [_once(image, edit, 1.0, RANKED_DRAWS * draw + number, others) for number in range(RANKED_DRAWS)]
    return sorted(tries, key=lambda tried: _change(image, tried.image))[round(intensity * (RANKED_DRAWS - 1))]


def _once(image: Image, edit: Edit, intensity: float, draw: int, others: OverlaySource | None) -> Edited:
    rng = generator_for(SEED, draw, edit.name)
    entry = edit.draw_entry(rng, intensity, others.ids if others is not None else ())
    return Edited(replay(image, [entry], others), [entry])


def _change(before: Image, after: Image) -> float:
    small = [resize_square(image, COMPARED_SIDE).astype(int) for image in (before, after)]
    return float(np.abs(small[0] - small[1]).mean())
