"""One file of vectors searched for one block of queries: the unit of a search that an engine distributes (`data/shards.py`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.data.shards import Place, hold
from image_copies.matching.index.codes import Codes, Probed
from image_copies.matching.index.index_files import require_index
from image_copies.matching.index.segments import Rows, Segment, open_segment_file, search_remaining

Candidates = tuple[NDArray[np.float32], NDArray[np.int64]]  # squared distances [n, k], approximate by codes; content numbers


Opened = tuple[Segment, Codes | None]


def describe_segment(segment: Segment, codes: Codes | None) -> Callable[[], Opened]:
    """Return what opens a segment and its codes in another process; one that is in memory only is sent itself."""
    if segment.path is None:
        return partial(hold, (segment, None))
    return partial(_open, segment.path.absolute(), segment.gone, None if codes is None else codes.path.absolute())


def _open(path: Path, gone: NDArray[np.int64], codes: Path | None) -> Opened:
    return open_segment_file(path, gone), None if codes is None else Codes(codes, require_index(codes))


@dataclass(frozen=True)
class Lookup:
    """A block of queries to search in one segment."""

    segment: int  # its number
    queries: NDArray[np.float32]  # [n, d]
    count: int  # candidates k for each
    probed: Probed | None = None  # the lists of the segment's codes to search; None to compare all vectors

    def __len__(self) -> int:
        return len(self.queries)


class OpenedSegments:
    """The segments of an index, each opened when it is first searched."""

    def __init__(self, sources: Sequence[Callable[[], Opened]]) -> None:
        self._open = cache(lambda number: sources[number]())

    def search(self, lookup: Lookup, place: Place) -> Candidates:
        """Find the candidates of a block of queries in a segment; see `search_remaining`.

        Raises:
            UserError: The file of the segment or of its codes is missing or damaged.
        """
        found = look_into(*self._open(lookup.segment), lookup)
        place.advance(len(lookup))
        return found


def look_into(segment: Segment, codes: Codes | None, lookup: Lookup) -> Candidates:
    """Find the candidates of a block of queries in a segment: by its codes, if it has any and lists of them are chosen."""

    def look_up(rows: Rows, count: int) -> Candidates:
        if codes is None or lookup.probed is None:
            return segment.search(lookup.queries[rows], count)
        return lookup.probed.search(codes, lookup.queries, rows, count)

    return search_remaining(segment, look_up, lookup.count)
