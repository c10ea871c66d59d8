"""Series: shots of one scene in a row, such as a burst. The sharpest of each is suggested, nothing is planned for them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from ..files.facts import Facts
from ..files.plan import PlanRow
from ..matches import Match

NEAR_IN_TIME = timedelta(minutes=10)  # between two shots of a row
NEAR_IN_NUMBER = 10  # between the numbers that the names of two shots of a row end in
NUMBERED = re.compile(r"(.*?)(\d+)")


def is_of_series(match: Match, facts: Mapping[Path, Facts]) -> bool:
    """Whether a pair are shots in a row: of one scene and not far apart in time, or alike and in a row by dates or names."""
    judged = match.judgement
    if match.settled or judged is None or judged.is_certain or not judged.confirmed:
        return False
    one = facts[match.query]
    other = facts[match.reference]
    scene = judged.kind == "same scene"
    if one.frames > 1 or other.frames > 1:
        return False  # documents and animations are no shots
    if one.taken and other.taken:
        apart = abs(datetime.fromisoformat(one.taken) - datetime.fromisoformat(other.taken))
        return apart <= NEAR_IN_TIME and (scene or bool(apart))
    return scene or _are_named_in_a_row(one, other)


def list_joining(pairs: Sequence[Match], facts: Mapping[Path, Facts]) -> list[Match]:
    """Return the pairs that may join a group: copies, but neither shots in a row nor what are certainly copies of such shots."""

    def is_sure(match: Match) -> bool:
        return match.settled or (match.judgement is not None and match.judgement.is_certain)

    def find_ends(match: Match) -> frozenset[Path]:
        return frozenset(same.get(path, [path])[0] for path in match.files)

    same = _join(match.files for match in pairs if is_sure(match))
    shots = {find_ends(match) for match in pairs if is_of_series(match, facts)}
    return [match for match in pairs if match.is_copy and (is_sure(match) or find_ends(match) not in shots)]


def number_series(
    pairs: Sequence[Match], facts: Mapping[Path, Facts], planned: Sequence[PlanRow]
) -> list[Match]:
    """Return pairs, those within a series with its number, from 1 for the largest, and its sharpest picture (`Facts.sharpness`).

    Copies count as the one that stays instead of them.
    """
    kept, facts = _find_kept(planned), {row.file: row.facts for row in planned if row.facts} | dict(facts)
    ends = [[kept.get(file, file) for file in match.files] for match in pairs]
    shots = (pair for pair, match in zip(ends, pairs, strict=True) if is_of_series(match, facts))
    together = _join((one, other) for one, other in shots if one != other)
    unique = {id(files): sorted(files) for files in together.values()}.values()
    series = sorted(unique, key=lambda files: (-len(files), files))
    number_of = {file: number for number, files in enumerate(series, 1) for file in files}
    found = []
    for match, (one, other) in zip(pairs, ends, strict=True):
        number = number_of.get(one)
        if one != other and number is not None and number == number_of.get(other):
            sharpest = max(series[number - 1], key=lambda path: (facts[path].sharpness, facts[path].width))
            match = replace(match, series=number, sharpest=sharpest)
        found.append(match)
    return found


def list_series(pairs: Iterable[Match], planned: Iterable[PlanRow]) -> list[list[Path]]:
    """Return the pictures of each series of numbered pairs, the sharpest first; of copies the one that stays."""
    kept, found = _find_kept(planned), dict[int, list[Path]]()
    for match in pairs:
        if match.series is not None and match.sharpest is not None:
            files = found.setdefault(match.series, [kept.get(match.sharpest, match.sharpest)])
            files += (kept.get(file, file) for file in match.files)
    return [list(dict.fromkeys([files[0], *sorted(files)])) for _, files in sorted(found.items())]


def _join(pairs: Iterable[tuple[Path, Path]]) -> dict[Path, list[Path]]:
    """Return for each file those that pairs connect, directly or through others: one list for all of them."""
    together: dict[Path, list[Path]] = {}
    for pair in pairs:
        few, many = sorted((together.setdefault(path, [path]) for path in pair), key=len)
        if few is not many:
            many += few
            together |= dict.fromkeys(few, many)
    return together


def _find_kept(planned: Iterable[PlanRow]) -> dict[Path, Path]:
    """Return the file that stays instead of each copy; one may stay beside another, and have copies of its own."""
    kept = {row.file: row.kept for row in planned if row.judgement is None or row.judgement.is_copy}
    return {file: kept.get(stays, stays) for file, stays in kept.items()}


def _are_named_in_a_row(one: Facts, other: Facts) -> bool:
    """Whether the names differ only by a number at their end, by little, as a camera's do; pictures of other sizes are edited."""
    first = NUMBERED.fullmatch(one.path.stem)
    second = NUMBERED.fullmatch(other.path.stem)
    if first is None or second is None or (one.path.parent, first[1]) != (other.path.parent, second[1]):
        return False
    sizes = [sorted((facts.width, facts.height)) for facts in (one, other)]
    return sizes[0] == sizes[1] and 0 < abs(int(first[2]) - int(second[2])) <= NEAR_IN_NUMBER
