"""Pictures that sets or folders share: leakage between train and test sets, duplicate folders."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from image_copies.matching.matches import Match


@dataclass(frozen=True)
class Share:
    """How many pictures two sets, or a set and itself, have, and how many of each have a copy in the other."""

    first: Path
    second: Path
    copies_of_first: int
    copies_of_second: int
    size_of_first: int
    size_of_second: int

    @property
    def share_of_first(self) -> float:
        """Share 0…1 of the first set that has a copy in the second."""
        return self.copies_of_first / max(self.size_of_first, 1)

    @property
    def share_of_second(self) -> float:
        """Share 0…1 of the second set that has a copy in the first."""
        return self.copies_of_second / max(self.size_of_second, 1)


def find_copies_in_sets(
    pairs: Iterable[Match], digests: Mapping[Path, bytes], set_of: Callable[[Path], Path | None]
) -> dict[Path, set[Path]]:
    """Return the sets that contain a copy of each picture; its own set counts only if another file in it is a copy.

    A match between two files represents all byte-identical ones; `set_of` returns None for a picture of no set.
    """
    files: dict[bytes, list[Path]] = defaultdict(list)
    for path, digest in digests.items():
        files[digest].append(path)
    related = {frozenset((digests[match.query], digests[match.reference])) for match in pairs}
    related |= {frozenset((digest,)) for digest, paths in files.items() if len(paths) > 1}
    found: dict[Path, set[Path]] = defaultdict(set)
    for contents in related:
        one, other = min(contents), max(contents)
        for first, second in {(one, other), (other, one)}:
            held = [(path, set_of(path)) for path in files[second]]
            for path in files[first]:
                if set_of(path) is not None:
                    found[path] |= {name for copy, name in held if name is not None and copy != path}
    return found


def shared_pictures(
    pairs: Iterable[Match], digests: Mapping[Path, bytes], set_of: Callable[[Path], Path | None]
) -> list[Share]:
    """Count the pictures that any two sets share, largest share first; sets that share nothing are omitted."""
    sizes: dict[Path, int] = defaultdict(int)
    for path in digests:
        if (name := set_of(path)) is not None:
            sizes[name] += 1
    # (set, other set) → pictures of the first with a copy in the other
    copied: dict[tuple[Path, Path], int] = defaultdict(int)
    for path, names in find_copies_in_sets(pairs, digests, set_of).items():
        own = set_of(path)
        if own is not None:
            for name in names:
                copied[own, name] += 1
    shares = [
        Share(
            first=one,
            second=other,
            copies_of_first=count,
            copies_of_second=copied[other, one],
            size_of_first=sizes[one],
            size_of_second=sizes[other],
        )
        for (one, other), count in list(copied.items())
        if one <= other
    ]
    return sorted(
        shares,
        key=lambda share: (-max(share.share_of_first, share.share_of_second), share.first, share.second),
    )


def clean_lists(
    pairs: Iterable[Match],
    digests: Mapping[Path, bytes],
    sets: Sequence[Path],
    set_of: Callable[[Path], Path | None],
) -> Mapping[Path, list[Path]]:
    """Return for each set, such as train, val, test, the pictures that have no copy in a later set."""
    order = {name: place for place, name in enumerate(sets)}
    copied = find_copies_in_sets(pairs, digests, set_of)
    kept: dict[Path, list[Path]] = {name: [] for name in sets}
    for path in sorted(digests):
        name = set_of(path)
        if name is not None and not any(order[other] > order[name] for other in copied.get(path, ())):
            kept[name].append(path)
    return kept
