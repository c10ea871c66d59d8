"""How far sets or folders of pictures hold the same: train and test sets that leak, folders that repeat each other."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from submissions.index.matches import Match


@dataclass(frozen=True)
class Share:
    """Two sets and the pictures of each that have a copy in the other; of one set with itself: within it.

    Attributes:
        first: name or folder of one set.
        second: name or folder of the other, or the same.
        copies_of_first: pictures of the first with a copy in the second.
        copies_of_second: pictures of the second with a copy in the first.
        size_of_first: pictures of the first.
        size_of_second: pictures of the second.
    """

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


def shared_pictures(pairs: Iterable[Match], files: Iterable[Path], set_of: Callable[[Path], Path | None]) -> list[Share]:
    """Count the pictures that any two sets share, the largest share first; sets that share nothing are left out.

    Args:
        pairs: matches; the same bytes under two names must be among them.
        files: all pictures.
        set_of: the set that a picture belongs to; None for none.
    """
    sizes: dict[Path, int] = defaultdict(int)
    for path in files:
        if (name := set_of(path)) is not None:
            sizes[name] += 1
    copied: dict[tuple[Path, Path], set[Path]] = defaultdict(set)  # (set, other set) → pictures of the first
    for match in pairs:
        one, other = set_of(match.query), set_of(match.reference)
        if one is not None and other is not None:
            copied[one, other].add(match.query)
            copied[other, one].add(match.reference)
    shares = [
        Share(one, other, len(found), len(copied[other, one]), sizes[one], sizes[other])
        for (one, other), found in list(copied.items())
        if one <= other
    ]
    return sorted(shares, key=lambda share: (-max(share.share_of_first, share.share_of_second), share.first, share.second))


def clean_lists(
    pairs: Iterable[Match], files: Iterable[Path], sets: Sequence[Path], set_of: Callable[[Path], Path | None]
) -> Mapping[Path, list[Path]]:
    """Return for each set the pictures that have no copy in a later set.

    A picture of the training set that also lies in the test set leaves the training set: name the sets from the one that may
    lose pictures to the one that may not.
    """
    order = {name: place for place, name in enumerate(sets)}
    leaking = set()
    for match in pairs:
        one, other = set_of(match.query), set_of(match.reference)
        if one is not None and other is not None and one != other:
            leaking.add(match.query if order[one] < order[other] else match.reference)
    kept: dict[Path, list[Path]] = {name: [] for name in sets}
    for path in files:
        if (name := set_of(path)) is not None and path not in leaking:
            kept[name].append(path)
    return kept
