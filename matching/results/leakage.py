"""match.py leakage: the pictures that sets share; and folders that share pictures, as a short table."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from image_copies.data.errors import text_of
from image_copies.data.files import whole_file
from image_copies.data.ground_truth import write_table
from image_copies.matching.groups.shares import Share, clean_lists, shared_pictures
from image_copies.matching.matches import Match
from image_copies.matching.output import Output
from image_copies.matching.results.folder import FOLDERS, LEAKAGE

MAX_PRINTED_FOLDERS = 10
MIN_SHARED_PICTURES = 2  # pictures that two folders must share to be listed


def report_leakage(
    folder: Path, pairs: Sequence[Match], digests: Mapping[Path, bytes], sets: Sequence[Path], output: Output
) -> list[Match]:
    """Write leakage.csv and a cleaned list for each set, and print the table of sets × sets.

    Returns the matches between different sets, best first.

    Raises:
        UserError: when the disk is full.
    """
    set_of = _make_set_lookup(sets)
    shares = shared_pictures(pairs, digests, set_of)
    _write(folder / LEAKAGE, shares)
    names = _name_sets(sets)
    output.say(f"{'set':30} {'copied in':30} pictures   share")
    for share in shares:
        output.record("leakage", asdict(share))
        one, other = names[share.first], names[share.second]
        output.say(_line(one, other, share.copies_of_first, share.share_of_first))
        if one != other:
            output.say(_line(other, one, share.copies_of_second, share.share_of_second))
    if not any(share.first != share.second for share in shares):
        output.say("no set holds a copy of another's picture")
    for number, (name, kept) in enumerate(clean_lists(pairs, digests, sets, set_of).items()):
        path = folder / f"clean-{number}-{name.name}.txt"
        listed = [picture for picture in kept if not set(os.fspath(picture)) & set("\r\n")]
        with whole_file(path) as temporary:
            temporary.write_bytes(b"".join(os.fsencode(picture) + b"\n" for picture in listed))
        output.record("clean_list", {"set": name, "list": path, "pictures": len(listed)})
        unlisted = (
            f"; {len(kept) - len(listed)} whose names break the line are not listed"
            if len(listed) < len(kept)
            else ""
        )
        output.say(f"without copies in later sets: {path} ({len(listed)} pictures{unlisted})")
    return [
        match
        for match in pairs
        if None not in (places := {set_of(match.query), set_of(match.reference)}) and len(places) > 1
    ]


def report_folders(
    folder: Path, pairs: Sequence[Match], digests: Mapping[Path, bytes], output: Output
) -> None:
    """Write folders.csv, which lists folders that share pictures, and print those that share most.

    Raises:
        UserError: when the disk is full.
    """
    shares = [
        share
        for share in shared_pictures(pairs, digests, lambda path: path.parent)
        if share.first != share.second
        and min(share.copies_of_first, share.copies_of_second) >= MIN_SHARED_PICTURES
    ]
    _write(folder / FOLDERS, shares)
    if shares:
        output.say(f"folders that hold the same pictures: {folder / 'folders.csv'}")
    for share in shares[:MAX_PRINTED_FOLDERS]:
        output.record("folders", asdict(share))
        output.say(
            f"  {share.first}: {share.copies_of_first} of {share.size_of_first} ({share.share_of_first:.0%}) also in "
            f"{share.second}: {share.copies_of_second} of {share.size_of_second} ({share.share_of_second:.0%})"
        )


def _make_set_lookup(sets: Sequence[Path]) -> Callable[[Path], Path | None]:
    return lambda path: next((name for name in sets if name == path or name in path.parents), None)


def _name_sets(sets: Sequence[Path]) -> dict[Path, str]:
    """Return the name of each set's folder; its whole path where several folders have that name."""
    count = Counter(path.name for path in sets)
    return {path: text_of(path.name if count[path.name] == 1 else path) for path in sets}


def _line(one: str, other: str, count: int, share: float) -> str:
    return f"{one:30} {other:30} {count:8} {share:7.1%}"


def _write(path: Path, shares: Sequence[Share]) -> None:
    of_each = [
        f"{value}_of_{which}" for which in ("first", "second") for value in ("copies", "size", "share")
    ]

    def cells(share: Share) -> list[object]:
        values = (getattr(share, name) for name in of_each)
        return [
            share.first,
            share.second,
            *(f"{value:.4f}" if isinstance(value, float) else value for value in values),
        ]

    write_table(path, ["first", "second", *of_each], map(cells, shares))
