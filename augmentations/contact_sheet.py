"""A contact sheet for inspection: every edit at three intensities."""

from pathlib import Path

import cv2
import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw

from image_copies.augmentations.composition import TABLES, replay
from image_copies.augmentations.edits.registry import TUNED_SIDE, Image
from image_copies.augmentations.randomness import generator_for
from image_copies.augmentations.tables.row import Edit
from image_copies.data.decode import as_uint8, decode_rgb
from image_copies.data.errors import ImageError, UserError
from image_copies.data.files import whole_file
from image_copies.data.images import ImageSet
from image_copies.data.squares import resize_square, shrink

CELL_SIDE, LABEL_HEIGHT = 144, 16  # pixels
COLUMNS = 3
MAX_OVERLAYS = 64  # maximum number of images that are pasted from
INTENSITIES = (0.25, 0.6, 1.0)


class _Material:
    """Images to paste, in memory, by id."""

    def __init__(self, images: dict[str, Image]) -> None:
        self.ids, self._images = list(images), images

    def __call__(self, image_id: str) -> Image:
        return self._images[image_id]


def draw_contact_sheet(images: ImageSet, overlays: ImageSet, count: int, seed: int, path: Path) -> None:
    """Draw every edit at three intensities as a JPEG file.

    The first `count` readable images are edited, one at least. If no overlay can be read, edits that paste are left out.

    Raises:
        UserError: none of the images can be read, or the disk is full.
    """
    chosen = list(_first_readable(images, max(1, count)).values())
    if not chosen:
        raise UserError(
            f"no contact sheet: none of {len(images)} images can be read, the first is {images.paths[0]}."
        )
    other_images = _Material(_first_readable(overlays, MAX_OVERLAYS))
    edits = [edit for edit in TABLES["many"] if other_images.ids or not edit.needs_overlay]
    cells = []
    for number, edit in enumerate(edits):
        image = chosen[number % len(chosen)]
        cells.append(_draw_row(edit, image, seed, other_images))
    rows = [
        (f"{edit.name}   I = {', '.join(map(str, INTENSITIES))}", row)
        for edit, row in zip(edits, cells, strict=True)
    ]
    _save(path, rows)


def _first_readable(images: ImageSet, count: int) -> dict[str, Image]:
    """Return up to `count` images by id; unreadable ones are skipped."""
    found: dict[str, Image] = {}
    for image_id, path in zip(images.ids, images.paths, strict=True):
        if len(found) == count:
            break
        try:
            found[image_id] = shrink(decode_rgb(path, short_side=TUNED_SIDE // 2), TUNED_SIDE)
        except ImageError:
            continue
    return found


def _draw_row(edit: Edit, image: Image, seed: int, other_images: _Material) -> list[Image]:
    """Apply one draw at each intensity: the one of eight that changes most at I = 1, because some are barely visible."""

    def apply(attempt: int, intensity: float) -> Image:
        rng = generator_for(seed, attempt, edit.name)
        return replay(image, [edit.draw_entry(rng, intensity, other_images.ids)], other_images)

    def change(attempt: int) -> float:
        return float(
            np.abs(
                resize_square(apply(attempt, 1.0), CELL_SIDE).astype(int) - resize_square(image, CELL_SIDE)
            ).mean()
        )

    best = max(range(8), key=change)
    return [apply(best, intensity) for intensity in INTENSITIES]


def _save(path: Path, rows: list[tuple[str, list[Image]]]) -> None:
    """Save labelled rows of pictures as one image, COLUMNS rows side by side."""
    width = max(len(row) for _, row in rows) * CELL_SIDE + 8
    height = CELL_SIDE + LABEL_HEIGHT
    sheet = Pillow.new("RGB", (COLUMNS * width, -(-len(rows) // COLUMNS) * height), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (label, row) in enumerate(rows):
        left, top = number % COLUMNS * width, number // COLUMNS * height
        draw.text((left + 4, top + 2), label, fill="black")
        for column, picture in enumerate(row):
            small = shrink(picture, CELL_SIDE - 4)
            small = small if max(small.shape[:2]) >= CELL_SIDE - 4 else _enlarge(small, CELL_SIDE - 4)
            sheet.paste(Pillow.fromarray(small), (left + 4 + column * CELL_SIDE, top + LABEL_HEIGHT))
    with whole_file(path) as temporary:
        sheet.save(temporary, quality=88)


def _enlarge(image: Image, long_side: int) -> Image:
    factor = long_side / max(image.shape[:2])
    return as_uint8(cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_NEAREST))
