"""Segments: the vectors of a stored index in memory-mapped files, each for a range of content numbers.

A segment is written once and never changed. Content numbers only increase, so that new contents go to later segments; a search
skips the removed ones. When an index grows or shrinks, at most about the contents of one file are therefore written again.
The name of a file contains the range, the state of the database that it was made from and a digest of its bytes. A damaged or
foreign file is ignored, and its range is written again from the database.
"""

import io
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.matching.index.index_files import is_intact, missing_file_error, write_content
from image_copies.matching.index.store import Store, count_changes, removed_contents, stored_vectors
from image_copies.submissions.search.neighbours import CPU, rank_exactly

MAX_SEGMENT_CONTENTS = 524_288  # contents of a file at most: 512 MiB with 256 dimensions,
# or as many per square root of all contents: 128 for a list of codes, as fewer take Faiss longer to prepare than to compare
SEGMENT_CONTENTS_PER_ROOT = 512
MIN_CHANGED_CONTENTS = 10_000  # a file is written once more contents than this were added, or removed from it,
MAX_REMOVED_SHARE = 0.1  # and more than this share 0…1 of the file was removed
SPARE_NEIGHBOURS = 16  # neighbours searched for beyond those asked for and twice the removed ones expected among them
FILE_NAME = re.compile(r"vectors-(\d+)-(\d+)-(\d+)-([0-9a-f]{16})\.npy")


Rows = NDArray[np.bool_] | slice
# finds so many candidates among a segment's vectors for some rows of the queries: squared distances float32 and rows int64, both
# [n, count]; −1 where there are fewer
LookUp = Callable[[Rows, int], tuple[NDArray[np.float32], NDArray[np.int64]]]


@dataclass(frozen=True)
class Segment:
    """The vectors of a range of content numbers."""

    digest: str  # first 16 hexadecimal digits of the file's SHA-256; empty without a file
    after: int  # all contents have higher numbers
    last: int  # number of the range
    vectors: NDArray[np.float32]  # [n, d], mapped from the file; those of removed contents included
    numbers: NDArray[np.int64]  # [n], ascending
    gone: NDArray[np.int64]  # rows [g] of the contents that have been removed since, ascending
    path: Path | None = None  # None for a segment that is in memory only

    @property
    def ntotal(self) -> int:
        """Number of contents that have not been removed."""
        return len(self.numbers) - len(self.gone)

    @property
    def dimensions(self) -> int:
        """Number d of dimensions of the vectors."""
        return int(self.vectors.shape[1])

    def search(self, queries: NDArray[np.float32], count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the squared distances and rows, both [n, count], of the vectors nearest to each query [n, d]."""
        rows = CPU.nearest(queries, self.vectors, min(count, len(self.vectors)), "distance")
        found = rank_exactly(queries, self.vectors, rows, count)
        return found.values.astype(np.float32), found.rows

    def kept_numbers(self) -> NDArray[np.int64]:
        """Return the numbers of the contents that have not been removed, ascending."""
        return np.delete(self.numbers, self.gone)


def search_remaining(segment: Segment, look_up: LookUp, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Find candidates for all queries in a segment, and skip removed contents.

    More neighbours than needed are searched for and the removed ones dropped, which costs little; a Faiss selector would make
    the search 15 times as slow. Returns squared distances float32 [n, k] as they are looked up and content numbers int64
    [n, k]; infinity and −1 if nothing more was found.
    """
    held = len(segment.numbers)
    full = min(count + len(segment.gone), held)
    depth = min(count + SPARE_NEIGHBOURS + 2 * count * len(segment.gone) // held, full)
    distances, numbers = _drop_removed(segment, *look_up(slice(None), depth), count)
    if depth < full:
        short = (numbers[:, min(count, segment.ntotal) - 1] < 0) if segment.ntotal else np.zeros(len(numbers), bool)
        if short.any():
            distances[short], numbers[short] = _drop_removed(segment, *look_up(short, full), count)
    return distances, numbers


def _drop_removed(
    segment: Segment, distances: NDArray[np.float32], places: NDArray[np.int64], count: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Turn rows into content numbers and drop the removed ones; both arrays are padded or cut to [n, count]."""
    absent = (places < 0) | np.isin(places, segment.gone)
    distances = np.where(absent, np.float32(np.inf), distances)
    numbers = np.where(absent, -1, segment.numbers[places])
    distances, numbers = take_nearest(distances, numbers, count)
    missing = ((0, 0), (0, count - numbers.shape[1]))
    return np.pad(distances, missing, constant_values=np.inf), np.pad(numbers, missing, constant_values=-1)


def take_nearest(
    distances: NDArray[np.float32], numbers: NDArray[np.int64], count: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the `count` nearest of each row, both [n, m], nearest first; of equal ones, those that come first."""
    order = np.argsort(distances, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(distances, order, 1), np.take_along_axis(numbers, order, 1)


def open_segments(store: Store) -> list[Segment]:
    """Return segments that hold all contents of the store's present state, in order; the last may be in memory only.

    Files that are missing or damaged are written again, as are files with too many removed contents. Contents that were added
    since are written once there are more than `MIN_CHANGED_CONTENTS`.

    Raises:
        UserError: A vector in the database is damaged, or the disk is full.
    """
    removed = removed_contents(store)
    named = _list_segment_files(store)
    segments: list[Segment] = []
    place, whole = -1, True
    while True:
        opened = (_open_segment(path, removed, store.dimensions) for path in _find_files_after(named, place))
        found = next(filter(None, opened), None)
        if found is not None:
            segments.append(found)
            place = found.last
            continue
        later = [after for after, _, _ in named if after > place]
        if not later:
            break
        place, lost = min(later), place
        segments += _write_segments(store, lost, place)
        whole = False
    fresh = _load_segment(store, place, MIN_CHANGED_CONTENTS + 1)
    if len(fresh.numbers) > (MIN_CHANGED_CONTENTS if segments else 0):
        segments, whole = _write_tail(store, segments, place, len(fresh.numbers)), False
    elif len(fresh.numbers):
        segments.append(fresh)
    if not whole:
        forget_files(store.folder, "vectors-*", {segment.digest for segment in segments})
    return segments


def _write_tail(store: Store, segments: list[Segment], after: int, count: int) -> list[Segment]:
    """Write the contents after number `after`, `count` or more; small files at the end are merged with them."""
    segments = list(segments)
    most = _find_largest(store)
    while segments and segments[-1].ntotal <= 2 * count and segments[-1].ntotal + count <= most:
        joined = segments.pop()
        count, after = count + joined.ntotal, joined.after
    return segments + _write_segments(store, after, None)


def forget_files(folder: Path, pattern: str, digests: set[str]) -> None:
    """Remove the files that match a pattern, except those whose names end with one of these digests."""
    for path in folder.glob(pattern):
        if path.stem.rpartition("-")[2] not in digests:
            with suppress(OSError):  # Windows keeps what another process has mapped: the next change removes it
                path.unlink(missing_ok=True)


def open_segment_file(path: Path, gone: NDArray[np.int64]) -> Segment:
    """Open the file of a segment of which these rows have been removed, int64 [g] ascending.

    Raises:
        UserError: It is missing or damaged.
    """
    if not is_intact(path):
        raise missing_file_error(path)
    return _make_segment(path, *_map_file(path), gone)


def _make_segment(path: Path, numbers: NDArray[np.int64], vectors: NDArray[np.float32], gone: NDArray[np.int64]) -> Segment:
    _, first, last, digest = path.stem.rsplit("-", 3)
    return Segment(digest=digest, after=int(first) - 1, last=int(last), vectors=vectors, numbers=numbers, gone=gone, path=path)


def _list_segment_files(store: Store) -> list[tuple[int, int, Path]]:
    """Return (number before the range, last number, path) of each file of this state or one before it."""
    now = count_changes(store)
    named = [(path, match) for path in store.folder.glob("vectors-*.npy") if (match := FILE_NAME.fullmatch(path.name))]
    return [(int(match[2]) - 1, int(match[3]), path) for path, match in named if int(match[1]) <= now]


def _find_files_after(named: Sequence[tuple[int, int, Path]], after: int) -> list[Path]:
    """Return the files whose range starts right after number `after`, the longest range first."""
    return [path for begin, _, path in sorted(named, key=lambda file: -file[1]) if begin == after]


def _open_segment(path: Path, removed: NDArray[np.int64], dimensions: int) -> Segment | None:
    """Open a file as a segment; None if it is damaged or too many of its contents have been removed."""
    try:
        numbers, vectors = _map_file(path) if is_intact(path) else (None, None)
    except OSError:
        return None  # another process has removed it
    if numbers is None or vectors is None or vectors.shape[1] != dimensions:
        return None
    gone = np.flatnonzero(np.isin(numbers, removed, assume_unique=True))
    if len(gone) > max(MIN_CHANGED_CONTENTS, MAX_REMOVED_SHARE * len(numbers)) or len(gone) == len(numbers):
        return None
    return _make_segment(path, numbers, vectors, gone)


def _write_segments(store: Store, after: int, until: int | None) -> list[Segment]:
    """Write the contents numbered from `after` + 1 to `until` as segments; None for no end."""
    segments: list[Segment] = []
    most = _find_largest(store)
    while True:
        part = _load_segment(store, after, most, until)
        if not len(part.numbers):
            return segments
        more = len(part.numbers) == most
        last = part.last if more or until is None else until
        name = f"vectors-{count_changes(store)}-{after + 1}-{last}"
        digest = _write_file(part, store.folder, name)
        written = _open_segment(store.folder / f"{name}-{digest}.npy", part.gone, store.dimensions)
        segments.append(written or part)
        after = last
        if not more:
            return segments


def _find_largest(store: Store) -> int:
    """Return how many contents a file may hold at most."""
    (last,) = store.database.execute("SELECT max(content) FROM contents").fetchone()
    return max(MAX_SEGMENT_CONTENTS, round(SEGMENT_CONTENTS_PER_ROOT * math.sqrt(last or 0)))


def _load_segment(store: Store, after: int, most: int, until: int | None = None) -> Segment:
    """Load the first `most` contents numbered from `after` + 1 to `until` into memory; None for no end."""
    parts = list(stored_vectors(store, after, until, most))
    numbers = np.concatenate([np.zeros(0, np.int64), *(own for own, _ in parts)])
    vectors = np.concatenate([np.zeros((0, store.dimensions), np.float32), *(own for _, own in parts)])
    return Segment(
        digest="",
        after=after,
        last=int(numbers[-1]) if len(numbers) else after,
        vectors=vectors,
        numbers=numbers,
        gone=np.zeros(0, np.int64),
    )


def _write_file(segment: Segment, folder: Path, name: str) -> str:
    """Write the content numbers and the vectors as two arrays in NumPy's format, one after the other; return the digest."""
    content = io.BytesIO()
    np.save(content, segment.numbers)
    np.save(content, segment.vectors)
    return write_content(content.getbuffer(), folder, name, ".npy")


def _map_file(path: Path) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the content numbers int64 [n] and the vectors float32 [n, d] of a file; the vectors are mapped into memory."""
    with path.open("rb") as file:
        numbers: NDArray[np.int64] = np.load(file)
        np.lib.format.read_magic(file)
        shape, _, _ = np.lib.format.read_array_header_1_0(file)
        return numbers, np.memmap(file, np.float32, "r", file.tell(), shape)
