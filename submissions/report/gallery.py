"""The report's galleries of pairs: found copies, missed copies, false alarms; suggestions where no copies are known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from image_copies.data import decode, files, ground_truth
from image_copies.data.errors import ImageError
from image_copies.data.images import ImageSet

from ..scoring.breakdown import find_pairs_at_90, last_rank_at_90
from ..scoring.metrics import RankedPairs
from .inputs import RunInputs, format_number, render

MAX_FOUND, MAX_MISSED, MAX_FALSE_ALARMS, MAX_SUGGESTED = 24, 48, 48, 96  # cards in each gallery


@dataclass(frozen=True)
class Tile:
    """A picture of a card."""

    kind: Literal["query", "reference"]
    image_id: str
    label: str  # its role in the card, such as "true reference"
    note: str = ""  # a line below its id


@dataclass(frozen=True)
class Card:
    """Pictures side by side."""

    pictures: tuple[Tile, ...]  # from left to right
    text: str  # caption
    edits: str = ""  # names of the edits that made the query, separated by spaces


@dataclass(frozen=True)
class Gallery:
    """Cards under a title."""

    title: str
    text: str  # which pairs it shows, and in which order
    cards: list[Card]


def make_galleries(
    ranked: RankedPairs, truth: ground_truth.GroundTruth, edits: Mapping[str, str]
) -> list[Gallery]:
    """Return the report's three galleries; the names of the edits that made a query are separated by spaces."""
    return [
        Gallery(
            "Found copies",
            "An even selection of the true pairs found at 90 % precision, highest score first.",
            draw_found_copies(ranked, edits),
        ),
        Gallery(
            "Hardest misses",
            "True pairs not found at 90 % precision, lowest rank first, with the query's nearest wrong reference.",
            draw_missed_copies(ranked, truth, edits),
        ),
        Gallery(
            "Most confident false alarms",
            "Wrong pairs, highest score first.",
            draw_false_alarms(ranked, truth, edits),
        ),
    ]


def suggest_copies(pairs: Sequence[tuple[str, str, float]], edits: Mapping[str, str]) -> Gallery:
    """Return the gallery of the first MAX_SUGGESTED pairs, of which nobody knows whether they are copies.

    A pair is query id, reference id and score, best first; names of the edits that made a query are separated by spaces.
    """
    cards = [
        _draw_two(query_id, reference_id, "reference", score, rank, edits)
        for rank, (query_id, reference_id, score) in enumerate(pairs[:MAX_SUGGESTED], 1)
    ]
    text = "The pairs of a query and a reference with the highest scores, highest first. Not checked: compare the pictures."
    return Gallery("Suggested copies", text, cards)


def draw_found_copies(ranked: RankedPairs, edits: Mapping[str, str]) -> list[Card]:
    """Return cards of true pairs found at 90 % precision, evenly spread over them to show both easy and hard ones."""
    rows = np.flatnonzero(ranked.true[: last_rank_at_90(ranked)]).tolist()
    step = max(1, len(rows) // MAX_FOUND)
    return [_draw_pair(ranked, edits, row, "true reference") for row in rows[::step][:MAX_FOUND]]


def draw_false_alarms(
    ranked: RankedPairs, truth: ground_truth.GroundTruth, edits: Mapping[str, str]
) -> list[Card]:
    """Return cards of the highest-ranked wrong pairs, with the query's true reference where it has one."""
    own = dict(sorted(truth.pairs, reverse=True))
    cards = []
    for row in np.flatnonzero(~ranked.true)[:MAX_FALSE_ALARMS].tolist():
        card = _draw_pair(ranked, edits, row, "wrong reference")
        query_id = ranked.query_ids[row]
        if query_id not in own:
            cards.append(Card(card.pictures, f"{card.text}; the query copies nothing", card.edits))
            continue
        right = Tile("reference", own[query_id], "true reference")
        cards.append(Card((*card.pictures, right), f"{card.text}; another reference is right", card.edits))
    return cards


def draw_missed_copies(
    ranked: RankedPairs, truth: ground_truth.GroundTruth, edits: Mapping[str, str]
) -> list[Card]:
    """Return cards of true pairs that are not found at 90 % precision, worst first: unranked ones, then by descending rank.

    Beside them is the query's nearest wrong reference, where one is ranked.
    """
    ranks = {pair: row for row, pair in enumerate(zip(ranked.query_ids, ranked.reference_ids, strict=True))}
    wrong = {ranked.query_ids[row]: row for row in np.flatnonzero(~ranked.true)[::-1].tolist()}
    missed = sorted(truth.pairs - find_pairs_at_90(ranked))
    missed.sort(key=lambda pair: ranks.get(pair, len(ranks)), reverse=True)
    cards = []
    for query_id, reference_id in missed[:MAX_MISSED]:
        row = ranks.get((query_id, reference_id))
        text = "not among the ranked pairs" if row is None else f"rank {row + 1}"
        score = None if row is None else -float(ranked.distances[row])
        pictures = [Tile("query", query_id, "query"), _show_reference(reference_id, "true", score)]
        if query_id in wrong:
            other = wrong[query_id]
            label = "ranked above it" if row is None or other < row else "nearest wrong"
            score = -float(ranked.distances[other])
            pictures.append(_show_reference(ranked.reference_ids[other], label, score))
        cards.append(Card(tuple(pictures), text, edits.get(query_id, "")))
    return cards


def _draw_pair(ranked: RankedPairs, edits: Mapping[str, str], row: int, label: str) -> Card:
    """Return the card of the pair at this place of the ranking, with what its reference is."""
    score = -float(ranked.distances[row])
    return _draw_two(ranked.query_ids[row], ranked.reference_ids[row], label, score, row + 1, edits)


def _draw_two(
    query_id: str,
    reference_id: str,
    label: str,
    score: float,
    rank: int,
    edits: Mapping[str, str],
) -> Card:
    pictures = (Tile("query", query_id, "query"), _show_reference(reference_id, label, score))
    return Card(pictures, f"rank {rank}", edits.get(query_id, ""))


def _show_reference(reference_id: str, label: str, score: float | None) -> Tile:
    """Return the picture of a reference; None for a score that is not known."""
    return Tile("reference", reference_id, label, "" if score is None else f"score {format_number(score)}")


THUMBNAIL_SIDE = 200  # pixels of the longer side


def draw_thumbnails(folder: Path, images: ImageSet, prefix: str) -> Callable[[str], str | None]:
    """Return what writes a thumbnail of each image once, and returns its path relative to the page by the image's id.

    Its name is the prefix and a number, so that ids may contain any character. None where the image is missing or cannot be
    decoded.
    """
    paths = dict(zip(images.ids, images.paths, strict=True))
    numbers = count()

    @cache
    def draw(image_id: str) -> str | None:
        target = folder / f"{prefix}{next(numbers):05d}.jpg"
        path = paths.get(image_id)
        return f"{folder.name}/{target.name}" if path and write_thumbnail(path, target) else None

    return draw


def write_thumbnail(source: Path | bytes, target: Path) -> bool:
    """Write a small copy of an image, given by its path or its bytes; returns whether it can be decoded."""
    try:
        picture = Image.fromarray(decode.decode_rgb(source, short_side=THUMBNAIL_SIDE))
    except ImageError:
        return False
    picture.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    target.parent.mkdir(parents=True, exist_ok=True)
    picture.save(target, quality=80)
    return True


def write_page(
    folder: Path, template: str, inputs: RunInputs, galleries: list[Gallery], values: Mapping[str, object]
) -> Path:
    """Write `index.html` with its thumbnails, all or nothing; return the path of the page.

    An existing folder is replaced. The template gets the inputs, the galleries, what writes thumbnails, and the values.

    Raises:
        UserError: when the disk is full.
    """
    with files.whole_folder(folder) as temporary:
        thumbnails = {
            "query": draw_thumbnails(temporary / "images", inputs.queries, "q"),
            "reference": draw_thumbnails(temporary / "images", inputs.references, "r"),
        }
        page = render(template, inputs=inputs, galleries=galleries, thumbnails=thumbnails, **values)
        (temporary / "index.html").write_text(page, encoding="utf-8")
    return folder / "index.html"
