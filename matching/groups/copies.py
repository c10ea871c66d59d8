"""Groups of copies: of what is planned, the files that are the same as the one that stays, or certainly copies of it."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from image_copies.matching.files.plan import PlanRow


class CopyGroup(list[Path]):
    """Files of which each is the same as the first, or certainly a copy of it; the first is the one that a plan keeps.

    Attributes:
        rows: What a plan says of each.
    """

    def __init__(self, rows: Iterable[PlanRow]) -> None:
        self.rows = list(rows)
        super().__init__(row.file for row in self.rows)

    @property
    def removable(self) -> list[Path]:
        """Those that a plan would remove: not what it would have looked at, and what is protected, a reference or a link."""
        return [row.file for row in self.rows if row.action == "remove"]


def list_copies(planned: Iterable[PlanRow]) -> list[CopyGroup]:
    """Return the groups of copies of a plan, the largest first, their rows numbered by them, from 1."""
    around: dict[Path, list[PlanRow]] = {}
    for row in planned:
        if row.file == row.kept or (row.judgement is not None and row.judgement.is_certain):
            around.setdefault(row.kept, []).append(row)
    found = [sorted(rows, key=lambda row: row.file != row.kept) for rows in around.values() if len(rows) > 1]
    ordered = enumerate(sorted(found, key=lambda rows: -len(rows)), 1)
    return [CopyGroup(replace(row, group=number) for row in rows) for number, rows in ordered]
