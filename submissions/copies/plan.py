"""The plan: which file of each group is kept and which ones may go, as a CSV file that a person can read and change."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from data.errors import UserError
from data.files import open_regular, whole_file
from submissions.copies.facts import Facts
from submissions.copies.keeping import KeepRule, choose_kept

Action = Literal["keep", "remove", "leave"]
COLUMNS = [
    *("group", "action", "file", "kept", "reason", "score", "width", "height", "bytes", "format"),
    *("taken", "modified_ns", "sharpness", "protected", "sha256"),
]


@dataclass(frozen=True)
class PlanRow:
    """One file of a group.

    Attributes:
        group: number of the group, from 1.
        action: "keep", "remove" (what `--apply` acts on) or "leave".
        file: absolute path.
        kept: the file that is kept instead of it; of a kept file, itself.
        reason: why, in words.
        score: of the pair file and kept; None for the kept file itself.
        facts: size, format, date and sharpness; None where the row was read from a file.
        protected: it must never be touched.
        sha256: hexadecimal digest of the file's bytes when it was searched.
    """

    group: int
    action: Action
    file: Path
    kept: Path
    reason: str
    score: float | None
    facts: Facts | None
    protected: bool
    sha256: str


def plan_group(
    group: int,
    members: Sequence[Facts],
    digests: Mapping[Path, bytes],
    rule: KeepRule,
    folders: Sequence[Path],
    is_protected: Callable[[Path], bool],
    pair_score: Callable[[Path, Path], float | None],
) -> list[PlanRow]:
    """Plan one group: the kept file first, then those that may be removed, then those that are left.

    A file may be removed only if it matches the kept file by itself, is no link, lies in no archive and is not protected.

    Args:
        group: its number.
        members: its files.
        digests: SHA-256 of every file.
        rule: which file to keep.
        folders: in order of preference.
        is_protected: whether a file must not be touched.
        pair_score: the score of two files that match by themselves, None where they don't.
    """
    kept, why = choose_kept(members, rule, folders)
    rows = [PlanRow(group, "keep", kept.path, kept.path, why, None, kept, is_protected(kept.path), digests[kept.path].hex())]
    for facts in members:
        if facts.path == kept.path:
            continue
        score, protected = pair_score(kept.path, facts.path), is_protected(facts.path)
        action, reason = _verdict(facts, kept, score, protected)
        rows.append(PlanRow(group, action, facts.path, kept.path, reason, score, facts, protected, digests[facts.path].hex()))
    return sorted(rows, key=lambda row: (get_args(Action).index(row.action), row.file))


def _verdict(facts: Facts, kept: Facts, score: float | None, protected: bool) -> tuple[Action, str]:
    if protected:
        return "keep", "protected"
    if facts.archived:
        return "leave", "inside an archive"
    if facts.linked:
        return "leave", "a link"
    if kept.linked or kept.archived:
        return "leave", "the group holds no file that could be kept instead"
    if score is None:
        return "leave", "does not match the kept file by itself"
    if not facts.width:
        return "leave", "cannot be read any more"
    return "remove", "the same bytes as the kept file" if score == 0 else "a copy of the kept file"


def write_plan(path: Path, rows: Iterable[PlanRow]) -> None:
    """Write the plan whole; bytes of names that are no UTF-8 are kept as they are."""
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            facts = row.facts
            shown = (
                [facts.width, facts.height, facts.size, facts.form, facts.taken, facts.modified, f"{facts.sharpness:.1f}"]
                if facts
                else [""] * 7
            )
            score = "" if row.score is None else f"{row.score:.6g}"
            protected = "yes" if row.protected else ""
            writer.writerow([row.group, row.action, row.file, row.kept, row.reason, score, *shown, protected, row.sha256])


def read_plan(path: Path) -> list[PlanRow]:
    """Read a plan, which a person may have changed.

    Raises:
        UserError: there is none, a line is not as expected, or a group would lose its last file.
    """
    try:
        with (
            open_regular(path) as content,
            io.TextIOWrapper(content, encoding="utf-8", errors="surrogateescape", newline="") as file,
        ):
            reader = csv.DictReader(file)
            lines = list(reader)
            columns = reader.fieldnames or []
    except FileNotFoundError as error:
        raise UserError(f"{path}: there is no plan. Search first: match.py --queries DIR --keep largest writes one.") from error
    except (OSError, csv.Error) as error:
        raise UserError(f"{path} is not a plan that can be read ({error}).") from error
    missing = [name for name in ("group", "action", "file", "kept", "protected", "sha256") if name not in columns]
    if missing:
        raise UserError(f"{path} has no column {missing[0]!r}: it is not a plan of match.py. Search again.")
    rows = [_row(path, number, line) for number, line in enumerate(lines, 2)]
    _check(path, rows)
    return rows


def _row(path: Path, number: int, line: dict[str, str]) -> PlanRow:
    action = line["action"]
    if action not in get_args(Action):
        raise UserError(f"{path}, line {number}: the action {action!r} is none of keep, remove, leave.")
    file, kept = Path(line["file"] or ""), Path(line["kept"] or "")
    if not file.is_absolute() or not kept.is_absolute():
        raise UserError(f"{path}, line {number}: {line['file']!r} and {line['kept']!r} must be absolute paths.")
    try:
        group = int(line["group"])
        valid = len(bytes.fromhex(line["sha256"] or "")) == 32
    except ValueError:
        valid, group = False, 0
    if not valid:
        raise UserError(f"{path}, line {number}: group and sha256 are not as match.py writes them. Search again.")
    score = float(line["score"]) if line.get("score") else None
    return PlanRow(group, action, file, kept, line.get("reason") or "", score, None, line["protected"] == "yes", line["sha256"])  # type: ignore[arg-type]  # the action is one of them, see above


def _check(path: Path, rows: list[PlanRow]) -> None:
    kept = {row.file for row in rows if row.action == "keep"}
    seen: set[Path] = set()
    for row in rows:
        if row.file in seen:
            raise UserError(f"{path} names {row.file} twice: remove one of the two lines.")
        seen.add(row.file)
        if row.action != "remove":
            continue
        if row.kept not in kept:
            raise UserError(
                f"{path}: {row.file} would be removed, but {row.kept}, which stays instead, has no line with the action keep."
            )
        if row.protected:
            raise UserError(f"{path}: {row.file} is protected; its action cannot be remove.")
