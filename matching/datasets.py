"""Copies in a Hugging Face dataset: `dataset.select(rows_to_keep(dataset))` leaves out those that are certain."""

import tempfile
from pathlib import Path
from typing import Any

from image_copies.data.errors import UserError

from .commands.interface import find_copies


def rows_to_keep(
    dataset: Any, column: str | None = None, verify: int | None = None, progress: bool = True
) -> list[int]:
    """Return the rows of a `datasets.Dataset`, in order, without those whose picture is certainly a copy of one that stays.

    Pictures are written to a temporary folder first, so that filtered and shuffled datasets are read as what they show.

    Args:
        dataset: A dataset with a column of images.
        column: The column's name; None for the first of this kind.
        verify: As for `find_copies`.
        progress: As for `find_copies`.

    Raises:
        UserError: There is no such column, or it holds no picture.
    """
    images = [name for name, feature in dataset.features.items() if type(feature).__name__ == "Image"]
    chosen = column or next(iter(images), None)
    if chosen not in images:
        raise UserError(
            f"the dataset has the columns {dataset.features}; expected {column or 'one'} with images."
        )
    feature = type(dataset.features[chosen])(decode=False)
    with tempfile.TemporaryDirectory() as place:
        for row, cells in enumerate(dataset.select_columns([chosen]).cast_column(chosen, feature)):
            picture = cells[chosen] or {}
            content = picture.get("bytes") or (
                Path(picture["path"]).read_bytes() if picture.get("path") else b""
            )
            Path(place, f"{row:09d}").write_bytes(content)
        groups = find_copies(place, verify=verify, progress=progress)
        removed = {int(path.name) for group in groups for path in group.removable}
    return [row for row in range(len(dataset)) if row not in removed]
