"""Filling an index of references: each content is embedded once, whatever its files are called."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tqdm import tqdm

from image_copies.data.errors import StorageError, UserError
from image_copies.data.process import choose_workers
from image_copies.data.remote import READERS, is_remote
from image_copies.data.threads import map_in_threads
from image_copies.models.inference.embedders import (
    Look,
    Source,
    choose_batch,
    list_square_sizes,
    load_batch,
)

from ..extractor import Extractor
from ..threshold import Floats
from . import store as index_store

MOST_KEPT_BYTES = 32 * 2**20  # of files that wait to be decoded together; a larger file is read again
Digests = dict[Path, bytes]  # SHA-256 of each file that can be opened
Opened = tuple[Path, bytes, bytes | None]  # a file, its SHA-256, and its bytes if kept


def add_pictures(
    store: index_store.Store, extractor: Extractor, paths: Sequence[Path], look: Look | None = None
) -> tuple[int, list[Path]]:
    """Add pictures as references; only contents that are new to the index are embedded, and shown to `look`.

    Returns the number of these, and the files that cannot be opened.

    Raises:
        UserError: when the index is damaged or cannot be written.
    """
    embedded, opened = 0, set[Path]()
    for digests, made in _embed_unknown(store, extractor, paths, look, "adding references"):
        opened.update(digests)
        known = index_store.digests_of_files(store, digests)
        new = {path: own for path, own in digests.items() if known.get(path) != own}
        if new:
            index_store.add_files(store, new, made)
        embedded += sum(vector is not None for vector in made.values())
    return embedded, [path for path in paths if path not in opened]


def forget_missing(store: index_store.Store, paths: Iterable[Path]) -> None:
    """Remove every file from the index that is not among `paths`."""
    there = set(paths)
    gone = [path for path in index_store.stored_files(store) if path not in there]
    if gone:
        index_store.remove_files(store, gone)


def embed_queries(
    store: index_store.Store, extractor: Extractor, paths: Sequence[Path], look: Look | None = None
) -> Digests:
    """Embed the queries whose contents the index knows neither as references nor from an earlier search.

    They are shown to `look`. Returns the SHA-256 of every query that can be opened.

    Raises:
        UserError: when the index is damaged or cannot be written.
    """
    found: Digests = {}
    for digests, made in _embed_unknown(store, extractor, paths, look, "embedding queries"):
        found |= digests
        if made:
            index_store.keep_queries(store, made)
    return found


def _embed_unknown(
    store: index_store.Store, extractor: Extractor, paths: Sequence[Path], look: Look | None, name: str
) -> Iterator[tuple[Digests, dict[bytes, Floats | None]]]:
    """Yield the digests of each batch of files, which are read once, and the vectors of those contents that nothing knows yet.

    The vector of what cannot be decoded is None.
    """
    waiting = deque[tuple[Digests, list[bytes]]]()
    chosen = set[bytes]()  # of earlier batches, which need not be in the index yet

    def batches() -> Iterator[list[Source]]:
        for opened in _read_batches(extractor, paths):
            digests = {path: digest for path, digest, _ in opened}
            known = index_store.vectors_by_digest(store, set(digests.values()))
            first: dict[bytes, Source] = {}
            for path, digest, content in opened:
                if digest not in chosen and digest not in known:
                    first.setdefault(digest, (path, content))
            chosen.update(first)
            waiting.append((digests, list(first)))
            yield list(first.values())

    with tqdm(total=len(paths), desc=name, unit="image", leave=False, delay=1) as bar:
        load = partial(load_batch, sizes=list_square_sizes(extractor.networks), look=look)
        for loaded, vectors in extractor.extract_batches(batches(), load):
            digests, asked = waiting.popleft()
            rows = zip(asked, vectors, loaded.unreadable, strict=True)
            bar.update(len(digests))
            yield digests, {digest: None if bad else vector for digest, vector, bad in rows}


def _read_batches(extractor: Extractor, paths: Sequence[Path]) -> Iterator[list[Opened]]:
    """Yield the files that can be opened, each read once unless it is large, in batches to embed together."""
    most = choose_batch(extractor.networks, extractor.settings)
    batch = list[Opened]()
    kept = 0
    threads = READERS if any(map(is_remote, paths)) else choose_workers(extractor.settings.workers)

    def read(path: Path) -> tuple[bytes, bytes | None] | tuple[None, None]:
        return open_or_none(path, MOST_KEPT_BYTES)

    for path, (digest, content) in zip(paths, map_in_threads(read, paths, max(1, threads)), strict=True):
        if digest is not None:
            batch.append((path, digest, content))
            kept += len(content or b"")
        if len(batch) >= most or kept >= MOST_KEPT_BYTES:
            yield batch
            batch, kept = [], 0
    if batch:
        yield batch


def open_or_none(path: Path, most: int) -> tuple[bytes, bytes | None] | tuple[None, None]:
    """Return the SHA-256 and, if there are at most so many, the bytes of a file; None where it cannot be opened.

    Raises:
        StorageError: the object store that holds the file cannot be used.
    """
    try:
        return index_store.read_content(path, most)
    except StorageError:
        raise
    except UserError:
        return None, None
