"""Filling an index of references: each content is embedded once, whatever its files are called."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import tee
from pathlib import Path

import numpy as np

from image_copies.data.errors import StorageError, UserError
from image_copies.data.images import ImageSet
from image_copies.data.remote import map_files
from image_copies.data.shards import Place, ShardWork, hold, run_shards, uses_engine
from image_copies.matching.extractor import Extractor
from image_copies.matching.index.store import (
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
from image_copies.submissions.vectors.files import Vectors

IMAGES_PER_COMMIT = 1024  # the most that a kill can lose


@dataclass(frozen=True)
class Added:
    """How many pictures were to be added, how many contents were new to the index, and which files could not be opened."""

    images: int
    embedded: int
    closed: list[Path]


def add_pictures(store: Store, extractor: Extractor, paths: Sequence[Path]) -> Added:
    """Add pictures as references; only contents that are new to the index are embedded.

    Raises:
        UserError: when the index is damaged or cannot be written.
    """
    embedded = 0
    closed: list[Path] = []
    found = _digest_parts(paths)

    def choose() -> Iterator[_Part]:
        chosen: set[bytes] = set()  # of earlier parts, which need not be in the index yet
        for digests in found:
            known = digests_of_files(store, digests)
            closed.extend(path for path, digest in digests.items() if digest is None)
            new = {path: digest for path, digest in digests.items() if digest is not None and known.get(path) != digest}
            lacking = set(new.values()) - contents_of(store, new.values()).keys() - chosen
            before = vectors_by_digest(store, lacking)  # embedded as queries
            first = {digest: path for path, digest in reversed(new.items()) if digest in lacking and digest not in before}
            chosen |= lacking
            yield _Part(len(digests), new, first, [Content(*item) for item in before.items()])

    for part, contents in _embed_parts(extractor, choose(), len(paths), "adding references"):
        if part.files:
            add_files(store, part.files, [*contents, *part.known])
        embedded += len(part.first)
    return Added(len(paths), embedded, closed)


def forget_missing(store: Store, paths: Iterable[Path]) -> None:
    """Remove every file from the index that is not among `paths`."""
    there = set(paths)
    gone = [path for path in stored_files(store) if path not in there]
    if gone:
        remove_files(store, gone)


def embed_queries(store: Store, extractor: Extractor, paths: Sequence[Path]) -> dict[Path, bytes]:
    """Embed the queries whose contents the index knows neither as references nor from an earlier search.

    Returns the SHA-256 of every query that can be opened.

    Raises:
        UserError: when the index is damaged or cannot be written.
    """
    digests: dict[Path, bytes] = {}
    found = _digest_parts(paths)

    def choose() -> Iterator[_Part]:
        chosen: set[bytes] = set()
        for opened in found:
            part = {path: digest for path, digest in opened.items() if digest is not None}
            digests.update(part)
            lacking = set(part.values()) - vectors_by_digest(store, set(part.values())).keys() - chosen
            chosen.update(lacking)
            yield _Part(len(opened), part, {digest: path for path, digest in reversed(part.items()) if digest in lacking}, [])

    for part, contents in _embed_parts(extractor, choose(), len(paths), "embedding queries"):
        if part.first:
            keep_queries(store, contents)
    return digests


def embed_pictures(extractor: Extractor, images: ImageSet, name: str) -> Vectors:
    """Return the vectors of pictures that no index needs to know; `name` says what is done, for the line of progress."""
    vectors, unreadable = np.zeros((len(images), extractor.dimensions), np.float32), np.zeros(len(images), bool)
    named = {b"%d" % row: path for row, path in enumerate(images.paths)}
    keys = list(named)
    parts = [
        _Part(len(own), {}, {key: named[key] for key in own}, [])
        for first in range(0, len(keys), IMAGES_PER_COMMIT)
        if (own := keys[first : first + IMAGES_PER_COMMIT])
    ]
    for _, contents in _embed_parts(extractor, parts, len(images), name):
        for content in contents:
            if content.vector is None:
                unreadable[int(content.digest)] = True
            else:
                vectors[int(content.digest)] = content.vector
    return Vectors(images.ids, vectors, unreadable)


@dataclass(frozen=True)
class _Part:
    """At most IMAGES_PER_COMMIT pictures, which enter the index together."""

    count: int  # of pictures
    files: dict[Path, bytes]  # digest of each picture to record
    first: dict[bytes, Path]  # path of each content to embed, by its digest
    known: list[Content]  # contents that the index lacks, with vectors from an earlier search


def _digest_parts(paths: Sequence[Path]) -> Iterable[dict[Path, bytes | None]]:
    """Return the digests of IMAGES_PER_COMMIT files at a time; on an engine all of them, before it embeds any."""
    work = ShardWork("reading files", "image", partial(hold, None), _digest_shard, len)
    parts = [paths[start : start + IMAGES_PER_COMMIT] for start in range(0, len(paths), IMAGES_PER_COMMIT)]
    digests = run_shards(work, parts, len(paths))
    return list(digests) if uses_engine() else digests


def _digest_shard(_: None, paths: Sequence[Path], place: Place) -> dict[Path, bytes | None]:
    digests = _digest_all(paths)
    place.report_absent([path for path, digest in digests.items() if digest is None and not path.exists()])
    place.advance(len(paths))
    return digests


def _embed_parts(extractor: Extractor, parts: Iterable[_Part], total: int, name: str) -> Iterator[tuple[_Part, list[Content]]]:
    """Yield each part with its embedded contents; the next one is chosen then, or on an engine all before the first."""
    elsewhere = uses_engine() and extractor.source is not None
    work = ShardWork(
        name=name,
        unit="image",
        open=extractor.source if elsewhere and extractor.source is not None else partial(hold, extractor),
        work=_embed_shard,
        size=_count_pictures,
        inputs=extractor.files if elsewhere else (),
        opened_as=extractor.identity,
        uses_gpu=True,
    )
    chosen, again = tee(list(parts) if elsewhere else parts)
    yield from zip(chosen, run_shards(work, again, total, here=not elsewhere), strict=True)


def _count_pictures(part: _Part) -> int:
    return part.count


def _embed_shard(extractor: Extractor, part: _Part, place: Place) -> list[Content]:
    if place.decoders is not None:
        extractor = replace(extractor, settings=extractor.settings.model_copy(update={"workers": place.decoders}))
    contents = list(_contents(extractor, part.first))
    place.report_absent([part.first[c.digest] for c in contents if c.vector is None and not part.first[c.digest].exists()])
    place.advance(part.count)
    return contents


def _digest_all(paths: Sequence[Path]) -> dict[Path, bytes | None]:
    return dict(zip(paths, map_files(digest_or_none, paths), strict=True))


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
