"""A search service over a few pictures."""

from pathlib import Path

from image_copies.data.sources.discovery import discover
from image_copies.matching.explorer.service import SearchService
from image_copies.matching.extractor import Extractor
from image_copies.matching.index.filling import add_pictures
from image_copies.matching.index.store import open_store
from image_copies.matching.matches import Rule


def open_service(folder: Path, extractor: Extractor, rule: Rule | None = None) -> SearchService:
    """Add the pictures of `folder`/pictures to `folder`/index, and search that."""
    with open_store(folder / "index", extractor.identity, extractor.dimensions) as store:
        add_pictures(store, extractor, discover([folder / "pictures"]).paths)
    return SearchService(folder / "index", extractor, rule or Rule(None, None, 0.001, 3))
