"""Compositions of edits: draw edits and their parameters, apply them, and record them so that they can be replayed exactly."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from image_copies.data.errors import UserError
from image_copies.data.kinds import EDIT_TABLES, load_kind

from .edits.registry import FUNCTIONS, OTHER_IMAGE, Image
from .settings import AugmentationSettings
from .tables.beyond_paper import EXTRA_TABLE, FURTHER_TABLE
from .tables.isc2021 import QUERY_TABLE, REFERENCE_TABLE
from .tables.many import MANY_TABLE
from .tables.row import Edit

Record = list[dict[str, Any]]
TABLES: dict[str, Sequence[Edit]] = {
    "query": QUERY_TABLE,
    "broad": (*QUERY_TABLE, *EXTRA_TABLE, *FURTHER_TABLE),
    "many": (*QUERY_TABLE, *EXTRA_TABLE, *FURTHER_TABLE, *MANY_TABLE),
    "reference": REFERENCE_TABLE,
    "none": (),
}


class OverlaySource(Protocol):
    """Images to paste, by id; records contain the ids."""

    @property
    def ids(self) -> Sequence[str]:
        """Ids of the images that may be pasted."""

    def __call__(self, image_id: str) -> Image:
        """Return an image, RGB uint8 [h, w, 3].

        Raises:
            ImageError: it cannot be read.
        """


@dataclass(frozen=True)
class Edited:
    """An edited image."""

    image: Image  # RGB uint8 [h, w, 3]
    # the applied edits in order, JSON-serialisable entries with "edit", "function" and the function's
    # parameters
    record: Record


def list_edits(settings: AugmentationSettings) -> Sequence[Edit]:
    """Return the rows of the tables that the settings select, in the order of application."""
    if settings.only is not None:
        return tuple(row for row in TABLES["many"] if row.family in settings.only)
    family = settings.family
    rows: Sequence[Edit] = TABLES[family] if family in TABLES else load_kind(EDIT_TABLES, family)
    rows = (*rows, *EXTRA_TABLE) if settings.extra and settings.family not in ("broad", "many") else rows
    return (
        rows
        if settings.without is None
        else tuple(row for row in rows if row.family not in settings.without)
    )


def compute_probability(edit: Edit, settings: AugmentationSettings) -> float:
    """How probable a row is at the settings' intensity, 0…1."""
    own = edit.probability(settings.intensity)
    chosen = (settings.probabilities or {}).get(edit.name)
    return own if chosen is None else chosen * own / edit.probability(1.0)


def check_probabilities(settings: AugmentationSettings) -> None:
    """Check that the settings override probabilities of existing edits only.

    Raises:
        UserError: a name is in none of the tables that the settings select.
    """
    known = [edit.name for edit in list_edits(settings)]
    for name in settings.probabilities or {}:
        if name not in known:
            raise UserError(
                f"probabilities names {name!r}, which is not an edit of this recipe's tables. Edits: {', '.join(known)}."
            )


def edit_image(
    image: Image,
    settings: AugmentationSettings,
    rng: np.random.Generator,
    other_images: OverlaySource | None = None,
) -> Edited:
    """Apply a random composition of edits to an image, RGB uint8 [h, w, 3], which is not changed.

    Without other images to paste, edits that paste are skipped.

    Raises:
        ImageError: an image to paste cannot be read.
    """
    record = draw_record(settings, rng, other_images.ids if other_images else ())
    return Edited(replay(image, record, other_images), record)


def draw_record(
    settings: AugmentationSettings, rng: np.random.Generator, other_ids: Sequence[str]
) -> Record:
    """Draw edits and their parameters; without ids of other images, edits that paste are skipped."""
    record: Record = []
    done: set[str] = set()
    for edit in list_edits(settings):
        if rng.random() >= compute_probability(edit, settings) or done.intersection(edit.not_after):
            continue
        if edit.needs_overlay and not other_ids:
            continue
        entry = edit.draw_entry(rng, settings.intensity, other_ids)
        if settings.templates is not None and edit.name == "onto_screenshot":
            entry["folder"] = settings.templates
        record.append(entry)
        done.add(edit.name)
    return record


def replay(image: Image, record: Record, other_images: OverlaySource | None = None) -> Image:
    """Apply a record to an image, RGB uint8 [h, w, 3]; deterministic, and the input is not changed.

    Raises:
        ValueError: the record pastes other images and `other_images` is None.
        ImageError: an image to paste cannot be read.
    """
    result = image
    for entry in record:
        function, parameters = (
            entry["function"],
            {k: v for k, v in entry.items() if k not in ("edit", "function")},
        )
        if function in OTHER_IMAGE:
            if other_images is None:
                raise ValueError(
                    f"the record pastes the image {parameters[OTHER_IMAGE[function]]!r}; give its source"
                )
            name = OTHER_IMAGE[function]
            parameters[name] = other_images(parameters[name])
        result = FUNCTIONS[function](result, **parameters)
    return result.copy() if result is image else result
