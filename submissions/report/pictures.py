"""Pages with galleries, whose cards have thumbnails."""

from collections.abc import Mapping
from pathlib import Path

from image_copies.data.files import whole_folder
from image_copies.data.images import ImageSet
from image_copies.submissions.report.gallery import Card, Gallery, Tile
from image_copies.submissions.report.inputs import ComparisonInputs, RunInputs
from image_copies.submissions.report.rendering import render
from image_copies.submissions.report.thumbnails import Thumbnails

PicturedCard = tuple[Card, list[tuple[Tile, str | None]]]
PicturedGallery = tuple[Gallery, list[PicturedCard]]


def write_page(
    folder: Path,
    template: str,
    inputs: RunInputs | ComparisonInputs,
    galleries: list[Gallery],
    values: Mapping[str, object],
    files: Mapping[str, str] | None = None,
) -> Path:
    """Write `index.html` with its thumbnails, and further text files by name, all or nothing; return the path of the page.

    An existing folder is replaced. The template gets the inputs, the pictured galleries and the values.

    Raises:
        UserError: when the disk is full.
    """
    with whole_folder(folder) as temporary:
        shown = _add_thumbnails(galleries, inputs.queries, inputs.references, temporary)
        page = render(template, inputs=inputs, galleries=shown, **values)
        for name, text in {"index.html": page, **(files or {})}.items():
            (temporary / name).write_text(text, encoding="utf-8")
    return folder / "index.html"


def _add_thumbnails(galleries: list[Gallery], queries: ImageSet, references: ImageSet, folder: Path) -> list[PicturedGallery]:
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
