"""Compositions of edits: draw which edits and parameters, apply them, keep a record that replays to the same image."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from augmentations.edits import colour, geometry, overlays, quality
from augmentations.settings import AugmentationSettings
from augmentations.tables import classification
from augmentations.tables.beyond_paper import EXTRA_TABLE
from augmentations.tables.classification import AUTO_AUGMENT, MULTIGRAIN_FULL
from augmentations.tables.isc2021 import REFERENCE_TABLE, TABLE, Edit

Image = NDArray[np.uint8]
Record = list[dict[str, Any]]
FUNCTIONS: dict[str, Callable[..., Image]] = {
    name: value
    for module in (geometry, colour, quality, overlays, classification)
    for name, value in vars(module).items()
    if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
}
OTHER_IMAGE = {"overlay_image": "overlay", "overlay_onto_image": "background", "collage": "overlay", "sticker": "overlay"}
FAMILIES: dict[str, Sequence[Edit]] = {
    "query": TABLE,
    "reference": REFERENCE_TABLE,
    "multigrain_full": MULTIGRAIN_FULL,
    "autoaugment": AUTO_AUGMENT,
    "none": (),
}


class OverlaySource(Protocol):
    """Other images to paste, by id; the records name the ids."""

    @property
    def ids(self) -> Sequence[str]: ...

    def __call__(self, image_id: str) -> Image: ...


@dataclass(frozen=True)
class Edited:
    """The edited image [h, w, 3] uint8 and what was done: a list of {"edit", "function", parameters}, JSON-able."""

    image: Image
    record: Record


def edits_of(settings: AugmentationSettings) -> Sequence[Edit]:
    """The rows that the settings switch on, in the order of application."""
    rows = FAMILIES[settings.family]
    return (*rows, *EXTRA_TABLE) if settings.extra else rows


def edit_image(
    image: Image, settings: AugmentationSettings, rng: np.random.Generator, other_images: OverlaySource | None = None
) -> Edited:
    """Apply a random composition. Edits that paste other images are left out without `other_images`."""
    record = draw_record(settings, rng, other_images.ids if other_images else ())
    return Edited(replay(image, record, other_images), record)


def draw_record(settings: AugmentationSettings, rng: np.random.Generator, other_ids: Sequence[str]) -> Record:
    """Draw edits and parameters without touching an image."""
    record: Record = []
    done: set[str] = set()
    for edit in edits_of(settings):
        if rng.random() >= edit.probability(settings.intensity) or done.intersection(edit.not_after):
            continue
        if edit.needs_overlay and not other_ids:
            continue
        entry = {"edit": edit.name, "function": edit.function} | edit.draw(rng, settings.intensity)
        if edit.needs_overlay:
            entry[OTHER_IMAGE[entry["function"]]] = other_ids[int(rng.integers(len(other_ids)))]
        record.append(entry)
        done.add(edit.name)
    return record


def replay(image: Image, record: Record, other_images: OverlaySource | None = None) -> Image:
    """Apply a record; the same record gives the same image. The input stays as it is."""
    result = image
    for entry in record:
        function, parameters = entry["function"], {k: v for k, v in entry.items() if k not in ("edit", "function")}
        if function in OTHER_IMAGE:
            if other_images is None:
                raise ValueError(f"the record pastes the image {parameters[OTHER_IMAGE[function]]!r}; give its source")
            name = OTHER_IMAGE[function]
            parameters[name] = other_images(parameters[name])
        result = FUNCTIONS[function](result, **parameters)
    return result.copy() if result is image else result
