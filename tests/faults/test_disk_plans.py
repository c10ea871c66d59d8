"""Plans carried out and taken back, and an index, on a disk that is full at any write: nothing is lost or called damaged."""

import hashlib
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.matching.files.acting import Outcome, apply_plan, undo
from image_copies.matching.files.journal import Journal, Way
from image_copies.matching.files.plan import PlanRow
from image_copies.matching.index.store import Content, add_files, open_known_store, open_store, remove_files, stored_files
from tests.faults.disk import PAGE, resize, small_disk
from tests.faults.harness import Ledger

pytestmark = pytest.mark.faults
PAIRS = 6


@pytest.mark.parametrize("way", get_args(Way))
@pytest.mark.parametrize("elsewhere", [False, True], ids=["files there", "files elsewhere"])
def test_a_plan(way: Way, elsewhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: Ledger) -> None:
    started, frees, failures = time.monotonic(), [pages * PAGE for pages in range(12)], list[str]()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share" if elsewhere else tmp_path / "disk" / "share"))
    for free in frees:
        with small_disk(tmp_path / "disk") as disk:
            folder = tmp_path / f"files-{free}" if elsewhere else disk / "files"
            failures += [f"{free} bytes free: {problem}" for problem in there_and_back(way, folder, disk, free)]
    where = "on another disk" if elsewhere else "there"
    ledger(f"full disk: {way}, files {where}", 2 * len(frees), failures, time.monotonic() - started)


def there_and_back(way: Way, folder: Path, disk: Path, free: int) -> list[str]:
    """Carry a plan out and undo it, each with too little room first; what went wrong."""
    rows, contents = draw_plan(folder)

    def carry_out(journal: Journal) -> Outcome:
        return apply_plan(rows, way, journal, disk / "moved")

    wrong = []
    for act in (partial(act_on, disk, carry_out), partial(act_on, disk, undo)):
        resize(disk, free)
        wrong.append(message_of(act))
        resize(disk, None)
        if left := act().left:
            wrong.append(f"left alone: {left}")
        held = {path.read_bytes() for path in disk.parent.rglob("*.jpg") if not path.is_symlink()}
        if not held >= set(contents.values()):
            wrong.append("a picture is lost")
    if {path.name: path.read_bytes() for path in folder.iterdir() if not path.is_symlink()} != contents:
        wrong.append("not all was taken back")
    return [problem for problem in wrong if problem]


def test_an_index(tmp_path: Path, ledger: Ledger) -> None:
    started, failures = time.monotonic(), []
    frees = [pages * PAGE for pages in range(0, 44, 2)]
    files = {Path(f"/pictures/{number}.jpg"): bytes([number]) * 32 for number in range(200)}
    contents = [Content(digest, np.full(8, number, np.float32)) for number, digest in enumerate(files.values())]
    for free in frees:
        with small_disk(tmp_path / "disk") as disk:

            def change(folder: Path = disk / "index") -> None:
                with open_store(folder, "extractor", 8) as store:
                    add_files(store, files, contents)
                    remove_files(store, list(files)[:50])

            resize(disk, free)
            told = message_of(change)
            failures += [f"{free} bytes free: {told}"] if told else []
            resize(disk, None)
            change()
            with open_store(disk / "index", "extractor", 8) as store:
                if stored_files(store) != dict(list(files.items())[50:]):
                    failures.append(f"{free} bytes free: other files than without a full disk")
            resize(disk, 0)
            told = message_of(partial(look_into, disk / "index"))
            failures += [f"a look into it: {told}"] if told else []
    ledger(
        "full disk: an index made, changed and looked into",
        2 * len(frees),
        failures,
        time.monotonic() - started,
    )


def look_into(folder: Path) -> None:
    """Open an index for what needs no network."""
    with open_known_store(folder) as store:
        stored_files(store)


def draw_plan(folder: Path) -> tuple[list[PlanRow], dict[str, bytes]]:
    """Pairs of files with the same bytes, of which one goes; and what all files hold."""
    folder.mkdir()
    rows = []
    for number in range(PAIRS):
        kept, copy, content = folder / f"kept{number}.jpg", folder / f"copy{number}.jpg", os.urandom(3000)
        for path in (kept, copy):
            path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        rows.append(PlanRow(number, "keep", kept, kept, "", None, None, False, digest))
        rows.append(PlanRow(number, "remove", copy, kept, "", 0.0, None, False, digest))
    return rows, {path.name: path.read_bytes() for path in folder.iterdir()}


def act_on(disk: Path, act: Callable[[Journal], Outcome]) -> Outcome:
    """Do something with the disk's journal, as a command does."""
    journal = Journal(disk / "journal.jsonl")
    try:
        return act(journal)
    finally:
        journal.close()


def message_of(act: Callable[[], object]) -> str:
    """What is wrong with the message of what had too little room; empty where it had enough, or the message is good."""
    try:
        act()
    except UserError as error:
        said = str(error)
        good = all(part in said for part in ("the disk is full", "ake room", "/disk/")) and "damaged" not in said
        return "" if good else said
    return ""
