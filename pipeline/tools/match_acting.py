"""match.py --apply and --undo."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from data.locks import hold_lock_file
from pipeline.tools.match_command import protection
from pipeline.tools.match_output import Output
from submissions.copies.acting import Outcome, apply_plan, undo
from submissions.copies.journal import Journal, Way
from submissions.copies.plan import read_plan

JOURNAL = "journal.jsonl"
SHOWN = 20  # files that are named one by one
BUSY = "another match.py is carrying out or undoing a plan. Wait for it: two could each remove what the other keeps."


def carry_out(folder: Path, plan: Path | None, way: Way, moved_to: Path | None, protected: Sequence[Path], output: Output) -> int:
    """Carry out the plan in a folder of results; returns 0, or 1 where files were left alone.

    Raises:
        UserError: there is no plan, it is spoilt, the disk is full, or another process is at it.
    """
    rows = read_plan(plan or folder / "plan.csv")
    with hold_lock_file(_lock(), BUSY):
        journal = Journal(folder / JOURNAL)
        try:
            outcome = apply_plan(rows, way, journal, (moved_to or folder / "moved").resolve(), protection(protected))
        finally:
            journal.close()
    _report(outcome, way, output)
    output.say(f"journal: {folder / JOURNAL}; take everything back with --undo")
    return 1 if outcome.left else 0


def take_back(folder: Path, output: Output) -> int:
    """Undo what the journal in a folder of results says was done; returns 0, or 1 where files were left alone."""
    with hold_lock_file(_lock(), BUSY):
        journal = Journal(folder / JOURNAL)
        try:
            outcome = undo(journal)
        finally:
            journal.close()
    _report(outcome, "undo", output)
    return 1 if outcome.left else 0


def _lock() -> Path:
    """One lock for all plans of a user."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"image-copy-detection-{user}.lock"


def _report(outcome: Outcome, what: str, output: Output) -> None:
    for path in outcome.done:
        output.record("done", {"action": what, "file": path})
    for path, reason in outcome.left:
        output.record("left", {"action": what, "file": path, "reason": reason})
    for path, reason in outcome.left[:SHOWN]:
        output.say(f"left alone: {path}: {reason}")
    if len(outcome.left) > SHOWN:
        output.say(f"… and {len(outcome.left) - SHOWN} more")
    output.say(f"{what}: {len(outcome.done)} files done, {len(outcome.left)} left alone")
