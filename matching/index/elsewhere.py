"""One file of vectors searched for one block of queries: the unit of a search that an engine distributes (`data/shards.py`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.data.shards import Place
from image_copies.matching.index.codes import Codes, Probed
from image_copies.matching.index.index_files import require_index
from image_copies.matching.index.segments import Rows, Segment, load_segment, open_segment_file, search_remaining

Candidates = tuple[NDArray[np.float32], NDArray[np.int64]]  # squared distances [n, k], approximate by codes; content numbers


@dataclass(frozen=True)
class SegmentSource:
    """What another process opens a segment from."""

    path: Path | None  # None for a segment that is in memory only
    codes: Path | None  # the file of its codes; None without
    gone: NDArray[np.int64]  # rows of the contents that have been removed [g], ascending
    vectors: NDArray[np.float32] | None = None  # [n, d] of a segment that is in memory only
    numbers: NDArray[np.int64] | None = None  # content numbers [n], likewise


def describe_segment(segment: Segment, codes: Codes | None) -> SegmentSource:
    """Return what another process opens a segment and its codes from."""
    if segment.path is None:
        return SegmentSource(None, None, segment.gone, segment.vectors, segment.numbers)
    return SegmentSource(segment.path.absolute(), None if codes is None else codes.path.absolute(), segment.gone)


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

    def __init__(self, sources: Sequence[SegmentSource]) -> None:
        self._sources = sources
        self._segments: dict[int, Segment] = {}
        self._codes: dict[int, Codes] = {}

    def search(self, lookup: Lookup, place: Place) -> Candidates:
        """Find the candidates of a block of queries in a segment; see `search_remaining`.

        Raises:
            UserError: The file of the segment or of its codes is missing or damaged.
        """
        number = lookup.segment
        source = self._sources[number]
        if number not in self._segments:
            if source.path is not None:
                self._segments[number] = open_segment_file(source.path, source.gone)
            elif source.vectors is not None and source.numbers is not None:
                self._segments[number] = load_segment(source.vectors, source.numbers)
        if lookup.probed is not None and source.codes is not None and number not in self._codes:
            self._codes[number] = Codes(source.codes, require_index(source.codes))
        found = look_into(self._segments[number], self._codes.get(number), lookup)
        place.advance(len(lookup))
        return found


def look_into(segment: Segment, codes: Codes | None, lookup: Lookup) -> Candidates:
    """Find the candidates of a block of queries in a segment: by its codes, if it has any and lists of them are chosen."""

    def look_up(rows: Rows, count: int) -> Candidates:
        if codes is None or lookup.probed is None:
            return segment.search(lookup.queries[rows], count)
        return lookup.probed.search(codes, lookup.queries, rows, count)

    return search_remaining(segment, look_up, lookup.count)
