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
MIN_SHARED_PICTURES = 2  # pictures of a folder that must be in another to be listed
Sets = Mapping[Path, Path]  # the set of each picture; one that is in none is missing
Holders = Mapping[Path, set[Path]]  # the sets that hold a copy of each picture


@dataclass(frozen=True)
class Share:
    """Pictures of a set that have a copy in a set, perhaps in itself; all of the set; and the share 0…1 of these."""

    set: Path
    copied_in: Path
    copies: int
    pictures: int
    share: float


def report_leakage(
    folder: Path,
    pairs: Sequence[Match],
    digests: Mapping[Path, bytes],
    names: Sequence[Path],
    output: Output,
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
        output.say(f"{said[share.set]:30} {said[share.copied_in]:30} {share.copies:8} {share.share:7.1%}")
    if all(share.set == share.copied_in for share in shares):
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
    found = share_pictures(parents, find_holders(pairs, digests, parents))
    shares = [
        share for share in found if share.set != share.copied_in and share.copies >= MIN_SHARED_PICTURES
    ]
    _write(folder / FOLDERS, shares)
    if shares:
        output.say(f"folders that hold the same pictures: {folder / FOLDERS}")
    for share in shares[:MAX_PRINTED_FOLDERS]:
        output.record("folders", asdict(share))
        output.say(
            f"  {share.set}: {share.copies} of {share.pictures} ({share.share:.0%}) also in {share.copied_in}"
        )


def _write(path: Path, shares: Iterable[Share]) -> None:
    rows = (asdict(share) | {"share": f"{share.share:.4f}"} for share in shares)
    write_table(path, [field.name for field in fields(Share)], (list(row.values()) for row in rows))


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
    """Count the pictures of each set of which a set holds copies, largest share first; sets that share nothing are omitted."""
    sizes = Counter(sets.values())
    copied = Counter((sets[path], name) for path, names in holders.items() for name in names)
    shares = [
        Share(one, other, copies, sizes[one], copies / sizes[one])
        for (one, other), copies in sorted(copied.items())
    ]
    return sorted(shares, key=lambda share: -share.share)


def clean_lists(sets: Sets, holders: Holders, names: Sequence[Path]) -> dict[Path, list[Path]]:
    """Return for each set, such as train, val, test, the pictures that have no copy in a later set."""
    kept = {}
    for place, name in enumerate(names, 1):
        later = set(names[place:])
        own = sorted(path for path in sets if sets[path] == name)
        kept[name] = [path for path in own if not holders[path] & later]
    return kept
