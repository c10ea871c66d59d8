"""Thumbnails for the cards of galleries."""

from pathlib import Path

from image_copies.data.images import ImageSet
from image_copies.submissions.report.gallery import Card, Gallery, Tile
from image_copies.submissions.report.thumbnails import Thumbnails

PicturedCard = tuple[Card, list[tuple[Tile, str | None]]]
PicturedGallery = tuple[Gallery, list[PicturedCard]]


def add_thumbnails(galleries: list[Gallery], queries: ImageSet, references: ImageSet, folder: Path) -> list[PicturedGallery]:
    """Write the cards' thumbnails below `folder`; return the galleries with each picture's path relative to it.

    The path is None where the image is missing or cannot be decoded.
    """
    thumbnails = {
        "query": Thumbnails(folder / "images", queries, "q"),
        "reference": Thumbnails(folder / "images", references, "r"),
    }

    def with_paths(card: Card) -> PicturedCard:
        return card, [(shown, thumbnails[shown.kind](shown.image_id)) for shown in card.pictures]

    return [(gallery, [with_paths(card) for card in gallery.cards]) for gallery in galleries]
