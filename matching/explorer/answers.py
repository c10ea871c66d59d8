"""The page's answers: the nearest references of a picture, the threshold, and the effect of query normalisation."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from image_copies.augmentations.composition import OverlaySource
from image_copies.augmentations.edits.registry import TUNED_SIDE
from image_copies.augmentations.query_set import FileOverlays
from image_copies.data.errors import text_of
from image_copies.data.images import ImageSet
from image_copies.matching.explorer.edits import apply_edit
from image_copies.matching.explorer.judging import MAX_CACHED_PICTURES, judge_found, see_query
from image_copies.matching.extractor import Extractor, Normalizer
from image_copies.matching.index.search import Nearest, SearchIndex, find_nearest
from image_copies.matching.index.segments import load_segment
from image_copies.matching.index.store import files_of_content, open_store, stored_vectors
from image_copies.matching.matches import Match, Rule, judgement_values
from image_copies.matching.results.overlays import data_url
from image_copies.matching.verification.judgement import Judgement
from image_copies.matching.verification.pairs import PairJudge
from image_copies.matching.views import CROPS, VIEWS, embed_views_of, name_view
from image_copies.submissions.vectors.files import Vectors

SHOWN_REFERENCES = 12
SHOWN_TRAINING_IMAGES = 3
Kind = Literal["reference", "training", "query"]


@dataclass(frozen=True)
class _Near:
    """A row of the references, its squared distance, and the number of the picture's view that is so near; −1 for the whole."""

    row: int
    distance: float
    number: int

    @property
    def view(self) -> str:
        """The kind of the view, such as "crop"; empty for the whole."""
        return name_view(self.number)


@dataclass(frozen=True)
class Explorer:
    """What the page shows: an opened run, a folder or an index."""

    title: str
    extractor: Extractor
    references: Vectors  # those that are searched
    index: SearchIndex  # exact, over the readable references; ids are rows of `references`
    rule: Rule  # when a pair counts as a copy; without a tail, nothing says it
    uncalibrated: str  # why there is no tail; empty if there is one
    pictures: dict[Kind, ImageSet]  # as far as they exist
    others: OverlaySource | None  # images that edits may paste
    judge: PairJudge = field(default_factory=lambda: PairJudge(MAX_CACHED_PICTURES))

    def threshold(self) -> float | None:
        """Return the lowest score of a copy; None where it is not calibrated."""
        return self.rule.threshold(self.index.ntotal)


def open_folder_explorer(extractor: Extractor, title: str, images: ImageSet, rate: float) -> Explorer:
    """Open any pictures as references and queries; they are embedded first. The threshold is the descriptor's own."""
    rule = Rule(None, extractor.calibrate(), rate, SHOWN_REFERENCES)
    return _explore_pictures(title, extractor, extractor.extract_all(images), images, rule)


def open_index_explorer(folder: Path, extractor: Extractor, rule: Rule) -> Explorer:
    """Search the pictures of a kept index; the page offers the same pictures to begin with.

    Raises:
        UserError: there is no index in the folder, or it was made with another extractor.
    """
    with open_store(folder, extractor.identity, extractor.dimensions, new=False) as store:
        blocks = list(stored_vectors(store))
        paths = [files_of_content(store, number)[0] for numbers, _ in blocks for number in numbers.tolist()]
    vectors = np.concatenate([vectors for _, vectors in blocks]) if blocks else np.zeros((0, extractor.dimensions), np.float32)
    names = [text_of(path) for path in paths]
    references = Vectors(names, vectors, np.zeros(len(names), bool))
    return _explore_pictures(str(folder), extractor, references, ImageSet(names, paths), replace(rule, most=SHOWN_REFERENCES))


def _explore_pictures(title: str, extractor: Extractor, references: Vectors, images: ImageSet, rule: Rule) -> Explorer:
    """Explore pictures without a run, which offers the references as queries."""
    index = reference_index(references)
    return Explorer(
        title=title,
        extractor=extractor,
        references=references,
        index=index,
        rule=rule.against(index.sample),
        uncalibrated="" if rule.tail else "the descriptor contains no calibration",
        pictures={"reference": images, "training": ImageSet([], []), "query": images},
        others=FileOverlays(images) if len(images) else None,
    )


def reference_index(references: Vectors) -> SearchIndex:
    """Build an exact index of the readable references, with their rows as ids."""
    rows = np.flatnonzero(~references.unreadable)
    return SearchIndex([load_segment(references.vectors[rows], rows)], [None], references.vectors.shape[1])


def answer(explorer: Explorer, picture: NDArray[np.uint8], edit: str | None, intensity: float, draw: int) -> dict[str, Any]:
    """Compute what the page shows for a picture, uint8 [h, w, 3], after an edit at the slider's position `intensity`, 0…1.

    The values are JSON-serialisable.

    Raises:
        UserError: when the edit is unknown or cannot be applied.
    """
    started = time.perf_counter()
    made = None if edit is None else apply_edit(picture, edit, intensity, draw, explorer.others)
    pixels = picture if made is None else made.image
    query = explorer.extractor.extract_picture(pixels)
    searched = explorer.extractor.normalize(query)
    near = _find_near(explorer, pixels, searched)
    rows, distances = [one.row for one in near], np.array([one.distance for one in near])
    tail = explorer.rule.tail
    alarms = tail.false_alarms(distances, explorer.index.ntotal).tolist() if tail else [None] * len(rows)
    before = _scores(query[0], explorer.references.vectors[rows])
    threshold = explorer.threshold()
    copies = _find_copies(explorer, pixels, near)
    return {
        "picture": data_url(pixels, TUNED_SIDE),
        "record": made.record if made else [],
        "threshold": threshold,
        "nearest": [
            {
                "id": explorer.references.ids[one.row],
                "score": -one.distance,
                "unnormalized": unnormalized,
                "false_alarms": expected,
                "copy": one.row in copies and copies[one.row].is_copy,
                "view": one.view,
            }
            | (judgement_values(copies[one.row]) if one.row in copies else {})
            for one, unnormalized, expected in zip(near, before, alarms, strict=True)
        ],
        "normalization": _normalization(explorer, query, searched),
        "seconds": time.perf_counter() - started,
    }


def _find_near(explorer: Explorer, pixels: NDArray[np.uint8], searched: NDArray[np.float32]) -> list[_Near]:
    """Return the nearest references; those of the picture's views, too, if none of its own is a copy by its score."""
    near = _list_near(find_nearest(explorer.index, searched, SHOWN_REFERENCES), -1, lambda distance: distance)
    threshold, tail = explorer.threshold(), explorer.rule.tail
    if tail is None or threshold is None or any(-one.distance >= threshold for one in near):
        return near
    normalized = explorer.extractor.normalize(embed_views_of(explorer.extractor, pixels))
    for number, view in enumerate(normalized):
        near += _list_near(
            find_nearest(explorer.index, view[None], SHOWN_REFERENCES), number, lambda distance: tail.as_whole(distance, VIEWS)
        )
    best: dict[int, _Near] = {}
    for one in sorted(near, key=lambda one: (one.distance, one.row)):
        best.setdefault(one.row, one)
    return list(best.values())[:SHOWN_REFERENCES]


def _list_near(found: Nearest, number: int, counted: Callable[[float], float]) -> list[_Near]:
    """Return what was found for one query; `counted` says as what a distance counts."""
    rows = found.contents[0].tolist() if found.contents.size else []
    return [_Near(row, counted(distance), number) for row, distance in zip(rows, found.distances.ravel().tolist(), strict=True)]


def _find_copies(explorer: Explorer, pixels: NDArray[np.uint8], near: Sequence[_Near]) -> dict[int, Judgement]:
    """Return what the references are, by their row, that are copies by their scores or by features; none without a threshold."""
    known = explorer.pictures["reference"]
    if explorer.rule.tail is None:
        return {}
    paths, picture = dict(zip(known.ids, known.paths, strict=True)), Path("<picture>")
    rows = {paths[explorer.references.ids[one.row]]: one.row for one in near}
    crops = [CROPS[one.number] if one.view == "crop" else None for one in near]
    found = [Match(picture, path, -one.distance, None, crop=crop) for path, one, crop in zip(rows, near, crops, strict=True)]
    copies = judge_found(explorer.judge, pixels, see_query(pixels), found, explorer.rule, explorer.index.ntotal)
    return {rows[copy.reference]: copy.judgement for copy in copies if copy.judgement is not None}


def _normalization(explorer: Explorer, query: NDArray[np.float32], searched: NDArray[np.float32]) -> dict[str, Any] | None:
    """Describe the effect of query normalisation; None without it.

    "similarity" is C, the mean cosine to the nearest training images, "moved" ‖q' − q‖, and "length" ‖q'‖.
    """
    normalizer = explorer.extractor.normalizer
    if normalizer is None or normalizer.variant.method == "none":
        return None
    near = normalizer.neighbours(query)
    cosines, rows = (part[0, :SHOWN_TRAINING_IMAGES].tolist() for part in (near.cosines, near.rows))
    considered = near.cosines[0, : normalizer.settings.similarity_neighbours]
    first = find_nearest(explorer.index, query, 1)
    return {
        "method": normalizer.variant.method,
        "beta": normalizer.variant.beta,
        "similarity": max(0.0, float(considered.mean())),
        "moved": float(np.linalg.norm(searched[0] - query[0])),
        "length": float(np.linalg.norm(searched[0])),
        "first": [
            {"id": explorer.references.ids[row], "score": -distance}
            for row, distance in zip(first.contents.ravel().tolist(), first.distances.ravel().tolist(), strict=True)
        ],
        "training": [
            {"id": image_id, "cosine": cosine, "shown": image_id in explorer.pictures["training"].ids}
            for image_id, cosine in zip(_training_ids(normalizer, rows), cosines, strict=True)
            if len(explorer.pictures["training"])  # a descriptor contains vectors, but no pictures; a run has both
        ],
    }


def _training_ids(normalizer: Normalizer, rows: list[int]) -> list[str]:
    return [normalizer.training.ids[row] for row in np.flatnonzero(~normalizer.training.unreadable)[rows].tolist()]


def _scores(query: NDArray[np.float32], references: NDArray[np.float32]) -> list[float]:
    """Return −‖q − r‖² of a query [d] and references [m, d], computed in float64."""
    difference = query.astype(np.float64) - references.astype(np.float64)
    return [float(score) for score in -np.einsum("md,md->m", difference, difference)]
