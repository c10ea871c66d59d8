"""The tables of groups that a search writes: groups.csv, cuts.csv, hubs.csv, and stacks for galleries."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from image_copies.data.files import write_text
from image_copies.data.ground_truth import write_table
from image_copies.matching.files.plan import plan_values
from image_copies.matching.groups.groups import Cut, Hub
from image_copies.matching.groups.planning import CopyGroup

FACTS = ("width", "height", "bytes", "format", "taken", "exif_entries", "sharpness")


def write_groups_csv(path: Path, groups: Iterable[CopyGroup]) -> None:
    """Write every group, numbered from 1: its files, what the plan suggests for each, and the class as a copy of the first.

    Raises:
        UserError: the disk is full.
    """
    columns = ["group", "file", "suggestion", "reason", "score", "class", "certainty", *FACTS]
    _write_rows(path, columns, groups, {"suggestion": "action"})


def _write_rows(
    path: Path, columns: Sequence[str], groups: Iterable[CopyGroup], plan: Mapping[str, str]
) -> None:
    """Write columns of the plan's rows; `plan` has the names there of those that are named otherwise here."""
    rows = (plan_values(row) for group in groups for row in group.rows)
    write_table(
        path, columns, ([values.get(plan.get(name, name), "") for name in columns] for values in rows)
    )


def write_cuts_csv(path: Path, cuts: Iterable[Cut[Path]]) -> None:
    """Write the pairs that match but merge no groups, highest score first, with the counts that decided.

    Raises:
        UserError: the disk is full.
    """

    def cells(cut: Cut[Path]) -> list[object]:
        link = cut.link
        judged = ["", ""] if link.judgement is None else [link.judgement.kind, link.judgement.certainty]
        return [link.first, link.second, f"{link.score:.6g}", *judged, cut.matching, cut.compared, cut.reason]

    columns = ["first", "second", "score", "class", "certainty", "matching", "compared", "reason"]
    write_table(path, columns, map(cells, cuts))


def write_hubs_csv(path: Path, hubs: Iterable[Hub[list[Path]]]) -> None:
    """Write the files that match many others which do not match each other, the one with the most matches first.

    Raises:
        UserError: the disk is full.
    """
    rows = ([file, hub.matches, f"{hub.related:.4f}"] for hub in hubs for file in hub.content)
    write_table(path, ["file", "matches", "related_share"], rows)


def write_stacks(table: Path, listed: Path, groups: Sequence[CopyGroup]) -> None:
    """Write the groups for a gallery that shows a stack of pictures as one: the file on top, and those below.

    Args:
        table: CSV with a line for each file: `stack,file,primary,class,certainty`; class and certainty as a copy of the primary.
        listed: JSON: a list of `{"primary": file, "files": [all files, the primary first]}`.
        groups: The groups.

    Raises:
        UserError: the disk is full.
    """
    _write_rows(
        table,
        ["stack", "file", "primary", "class", "certainty"],
        groups,
        {"stack": "group", "primary": "kept"},
    )
    lists = [{"primary": str(group[0]), "files": list(map(str, group))} for group in groups]
    write_text(listed, json.dumps(lists, indent=1) + "\n")
