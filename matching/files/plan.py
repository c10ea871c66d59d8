"""The plan: what becomes of each file of each group, as a CSV file that a person can read and change."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from pydantic import TypeAdapter, ValidationError

from image_copies.data import commands, files, ground_truth, remote
from image_copies.data.errors import UserError
from image_copies.data.sources.archives import find_archive

from ..verification.judgement import Judgement
from .facts import Facts

Action = Literal["keep", "remove", "review", "leave"]
DIGEST_BYTES = 32
BY_HAND = "chosen by hand"  # the reason to keep a file


FACTS = {  # columns, and the facts that they hold
    "width": "width",
    "height": "height",
    "bytes": "size",
    "format": "form",
    "taken": "taken",
    "modified_ns": "modified",
    "sharpness": "sharpness",
    "frames": "frames",
    "companions": "companions",
}
NEEDED = "group", "action", "file", "kept", "protected", "sha256"
COLUMNS = [
    *("group", "action", "file", "kept", "reason", "score", "class", "certainty", *FACTS),
    *("protected", "reference", "merged", "original", "sha256"),
]


@dataclass(frozen=True)
class PlanRow:
    """One file of a group.

    Attributes:
        group: Number of the group, from 1.
        action: "keep", "remove" (what `--apply` acts on), "review" (what a person is to look at) or "leave".
        file: Absolute path of the file.
        kept: Absolute path of the file that is kept instead; for a kept file, its own path.
        reason: Reason for the action, in words.
        score: Score of the pair of file and kept file, at most 0; None for the kept file itself.
        facts: Size, format, date and sharpness; None if the plan that the row was read from lacks them.
        protected: Whether the file must never be touched.
        sha256: Hexadecimal SHA-256 of the file's bytes when it was searched.
        reference: Whether the file was searched as a reference, of which copies are removed, and which stays itself.
        judgement: What the pair of file and kept file is; None where that decides nothing.
        merged: What the file notes and the kept one lacks, in words, where that alone keeps it from being removed: written next
            to the kept file, it lets this one go.
        original: Of a copy to be looked at, which of it and the kept file the other was made of, and why, in words.
    """

    group: int
    action: Action
    file: Path
    kept: Path
    reason: str = ""
    score: float | None = None
    facts: Facts | None = None
    protected: bool = False
    sha256: str = ""
    reference: bool = False
    judgement: Judgement | None = None
    merged: str = ""
    original: str = ""


ROW, READ_FACTS = TypeAdapter(PlanRow), TypeAdapter(Facts)


def remove_merged(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """Return the rows of a plan with those removed that only notes keep from it, which are written next to the kept file."""
    kept = {row.file for row in rows if row.action == "keep"}
    return [
        replace(row, action="remove") if row.action == "review" and row.merged and row.kept in kept else row
        for row in rows
    ]


def list_companions(row: PlanRow) -> list[Path]:
    """Return the files that go with a file that is removed."""
    names = row.facts.companions if row.action == "remove" and row.facts else ()
    return [row.file.with_name(name) for name in names]


def write_plan(path: Path, rows: Iterable[PlanRow]) -> None:
    """Write the plan whole; bytes of names that are no UTF-8 are kept as they are."""
    ground_truth.write_table(
        path, COLUMNS, ([plan_values(row).get(name, "") for name in COLUMNS] for row in rows)
    )


def plan_values(row: PlanRow) -> dict[str, object]:
    """Return the cells of a row by column; those of what is not known are missing."""
    values: dict[str, object] = {name: getattr(row, name) for name in COLUMNS if hasattr(row, name)}
    values["score"] = "" if row.score is None else f"{row.score:.6g}"
    values |= {name: "yes" if values[name] else "" for name in ("protected", "reference")}
    if row.judgement is not None:
        values |= {"class": row.judgement.kind, "certainty": str(row.judgement.certainty)}
    if row.facts is not None:
        values |= facts_values(row.facts)
    return values


def facts_values(facts: Facts) -> dict[str, object]:
    """Return what tables say of a file, by the names of their columns."""
    values: dict[str, object] = {name: getattr(facts, field) for name, field in FACTS.items()}
    return values | {"sharpness": f"{facts.sharpness:.1f}", "companions": "/".join(facts.companions)}


def read_plan(path: Path) -> list[PlanRow]:
    """Read a plan, which a person may have changed, or a spreadsheet saved with a byte-order mark or semicolons.

    Raises:
        UserError: there is none, a line is not as expected, or a group would lose its last file.
    """
    try:
        with (
            files.open_regular(path) as content,
            io.TextIOWrapper(content, encoding="utf-8-sig", errors="surrogateescape", newline="") as file,
        ):
            first = file.readline()
            file.seek(0)
            reader = csv.DictReader(file, delimiter=max(",;\t", key=first.count), restval="")
            lines = list(reader)
            columns = reader.fieldnames or []
    except FileNotFoundError as error:
        raise UserError(
            f"{path}: there is no plan. Search first: {commands.name_command('match')} DIR writes one."
        ) from error
    except (OSError, csv.Error) as error:
        raise UserError(f"{path} is not a plan that can be read ({error}).") from error
    missing = [name for name in (*NEEDED, "class") if name not in columns]
    if missing:
        raise UserError(f"{path} has no column {missing[0]!r}: it is no plan. Search again.")
    rows = [_parse_row(f"{path}, line {number}", line) for number, line in enumerate(lines, 2)]
    _check_rows(path, rows)
    return rows


def _parse_row(place: str, line: dict[str, str]) -> PlanRow:
    file, kept = remote.as_path(line["file"]), remote.as_path(line["kept"])
    if remote.is_remote(file) or remote.is_remote(kept):
        raise UserError(
            f"{place}: {line['file']} or {line['kept']} is on an object store, where no file is moved, linked or "
            "deleted from here. Carry out the plan with the store's own tools: its lines with the action 'remove' name the files."
        )
    if not file.is_absolute() or not kept.is_absolute() or ".." in file.parts + kept.parts:
        raise UserError(
            f"{place}: {line['file']!r} and {line['kept']!r} must be absolute paths without '..'."
        )
    known: dict[str, object] = {"file": file, "kept": kept, "score": line.get("score") or None}
    known |= {
        name: line.get(name, "") for name in ("group", "action", "reason", "merged", "original", "sha256")
    }
    known |= {name: line.get(name) == "yes" for name in ("protected", "reference")}
    if kind := line["class"]:
        reason = line.get("reason", "").removeprefix(f"{kind}: ")
        known["judgement"] = {"kind": kind, "reason": reason, "certainty": line.get("certainty")}
    try:
        row = ROW.validate_python(known)
        if len(bytes.fromhex(row.sha256)) != DIGEST_BYTES:
            raise ValueError("no SHA-256")
    except ValueError as error:
        raise UserError(
            f"{place}: the action must be one of {', '.join(get_args(Action))}, and group, score, class, certainty and sha256 as "
            "a search writes them. Correct the line, or search again."
        ) from error
    return replace(row, facts=_parse_facts(file, line))


def _parse_facts(file: Path, line: dict[str, str]) -> Facts | None:
    """What the line says of the file; None where it says nothing, or what no number is."""
    known: dict[str, object] = {field: line.get(name, "") for name, field in FACTS.items()}
    names = line.get("companions", "").split("/")
    known["companions"] = [name for name in names if name not in ("", ".", "..")]
    known |= {"path": file, "linked": files.is_link(file)}
    known["archived"] = not files.is_there(file) and find_archive(file) is not None
    try:
        return READ_FACTS.validate_python(known)
    except ValidationError:
        return None


def _check_rows(path: Path, rows: list[PlanRow]) -> None:
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
