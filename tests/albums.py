"""Albums with a plan, carried out, killed and undone, for tests that count files afterwards."""

import hashlib
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from image_copies.matching.files import acting, moving
from image_copies.matching.files.journal import Journal, Way
from image_copies.matching.files.plan import PlanRow, write_plan

GROUPS, COPIES = 4, 5


def write_album(where: Path) -> None:
    """Write album/ of files that all differ, and matches/plan.csv, by which the first file of each group stays."""
    (where / "album").mkdir()
    rows = []
    for group in range(1, GROUPS + 1):
        kept = where / "album" / f"{group}-0.jpg"
        for copy in range(COPIES):
            file = where / "album" / f"{group}-{copy}.jpg"
            file.write_bytes(os.urandom(2000))
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            rows.append(PlanRow(group, "remove" if copy else "keep", file, kept, "", None, None, False, digest))
    write_plan(where / "matches" / "plan.csv", rows)


def pictures_below(folder: Path) -> set[bytes]:
    """What all pictures below a folder hold."""
    return {path.read_bytes() for path in folder.rglob("*.jpg") if not path.is_symlink()}


def apply(album: Path, rows: list[PlanRow], way: Way, **options: Any) -> acting.Outcome:
    """Carry out a plan; the journal and moved/ lie beside the album."""
    with closing(Journal(album.parent / "journal.jsonl")) as journal:
        return acting.apply_plan(rows, way, journal, album.parent / "moved", **options)


def undo(album: Path) -> acting.Outcome:
    """Undo what the journal beside the album says."""
    with closing(Journal(album.parent / "journal.jsonl")) as journal:
        return acting.undo(journal)


class Killed(BaseException):
    """As if the process had been killed: nothing in the product catches it."""


def kill(*_: object, **__: object) -> None:
    raise Killed


def kill_at(patched: pytest.MonkeyPatch, at: int) -> list[int]:
    """Kill at the at-th change of the disk: before it happens, or after it where `at` is odd. Returns how many there were."""
    calls = [0]

    def watch(original: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] == at and at % 2 == 0:
                raise Killed
            result = original(*arguments, **options)
            if calls[0] == at:
                raise Killed
            return result

        return watched

    changes = (os, "link"), (Path, "unlink"), (Path, "symlink_to"), (Path, "replace"), (Journal, "_write"), (moving, "write_note")
    for owner, name in changes:
        patched.setattr(owner, name, watch(getattr(owner, name)))
    return calls
