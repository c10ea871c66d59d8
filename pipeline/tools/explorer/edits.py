"""The edits that the page offers: every row of the tables, or a composition as training draws it."""

from typing import Any, Literal

import numpy as np

from augmentations.composition import Edited, OverlaySource, edit_image, replay
from augmentations.edits.registry import TUNED_SIDE, EditFunction, Image
from augmentations.randomness import generator_for
from augmentations.settings import AugmentationSettings
from augmentations.tables.beyond_paper import EXTRA_TABLE
from augmentations.tables.isc2021 import QUERY_TABLE
from augmentations.tables.row import Edit, Parameters
from data.errors import UserError
from data.loader import resize_square, shrink

COMPOSITION = "composition"
EDITS: dict[str, Edit] = {edit.name: edit for edit in (*QUERY_TABLE, *EXTRA_TABLE)}
SEED = 0
DRAWS = 9  # compared where the table's intensity says only how often an edit is drawn
COMPARED_SIDE = 48  # pixels a side
Grade = Literal["intensity", "draws", "none"]


def offered(others: OverlaySource | None) -> list[dict[str, Any]]:
    """name, group, what the slider does to the edit (`grade_of`), whether it can be applied here."""
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
    """What makes the edit stronger: "intensity", "draws" or "none".

    The table's intensity where the parameters depend on it; the mildest to the strongest of some draws where it is only a
    probability; nothing for an edit that has one form.
    """

    def drawn(intensity: float, draw: int) -> tuple[EditFunction, Parameters]:
        return edit.draw(generator_for(SEED, draw, edit.name), intensity)

    if drawn(0.2, 0) != drawn(1.0, 0):
        return "intensity"
    return "draws" if any(drawn(1.0, 0) != drawn(1.0, draw) for draw in range(1, 5)) else "none"


def edited(image: Image, name: str, intensity: float, draw: int, others: OverlaySource | None) -> Edited:
    """The image with one edit, or with a composition of several.

    Args:
        image: [h, w, 3] uint8; it is shrunk to the size that edits are tuned at.
        name: Of the edit, or COMPOSITION.
        intensity: 0…1.
        draw: Which of its random parameters.
        others: Images that it may paste.

    Raises:
        UserError: There is no such edit, or it pastes other images and there are none.
    """
    image = shrink(image, TUNED_SIDE)
    if name == COMPOSITION:
        settings = AugmentationSettings(intensity=intensity, extra=True)
        return edit_image(image, settings, generator_for(SEED, draw, name), others)
    if name not in EDITS:
        raise UserError(f"There is no edit {name!r}.")
    edit = EDITS[name]
    if edit.needs_overlay and others is None:
        raise UserError(f"{name} pastes other images: the run's training images, which are not there.")
    if grade_of(edit) != "draws":
        return _once(image, edit, intensity, draw, others)
    tries = [_once(image, edit, 1.0, DRAWS * draw + number, others) for number in range(DRAWS)]
    return sorted(tries, key=lambda tried: _change(image, tried.image))[round(intensity * (DRAWS - 1))]


def _once(image: Image, edit: Edit, intensity: float, draw: int, others: OverlaySource | None) -> Edited:
    rng = generator_for(SEED, draw, edit.name)
    entry = edit.draw_entry(rng, intensity, others.ids if others is not None else ())
    return Edited(replay(image, [entry], others), [entry])


def _change(before: Image, after: Image) -> float:
    small = [resize_square(image, COMPARED_SIDE).astype(int) for image in (before, after)]
    return float(np.abs(small[0] - small[1]).mean())
