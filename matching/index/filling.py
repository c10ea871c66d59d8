"""Filling an index of references: each content is embedded once, whatever its files are called."""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from tqdm import tqdm

from image_copies.data.errors import StorageError, UserError
from image_copies.data.images import ImageSet
from image_copies.data.process import choose_workers
from image_copies.data.remote import READERS, is_remote
from image_copies.data.shards import Place, ShardWork, hold, run_shards, uses_engine
from image_copies.data.threads import map_in_threads
from image_copies.matching.extractor import Extractor
from image_copies.matching.index.store import (
    Content,
    Store,
    add_files,
    contents_of,
    digests_of_files,
    keep_queries,
    known_digests,
    read_content,
    remove_files,
    stored_files,
    vectors_by_digest,
)
from image_copies.models.inference.embedders import Look, Source, choose_batch
from image_copies.submissions.vectors.files import Vectors

IMAGES_PER_COMMIT = 1024  # that a worker elsewhere embeds together, the most that a kill can lose
READ_TOGETHER = 4  # files that a thread reads before a batch is made of them
MOST_KEPT_BYTES = 32 * 2**20  # files read together that wait to be decoded; what exceeds it is read again
Digests = dict[Path, bytes | None]  # SHA-256 of each file; None where it cannot be opened
# a file, its SHA-256, None where it cannot be opened, and its bytes if kept
Opened = tuple[Path, bytes | None, bytes | None]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Added:
    """What became of pictures that were to be added.

    Attributes:
        images: Number of files.
        embedded: Contents that are new to the index.
        closed: Files that could not be opened.
        broken: Contents, new to the index, that cannot be decoded.
        doubles: Files, new to the index, that hold the bytes of others.
    """

    images: int
    embedded: int
    closed: list[Path]
    broken: int = 0
    doubles: int = 0


def add_pictures(
    store: Store, extractor: Extractor, paths: Sequence[Path], look: Look | None = None
) -> Added:
    """Add pictures as references; only contents that are new to the index are embedded, and shown to `look`.

    Raises:
        UserError: when the index is damaged or cannot be written.
    """
    embedded = broken = doubles = 0
    closed: list[Path] = []
    chosen: set[bytes] = set()  # of earlier parts, which need not be in the index yet

    def choose(digests: Digests) -> _Part:
        known = digests_of_files(store, digests)
        closed.extend(path for path, digest in digests.items() if digest is None)
        new = {
            path: digest
            for path, digest in digests.items()
            if digest is not None and known.get(path) != digest
        }
        lacking = set(new.values()) - contents_of(store, new.values()).keys() - chosen
        before = vectors_by_digest(store, lacking)  # embedded as queries
        chosen.update(lacking)
        first = _first_of_each(new, lacking - before.keys())
        return _Part(len(digests), new, first, [Content(*item) for item in before.items()])

    for part, contents in _embed_chosen(store, extractor, paths, choose, "adding references", look):
        if part.files:
            add_files(store, part.files, [*contents, *part.known])
        bad = sum(content.vector is None for content in contents)
        embedded, broken = embedded + len(part.first) - bad, broken + bad
        doubles += len(part.files) - len(part.first) - len(part.known)
    return Added(len(paths), embedded, closed, broken, doubles)


def forget_missing(store: Store, paths: Iterable[Path]) -> None:
    """Remove every file from the index that is not among `paths`."""
    there = set(paths)
    gone = [path for path in stored_files(store) if path not in there]
    if gone:
        remove_files(store, gone)


def embed_queries(
    store: Store, extractor: Extractor, paths: Sequence[Path], look: Look | None = None
) -> dict[Path, bytes]:
    """Embed the queries whose contents the index knows neither as references nor from an earlier search.

    They are shown to `look`. Returns the SHA-256 of every query that can be opened.

    Raises:
        UserError: when the index is damaged or cannot be written.
    """
    digests: dict[Path, bytes] = {}
    chosen: set[bytes] = set()

    def choose(opened: Digests) -> _Part:
        part = {path: digest for path, digest in opened.items() if digest is not None}
        digests.update(part)
        lacking = set(part.values()) - vectors_by_digest(store, set(part.values())).keys() - chosen
        chosen.update(lacking)
        return _Part(len(opened), part, _first_of_each(part, lacking), [])

    for part, contents in _embed_chosen(store, extractor, paths, choose, "embedding queries", look):
        if part.first:
            keep_queries(store, contents)
    return digests


def embed_pictures(extractor: Extractor, images: ImageSet, name: str) -> Vectors:
    """Return the vectors of pictures that no index needs to know; `name` says what is done, for the line of progress."""
    apart = _works_elsewhere(extractor)
    work: ShardWork[Extractor, Sequence[Path], Vectors] = ShardWork(
        name=name,
        unit="image",
        open=extractor.source if apart and extractor.source is not None else partial(hold, extractor),
        work=_embed_shard,
        size=len,
        inputs=extractor.files,
        opened_as=extractor.identity,
        uses_gpu=True,
    )
    found = list(run_shards(work, _cut(images.paths), len(images), here=not apart))
    nothing = np.zeros((0, extractor.dimensions), np.float32), np.zeros(0, bool)
    vectors, unreadable = zip(nothing, *((own.vectors, own.unreadable) for own in found), strict=True)
    return Vectors(images.ids, np.concatenate(vectors), np.concatenate(unreadable))


@dataclass(frozen=True)
class _Part:
    """The pictures that one transaction records: a batch, or what a worker embeds elsewhere."""

    count: int  # of pictures
    files: dict[Path, bytes]  # digest of each picture to record
    first: dict[bytes, Path]  # path of each content to embed, by its digest
    known: list[Content]  # contents that the index lacks, with vectors from an earlier search


def _first_of_each(files: dict[Path, bytes], digests: Set[bytes]) -> dict[bytes, Path]:
    """Return the first file with each of the digests, in the order of the files."""
    first: dict[bytes, Path] = {}
    for path, digest in files.items():
        if digest in digests:
            first.setdefault(digest, path)
    return first


def _cut(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[start : start + IMAGES_PER_COMMIT] for start in range(0, len(items), IMAGES_PER_COMMIT))


def _embed_chosen(
    store: Store,
    extractor: Extractor,
    paths: Sequence[Path],
    choose: Callable[[Digests], _Part],
    name: str,
    look: Look | None,
) -> Iterator[tuple[_Part, list[Content]]]:
    """Yield pictures that enter the index together, with those of their contents that were embedded."""
    if _works_elsewhere(extractor):
        yield from _embed_chosen_elsewhere(store, extractor, paths, choose, name)
        return
    with tqdm(total=len(paths), desc=name, unit="image", leave=False, delay=1) as bar:
        for part, contents in _embed_batches(extractor, paths, choose, look):
            bar.update(part.count)
            yield part, contents


def _embed_batches(
    extractor: Extractor, paths: Sequence[Path], choose: Callable[[Digests], _Part], look: Look | None = None
) -> Iterator[tuple[_Part, list[Content]]]:
    """Yield what was chosen of each batch of files, which are read once, with its contents."""
    waiting = deque[_Part]()

    def batches() -> Iterator[list[Source]]:
        for opened in _read_batches(extractor, paths):
            waiting.append(choose({path: digest for path, digest, _ in opened}))
            bytes_of = {path: content for path, _, content in opened}
            yield [(path, bytes_of[path]) for path in waiting[-1].first.values()]

    for loaded, vectors in extractor.extract_batches(batches(), partial(extractor.load, look=look)):
        part = waiting.popleft()
        rows = zip(part.first, vectors, loaded.unreadable, strict=True)
        yield part, [Content(digest, None if bad else vector) for digest, vector, bad in rows]


def _read_batches(extractor: Extractor, paths: Sequence[Path]) -> Iterator[list[Opened]]:
    """Yield the files, each read once unless it is large, in batches to embed together."""
    most, batch, kept = choose_batch(extractor.networks, extractor.settings), list[Opened](), 0
    together = [paths[start : start + READ_TOGETHER] for start in range(0, len(paths), READ_TOGETHER)]
    threads = READERS if any(map(is_remote, paths)) else choose_workers(extractor.settings.workers)
    for opened in map_in_threads(_open_files, together, max(1, threads)):
        batch += opened
        kept += sum(len(content) for _, _, content in opened if content is not None)
        if len(batch) >= most or kept >= MOST_KEPT_BYTES:
            yield batch
            batch, kept = [], 0
    if batch:
        yield batch


def _open_files(paths: Sequence[Path]) -> list[Opened]:
    opened, left = list[Opened](), MOST_KEPT_BYTES
    for path in paths:
        digest, content = open_or_none(path, left)
        left -= len(content or b"")
        opened.append((path, digest, content))
    return opened


def _works_elsewhere(extractor: Extractor) -> bool:
    return uses_engine() and extractor.source is not None


def _embed_chosen_elsewhere(
    store: Store, extractor: Extractor, paths: Sequence[Path], choose: Callable[[Digests], _Part], name: str
) -> Iterator[tuple[_Part, list[Content]]]:
    """Yield the same, embedded by workers that know what the index holds; of what several have found, the first counts."""
    assert extractor.source is not None
    known = known_digests(store)
    what = hashlib.sha256(b"".join(sorted(known))).hexdigest()
    work = ShardWork(
        name=name,
        unit="image",
        open=partial(_open_knowing, extractor.source, known),
        work=_embed_unknown,
        size=len,
        inputs=extractor.files,
        opened_as=f"{extractor.identity} {what}",
        uses_gpu=True,
    )
    for digests, contents in run_shards(work, _cut(order_by_size(paths)), len(paths)):
        part = choose(digests)
        yield part, [content for content in contents if content.digest in part.first]


def order_by_size(paths: Sequence[Path]) -> list[Path]:
    """Return files by their sizes, largest first: equal ones come together, so that a worker embeds them once.

    Those on object stores and in archives, whose sizes are not known here, come last.
    """
    sizes: dict[Path, int] = {}
    for path in paths:
        with suppress(OSError):
            sizes[path] = 0 if is_remote(path) else path.stat().st_size
    return sorted(paths, key=lambda path: -sizes.get(path, 0))


def _open_knowing(
    source: Callable[[], Extractor], known: frozenset[bytes]
) -> tuple[Extractor, frozenset[bytes]]:
    return source(), known


def _embed_unknown(
    state: tuple[Extractor, frozenset[bytes]], paths: Sequence[Path], place: Place
) -> tuple[Digests, list[Content]]:
    """Return the files' digests, and those contents that are not known, once each."""
    extractor, known = state
    chosen: set[bytes] = set()

    def choose(opened: Digests) -> _Part:
        files = {path: digest for path, digest in opened.items() if digest is not None}
        lacking = set(files.values()) - known - chosen
        chosen.update(lacking)
        return _Part(len(opened), files, _first_of_each(files, lacking), [])

    digests, contents = dict[Path, bytes | None](dict.fromkeys(paths)), list[Content]()
    for part, own in _embed_batches(with_decoders(extractor, place), paths, choose):
        digests.update(part.files)
        contents += own
        place.advance(part.count)
    place.report_absent([path for path, digest in digests.items() if digest is None and not path.exists()])
    return digests, contents


def _embed_shard(extractor: Extractor, paths: Sequence[Path], place: Place) -> Vectors:
    found = with_decoders(extractor, place).extract_all(
        ImageSet(list(map(str, paths)), list(paths)), place.advance
    )
    place.report_absent(
        [path for path, bad in zip(paths, found.unreadable, strict=True) if bad and not path.exists()]
    )
    return found


def with_decoders(extractor: Extractor, place: Place) -> Extractor:
    """Return an extractor that decodes with as many processes as a place has for it."""
    if place.decoders is None:
        return extractor
    return replace(extractor, settings=extractor.settings.model_copy(update={"workers": place.decoders}))


def open_or_none(path: Path, most: int) -> tuple[bytes, bytes | None] | tuple[None, None]:
    """Return the SHA-256 and, if there are at most so many, the bytes of a file; None where it cannot be opened.

    Raises:
        StorageError: the object store that holds the file cannot be used.
    """
    try:
        return read_content(path, most)
    except StorageError:
        raise
    except UserError:
        return None, None
