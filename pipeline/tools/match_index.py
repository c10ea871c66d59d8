"""Filling an index of references: each content is embedded once, whatever its files are called."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from data.errors import StorageError, UserError
from data.images import ImageSet
from data.remote import is_remote, map_ahead
from pipeline.tools.extractor import Extractor
from submissions.index.store import (
    Content,
    Store,
    add_files,
    contents_of,
    digest_of,
    digests_of_files,
    keep_queries,
    remove_files,
    stored_files,
    vectors_by_digest,
)

IMAGES_PER_COMMIT = 1024  # the most that a kill can lose


@dataclass(frozen=True)
class Added:
    """The result of adding pictures.

    Attributes:
        images: Number of pictures to add.
        embedded: Number of contents that were new to the index.
        closed: Files that could not be opened.
    """

    images: int
    embedded: int
    closed: list[Path]


def add_pictures(store: Store, extractor: Extractor, paths: Sequence[Path]) -> Added:
    """Add pictures as references; only contents that are new to the index are embedded.

    Args:
        store: The open index.
        extractor: The network that the index was made with.
        paths: The pictures.

    Raises:
        UserError: when the index is damaged or cannot be written.
    """
    embedded = 0
    closed: list[Path] = []
    with tqdm(total=len(paths), desc="adding references", unit="image", leave=False) as bar:
        for start in range(0, len(paths), IMAGES_PER_COMMIT):
            part = paths[start : start + IMAGES_PER_COMMIT]
            digests = _digest_all(part)
            known = digests_of_files(store, part)
            closed += [path for path, digest in digests.items() if digest is None]
            new = {path: digest for path, digest in digests.items() if digest is not None and known.get(path) != digest}
            lacking = set(new.values()) - contents_of(store, new.values()).keys()
            before = vectors_by_digest(store, lacking)  # embedded as queries
            first = {digest: path for path, digest in reversed(new.items()) if digest in lacking and digest not in before}
            if new:
                add_files(store, new, [*_contents(extractor, first), *(Content(*item) for item in before.items())])
            embedded += len(first)
            bar.update(len(part))
    return Added(len(paths), embedded, closed)


def forget_missing(store: Store, paths: Iterable[Path]) -> None:
    """Remove every file from the index that is not among `paths`."""
    there = set(paths)
    gone = [path for path in stored_files(store) if path not in there]
    if gone:
        remove_files(store, gone)


def embed_queries(store: Store, extractor: Extractor, paths: Sequence[Path]) -> dict[Path, bytes]:
    """Embed the queries whose contents the index knows neither as references nor from an earlier search.

    Args:
        store: The open index.
        extractor: The network that the index was made with.
        paths: The queries.

    Returns:
        The SHA-256 of every query that can be opened, by path.

    Raises:
        UserError: when the index is damaged or cannot be written.
    """
    digests: dict[Path, bytes] = {}
    with tqdm(total=len(paths), desc="embedding queries", unit="image", leave=False) as bar:
        for start in range(0, len(paths), IMAGES_PER_COMMIT):
            opened = _digest_all(paths[start : start + IMAGES_PER_COMMIT])
            part = {path: digest for path, digest in opened.items() if digest is not None}
            digests |= part
            lacking = set(part.values()) - vectors_by_digest(store, set(part.values())).keys()
            first = {digest: path for path, digest in reversed(part.items()) if digest in lacking}
            if first:
                keep_queries(store, list(_contents(extractor, first)))
            bar.update(min(IMAGES_PER_COMMIT, len(paths) - start))
    return digests


def _digest_all(paths: Sequence[Path]) -> dict[Path, bytes | None]:
    return dict(zip(paths, map_ahead(digest_or_none, paths, any(map(is_remote, paths))), strict=True))


def digest_or_none(path: Path) -> bytes | None:
    """Return the SHA-256 of a file's bytes; None where it cannot be opened.

    Raises:
        StorageError: the object store that holds the file cannot be used.
    """
    try:
        return digest_of(path)
    except StorageError:
        raise
    except UserError:
        return None


def _contents(extractor: Extractor, files: dict[bytes, Path]) -> Iterator[Content]:
    if not files:
        return
    digests, paths = list(files), list(files.values())
    for block in extractor.extract(ImageSet([str(path) for path in paths], paths)):
        for row, (vector, bad) in enumerate(zip(block.vectors, block.unreadable, strict=True)):
            yield Content(digests[block.first + row], None if bad else vector)
