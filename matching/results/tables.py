"""The tables of groups that a search writes: groups.csv, cuts.csv, hubs.csv, and stacks for galleries."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from image_copies.data.files import write_text
from image_copies.data.ground_truth import write_table
from image_copies.matching.files.facts import facts_values
from image_copies.matching.files.plan import PlanRow
from image_copies.matching.groups.groups import Cut, Hub
from image_copies.matching.groups.planning import CopyGroup
from image_copies.matching.verification.judgement import Judgement

FACTS = ("width", "height", "bytes", "format", "taken", "exif_entries", "sharpness")


def write_groups_csv(path: Path, groups: Iterable[CopyGroup]) -> None:
    """Write every group, numbered from 1: its files, what the plan suggests for each, and the class as a copy of the first.

    Raises:
        UserError: the disk is full.
    """

    def cells(row: PlanRow) -> list[object]:
        facts = facts_values(row.facts) if row.facts else {}
        score = "" if row.score is None else f"{row.score:.6g}"
        pair = [score, *_judgement_cells(row.judgement)]
        return [row.group, row.file, row.action, row.reason, *pair, *(facts.get(name, "") for name in FACTS)]

    columns = ["group", "file", "suggestion", "reason", "score", "class", "certainty", *FACTS]
    write_table(path, columns, (cells(row) for group in groups for row in group.rows))


def write_cuts_csv(path: Path, cuts: Iterable[Cut[Path]]) -> None:
    """Write the pairs that match but merge no groups, highest score first, with the counts that decided.

    Raises:
        UserError: the disk is full.
    """

    def cells(cut: Cut[Path]) -> list[object]:
        link = cut.link
        pair = [link.first, link.second, f"{link.score:.6g}", *_judgement_cells(link.judgement)]
        return [*pair, cut.matching, cut.compared, cut.reason]

    columns = ["first", "second", "score", "class", "certainty", "matching", "compared", "reason"]
    write_table(path, columns, map(cells, cuts))


def _judgement_cells(judgement: Judgement | None) -> list[object]:
    return [judgement.kind, judgement.certainty] if judgement else ["", ""]


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

    def cells(row: PlanRow) -> list[object]:
        return [row.group, row.file, row.kept, *_judgement_cells(row.judgement)]

    write_table(table, ["stack", "file", "primary", "class", "certainty"], (cells(row) for group in groups for row in group.rows))
    lists = [{"primary": str(group[0]), "files": list(map(str, group))} for group in groups]
    write_text(listed, json.dumps(lists, indent=1) + "\n")
