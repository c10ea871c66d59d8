"""match.py leakage: the pictures that sets share; and folders that share pictures, as a short table."""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

from image_copies.data.errors import text_of
from image_copies.data.files import whole_file
from image_copies.data.ground_truth import write_table

from ..matches import Match
from ..output import Output
from .folder import FOLDERS, LEAKAGE

MAX_PRINTED_FOLDERS = 10
MIN_SHARED_PICTURES = 2  # pictures that two folders must share to be listed
SetOf = Callable[[Path], Path | None]  # the set of a picture; None where it is in none


@dataclass(frozen=True)
class Share:
    """Pictures of two sets, or of a set and itself, that have a copy in the other; all of the set; and the share 0…1 of these."""

    first: Path
    second: Path
    copies_of_first: int
    size_of_first: int
    share_of_first: float
    copies_of_second: int
    size_of_second: int
    share_of_second: float


def report_leakage(
    folder: Path, pairs: Sequence[Match], digests: Mapping[Path, bytes], sets: Sequence[Path], output: Output
) -> list[Match]:
    """Write leakage.csv and a cleaned list for each set, and print the table of sets × sets.

    Returns the matches between different sets, best first.

    Raises:
        UserError: when the disk is full.
    """

    def set_of(path: Path) -> Path | None:
        return next((name for name in sets if name == path or name in path.parents), None)

    def name_set(path: Path) -> str:
        alike = sum(other.name == path.name for other in sets)
        return text_of(path if alike > 1 else path.name)

    shares = share_pictures(pairs, digests, set_of)
    _write(folder / LEAKAGE, shares)
    output.say(f"{'set':30} {'copied in':30} pictures   share")
    for share in shares:
        output.record("leakage", asdict(share))
        one, other = name_set(share.first), name_set(share.second)
        output.say(f"{one:30} {other:30} {share.copies_of_first:8} {share.share_of_first:7.1%}")
        if one != other:
            output.say(f"{other:30} {one:30} {share.copies_of_second:8} {share.share_of_second:7.1%}")
    if not any(share.first != share.second for share in shares):
        output.say("no set holds a copy of another's picture")
    for number, (name, kept) in enumerate(clean_lists(pairs, digests, sets, set_of).items()):
        path = folder / f"clean-{number}-{name.name}.txt"
        listed = [picture for picture in kept if not set(os.fspath(picture)) & set("\r\n")]
        with whole_file(path) as temporary:
            temporary.write_bytes(b"".join(os.fsencode(picture) + b"\n" for picture in listed))
        output.record("clean_list", {"set": name, "list": path, "pictures": len(listed)})
        left = len(kept) - len(listed)
        unlisted = f"; {left} whose names break the line are not listed" if left else ""
        output.say(f"without copies in later sets: {path} ({len(listed)} pictures{unlisted})")
    places = [{set_of(file) for file in match.files} for match in pairs]
    return [match for match, both in zip(pairs, places, strict=True) if None not in both and len(both) > 1]


def report_folders(
    folder: Path, pairs: Sequence[Match], digests: Mapping[Path, bytes], output: Output
) -> None:
    """Write folders.csv, which lists folders that share pictures, and print those that share most.

    Raises:
        UserError: when the disk is full.
    """
    shares = [
        share
        for share in share_pictures(pairs, digests, lambda path: path.parent)
        if share.first != share.second
        and min(share.copies_of_first, share.copies_of_second) >= MIN_SHARED_PICTURES
    ]
    _write(folder / FOLDERS, shares)
    if shares:
        output.say(f"folders that hold the same pictures: {folder / FOLDERS}")
    for share in shares[:MAX_PRINTED_FOLDERS]:
        output.record("folders", asdict(share))
        output.say(
            f"  {share.first}: {share.copies_of_first} of {share.size_of_first} ({share.share_of_first:.0%}) also in "
            f"{share.second}: {share.copies_of_second} of {share.size_of_second} ({share.share_of_second:.0%})"
        )


def _write(path: Path, shares: Iterable[Share]) -> None:
    def cells(share: Share) -> list[object]:
        return [f"{value:.4f}" if isinstance(value, float) else value for value in astuple(share)]

    write_table(path, [field.name for field in fields(Share)], map(cells, shares))


def _find_copies(
    pairs: Iterable[Match], digests: Mapping[Path, bytes], set_of: SetOf
) -> dict[Path, set[Path | None]]:
    """Return the sets that contain a copy of each picture; its own set counts only if another file in it is a copy.

    A match between two files represents all byte-identical ones.
    """
    held = defaultdict[bytes, Counter[Path | None]](Counter)  # files of each content, by their sets
    for path, digest in digests.items():
        held[digest][set_of(path)] += 1
    alike = defaultdict[bytes, set[bytes]](set)
    for match in pairs:
        one, other = digests[match.query], digests[match.reference]
        alike[one].add(other)
        alike[other].add(one)
    found = {}
    for path, digest in digests.items():
        twins = held[digest] - Counter([set_of(path)])
        copies = (held[other] for other in alike[digest] if other != digest)
        found[path] = set(twins).union(*copies)
    return found


def share_pictures(pairs: Iterable[Match], digests: Mapping[Path, bytes], set_of: SetOf) -> list[Share]:
    """Count the pictures that any two sets share, largest share first; sets that share nothing are omitted."""
    sizes = Counter(set_of(path) for path in digests)
    copied = Counter[tuple[Path, Path]]()  # pictures of the first set with a copy in the second
    for path, names in _find_copies(pairs, digests, set_of).items():
        own = set_of(path)
        if own is not None:
            copied.update((own, name) for name in names if name is not None)
    shares = []
    for one, other in copied:
        if one <= other:
            first, second = copied[one, other], copied[other, one]
            counted = first, sizes[one], first / sizes[one], second, sizes[other], second / sizes[other]
            shares.append(Share(one, other, *counted))

    def rank(share: Share) -> tuple[float, Path, Path]:
        return -max(share.share_of_first, share.share_of_second), share.first, share.second

    return sorted(shares, key=rank)


def clean_lists(
    pairs: Iterable[Match], digests: Mapping[Path, bytes], sets: Sequence[Path], set_of: SetOf
) -> dict[Path, list[Path]]:
    """Return for each set, such as train, val, test, the pictures that have no copy in a later set."""
    copied, kept = _find_copies(pairs, digests, set_of), {}
    for place, name in enumerate(sets):
        later = set(sets[place + 1 :])
        kept[name] = [path for path in sorted(digests) if set_of(path) == name and not copied[path] & later]
    return kept
