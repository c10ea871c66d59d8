"""match.py leakage: the pictures that sets share; and folders that share pictures, as a short table."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from image_copies.data.errors import text_of
from image_copies.data.files import whole_file
from image_copies.data.ground_truth import write_table

from ..matches import Match
from ..output import Output
from ..results import FOLDERS, LEAKAGE

MAX_PRINTED_FOLDERS = 10
MIN_SHARED_PICTURES = 2  # pictures that two folders must share to be listed
Sets = Mapping[Path, Path]  # the set of each picture; one that is in none is missing
Holders = Mapping[Path, set[Path]]  # the sets that hold a copy of each picture


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
    folder: Path, pairs: Sequence[Match], digests: Mapping[Path, bytes], names: Sequence[Path], output: Output
) -> list[Match]:
    """Write leakage.csv and a cleaned list for each set, and print the table of sets × sets.

    Returns the matches between different sets, best first.

    Raises:
        UserError: The disk is full.
    """
    sets = {
        path: name for name in reversed(names) for path in digests if name == path or name in path.parents
    }
    holders = find_holders(pairs, digests, sets)
    shares = share_pictures(sets, holders)
    _write(folder / LEAKAGE, shares)
    called = Counter(name.name for name in names)
    said = {name: text_of(name if called[name.name] > 1 else name.name) for name in names}
    output.say(f"{'set':30} {'copied in':30} pictures   share")
    for share in shares:
        output.record("leakage", asdict(share))
        one, other = said[share.first], said[share.second]
        output.say(f"{one:30} {other:30} {share.copies_of_first:8} {share.share_of_first:7.1%}")
        if one != other:
            output.say(f"{other:30} {one:30} {share.copies_of_second:8} {share.share_of_second:7.1%}")
    if not any(share.first != share.second for share in shares):
        output.say("no set holds a copy of another's picture")
    for number, (name, kept) in enumerate(clean_lists(sets, holders, names).items()):
        path = folder / f"clean-{number}-{name.name}.txt"
        listed = [picture for picture in kept if not set(os.fspath(picture)) & set("\r\n")]
        with whole_file(path) as temporary:
            temporary.write_bytes(b"".join(os.fsencode(picture) + b"\n" for picture in listed))
        output.record("clean_list", {"set": name, "list": path, "pictures": len(listed)})
        left = len(kept) - len(listed)
        unlisted = f"; {left} whose names break the line are not listed" if left else ""
        output.say(f"without copies in later sets: {path} ({len(listed)} pictures{unlisted})")
    placed = [match for match in pairs if match.query in sets and match.reference in sets]
    return [match for match in placed if sets[match.query] != sets[match.reference]]


def report_folders(
    folder: Path, pairs: Sequence[Match], digests: Mapping[Path, bytes], output: Output
) -> None:
    """Write folders.csv, which lists folders that share pictures, and print those that share most.

    Raises:
        UserError: The disk is full.
    """
    parents = {path: path.parent for path in digests}
    shares = [
        share
        for share in share_pictures(parents, find_holders(pairs, digests, parents))
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
    columns = [field.name for field in fields(Share)]
    rows = [asdict(share).values() for share in shares]
    cells = ([f"{cell:.4f}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    write_table(path, columns, cells)


def find_holders(pairs: Iterable[Match], digests: Mapping[Path, bytes], sets: Sets) -> Holders:
    """Return the sets that hold a copy of each picture; its own set counts only if another file in it is a copy.

    A match between two files represents all byte-identical ones.
    """
    held = defaultdict[bytes, Counter[Path]](Counter)  # files of each content, by their sets
    for path, name in sets.items():
        held[digests[path]][name] += 1
    alike = defaultdict[bytes, set[bytes]](set)
    for match in pairs:
        one, other = digests[match.query], digests[match.reference]
        alike[one].add(other)
        alike[other].add(one)
    found = {}
    for path, name in sets.items():
        digest = digests[path]
        twins = held[digest] - Counter([name])
        copies = (held[other] for other in alike[digest] if other != digest)
        found[path] = set(twins).union(*copies)
    return found


def share_pictures(sets: Sets, holders: Holders) -> list[Share]:
    """Count the pictures that any two sets share, largest share first; sets that share nothing are omitted."""
    sizes = Counter(sets.values())
    # pictures of the first set with a copy in the second
    copied = Counter((sets[path], name) for path, names in holders.items() for name in names)
    shares = []
    for one, other in copied:
        if one <= other:
            first, second = copied[one, other], copied[other, one]
            counted = first, sizes[one], first / sizes[one], second, sizes[other], second / sizes[other]
            shares.append(Share(one, other, *counted))
    shares.sort(key=lambda share: (share.first, share.second))
    return sorted(shares, key=lambda share: -max(share.share_of_first, share.share_of_second))


def clean_lists(sets: Sets, holders: Holders, names: Sequence[Path]) -> dict[Path, list[Path]]:
    """Return for each set, such as train, val, test, the pictures that have no copy in a later set."""
    kept = {}
    for place, name in enumerate(names, 1):
        later = set(names[place:])
        own = sorted(path for path in sets if sets[path] == name)
        kept[name] = [path for path in own if not holders[path] & later]
    return kept
