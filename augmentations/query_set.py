"""Synthetic query sets: edited copies and edited distractors, with ground truth and each query's edit record."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

from image_copies.data import decode, files, ground_truth, layout, process, squares
from image_copies.data.arrays import UInt8s
from image_copies.data.errors import ImageError, UserError
from image_copies.data.images import ImageSet

from .composition import Edited, draw_record, replay
from .edits.registry import FAMILY_OF, TUNED_SIDE
from .randomness import generator_for
from .settings import AugmentationSettings, EditFamily

# query id, source id, source path, edits to draw one after another
Task = tuple[str, str, Path, tuple[AugmentationSettings, ...]]


class FileOverlays:
    """Overlay images that are decoded on demand; an image that cannot be read is removed from `ids`."""

    def __init__(self, images: ImageSet) -> None:
        self.ids = images.ids
        self._paths = dict(zip(images.ids, images.paths, strict=True))

    def __call__(self, image_id: str) -> UInt8s:
        """Return an image, RGB uint8 [h, w, 3], its long side at most TUNED_SIDE pixels.

        Raises:
            ImageError: it cannot be read.
        """
        try:
            return squares.shrink(
                decode.decode_rgb(self._paths[image_id], short_side=TUNED_SIDE // 2), TUNED_SIDE
            )
        except ImageError:
            self.ids = [other for other in self.ids if other != image_id]
            raise


def make_query_set(
    references: ImageSet,
    distractors: ImageSet,
    overlays: ImageSet,
    settings: AugmentationSettings,
    seed: int,
    count: int,
    copies: int,
    folder: Path,
    left_out: Sequence[AugmentationSettings] = (),
) -> None:
    """Write `query_images/`, the ground truth, `query_edits.csv` and `query_records.jsonl` into `folder`: all or nothing.

    Of `count` queries, `copies` are edited references, of which none is copied twice until all have been copied once; the others
    are edited distractors. Every query has at least one edit. Images that cannot be read yield no query, which is reported with
    their number; unreadable overlays are replaced by others.

    Where `left_out` gives other edits, every second copy and every second other query has at least one of these, each of them in
    turn, before those of `settings`.

    Raises:
        UserError: there are more copies than queries, or no image can be read.
    """
    if copies > count:
        raise UserError(
            f"{copies} copies were asked for among {count} queries; lower queries.copies in the recipe."
        )
    rng = generator_for(seed, 0, "query set")
    places = rng.permutation(count)
    sources = [(references, True, copies), (distractors, False, count - copies)]
    tasks: list[tuple[Task, bool]] = []
    for images, is_copy, number in sources:
        order = np.concatenate([rng.permutation(len(images)) for _ in range(number // len(images) + 1)])[
            :number
        ]
        for place, index in enumerate(order):
            query_id = f"Q{places[len(tasks)]:05d}"
            edits = (
                (settings,)
                if not left_out or place % 2 == 0
                else (left_out[place // 2 % len(left_out)], settings)
            )
            tasks.append(((query_id, images.ids[index], images.paths[index], edits), is_copy))
    tasks.sort(key=lambda task: task[0][0])
    with files.whole_folder(folder) as temporary:
        (temporary / layout.QUERY).mkdir()
        edit = partial(_write_query, temporary / layout.QUERY, seed, overlays)
        done = process.map_on_cores(edit, [task for task, _ in tasks], chunk=8)
        results = list(tqdm(done, total=count, desc="editing queries", unit="query", leave=False))
        _write_tables(temporary, tasks, results)


def read_families(records: Path) -> dict[str, set[EditFamily]]:
    """Return the families of the edits of each query, by its id, from the `query_records.jsonl` of `make_query_set`."""
    lines = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    return {line["query_id"]: {FAMILY_OF[entry["function"]] for entry in line["record"]} for line in lines}


def _write_query(folder: Path, seed: int, overlays: ImageSet, task: Task) -> list[dict[str, object]] | str:
    """Edit one image and save it; return its record, or the reason why it could not be read."""
    query_id, source_id, path, edits = task
    other_images = FileOverlays(overlays)
    try:
        image = squares.shrink(decode.decode_rgb(path, short_side=TUNED_SIDE // 2), TUNED_SIDE)
    except ImageError as error:
        return str(error)
    edited = _edit_at_least_once(image, edits, seed, query_id, source_id, other_images)
    Image.fromarray(squares.shrink(edited.image, 2 * TUNED_SIDE)).save(
        folder / f"{query_id}.jpg", quality=85
    )
    return edited.record


def _edit_at_least_once(
    image: UInt8s,
    edits: tuple[AugmentationSettings, ...],
    seed: int,
    query_id: str,
    source_id: str,
    other_images: FileOverlays,
) -> Edited:
    """Apply the first drawn composition with an edit of the first of `edits`; an image is never pasted into its own copy."""
    attempt = 0
    while attempt < 1000:
        rng = generator_for(seed, attempt, query_id)
        pasted = [image_id for image_id in other_images.ids if image_id != source_id]
        records = [draw_record(settings, rng, pasted) for settings in edits]
        if not records[0]:
            attempt += 1
            continue
        record = [entry for drawn in records for entry in drawn]
        try:
            return Edited(replay(image, record, other_images), record)
        except ImageError:
            continue  # repeat the same draw with the remaining overlays
    return Edited(image, [])  # family "none" has no edits


def _write_tables(
    folder: Path, tasks: list[tuple[Task, bool]], results: list[list[dict[str, object]] | str]
) -> None:
    made = [
        (task, is_copy, record)
        for (task, is_copy), record in zip(tasks, results, strict=True)
        if not isinstance(record, str)
    ]
    problems = [record for record in results if isinstance(record, str)]
    if not made:
        raise UserError(
            f"no query could be made, because none of {len(tasks)} images can be read; the first: {problems[0]}"
        )
    if problems:
        print(
            f"{len(problems)} of {len(tasks)} queries were not made because their images cannot be read; the first: {problems[0]}"
        )
    ground_truth.write_ground_truth(
        folder / layout.GROUND_TRUTH, [(task[0], task[1] if is_copy else None) for task, is_copy, _ in made]
    )
    edits = [(task[0], " ".join(str(entry["edit"]) for entry in record)) for task, _, record in made]
    ground_truth.write_table(folder / layout.QUERY_EDITS, ["query_id", "edits"], edits)
    lines = [
        json.dumps({"query_id": task[0], "source_id": task[1], "record": record})
        for task, _, record in made
    ]
    (folder / layout.QUERY_RECORDS).write_text("\n".join(lines) + "\n", encoding="utf-8")
