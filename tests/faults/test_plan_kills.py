"""A plan carried out and undone by processes that are killed again and again: after every kill all files are there."""

import random
import signal
import time
from pathlib import Path

import pytest

from tests.albums import pictures_below, write_album
from tests.faults.disk import small_disk
from tests.faults.harness import Done, Forks, Ledger, scratch_environment, share_of
from tests.folders import read_tree

pytestmark = pytest.mark.faults
KILLS = share_of(200)  # of each way
KILLS_BEFORE_UNDOING = 10
WAYS = ("move", "hardlink", "symlink", "delete-to-trash", "move to another disk")


@pytest.mark.parametrize("way", WAYS)
def test_no_file_is_lost(way: str, tmp_path: Path, forks: Forks, ledger: Ledger) -> None:
    started, failures, rng = time.monotonic(), list[str](), random.Random(way)
    where = tmp_path / "work"
    (tmp_path / "tmp").mkdir()
    where.mkdir()
    with small_disk(where / "disk") as disk:
        write_album(where)
        before, held, kills = read_tree(where / "album"), pictures_below(where), 0
        to = ("--to", disk / "moved") if way.endswith("disk") else ()

        def match(*arguments: object, last_change: int | None = None) -> Done:
            environment = scratch_environment(where)
            return forks.run(where, "match", *arguments, patches=(), environment=environment, last_change=last_change)

        changes = 100
        while kills < KILLS:
            command = ("--apply", way.split()[0], *to) if rng.random() < 0.6 else ("--undo",)
            done = match(*command, last_change=rng.randrange(changes))
            changes = done.changes + 1 if done.code == 0 and done.changes > 20 else changes
            kills += done.code == -signal.SIGKILL
            if lost := held - pictures_below(where):
                failures.append(f"kill {kills}: {len(lost)} files are lost: {done.said[-1500:]}")
            if rng.randrange(KILLS_BEFORE_UNDOING) == 0:
                undone = match("--undo")
                if undone.code or read_tree(where / "album") != before:
                    failures.append(f"kill {kills}: not all was undone: {undone.said[-1500:]}")
    ledger(f"kills: {way}, and undone", kills, failures, time.monotonic() - started)
