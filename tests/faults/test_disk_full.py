"""A disk that is full at any write: one message, exit code 2, nothing lost; where there is room again the command goes on."""

import random
import shutil
import time
from pathlib import Path

import pytest

from tests.faults.disk import PAGE, resize, small_disk, used
from tests.faults.harness import Forks, Job, Ledger, State, differences, folder_state, share_of
from tests.faults.workshop import JOBS, Workshop

pytestmark = pytest.mark.faults
CASES = 2 + share_of(4)
UNFINISHED = ("state", "curve.csv", "tensorboard", ".sqlite", "journal.jsonl", "queries/", "models/")  # may grow before the end


def empty(disk: Path) -> None:
    resize(disk, None)
    for path in disk.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def put_back(job: Job, disk: Path) -> None:
    """The folder as it was before, on a disk with room."""
    empty(disk)
    shutil.copytree(job.before, disk, symlinks=True, dirs_exist_ok=True)


@pytest.mark.parametrize("name", JOBS)
def test_a_full_disk_costs_nothing(name: str, workshop: Workshop, forks: Forks, ledger: Ledger) -> None:
    started, job = time.monotonic(), workshop.job(name)  # made first, on a larger disk
    with small_disk(job.where) as disk:
        full, failures = fill(disk, job, forks, random.Random(name))
    ledger(f"full disk: {name}, full in {full}", CASES, failures, time.monotonic() - started)


def fill(disk: Path, job: Job, forks: Forks, rng: random.Random) -> tuple[int, list[str]]:
    """Run the job with too little room, then with enough; how often it was too little, and what was wrong."""
    for _ in range(2 if job.name == "export_onnx" else 1):  # the first export is kept
        put_back(job, disk)
        before, at_first = folder_state(disk), used(disk)
        job.finish(forks)
    expected, grown = folder_state(disk), max(PAGE, used(disk) - at_first)
    failures, full = [], 0
    for free in [0, PAGE, *sorted(rng.randrange(0, grown, 1) for _ in range(CASES - 2))]:
        put_back(job, disk)
        resize(disk, free)
        done = job.run(forks)
        resize(disk, None)
        wrong = "" if done.code == job.code else ill_said(done.code, done.said) or lost(folder_state(disk), before, expected)
        full += done.code != job.code
        again = job.run(forks)
        wrong = wrong or (differences(folder_state(disk), expected) if again.code == job.code else again.said[-1500:])
        if wrong:
            failures.append(f"{free} bytes free: {done.code}, then {again.code}: {wrong}")
    return full, failures


def ill_said(code: int, said: str) -> str:
    """What a message about a full disk lacks; empty for a good one."""
    message = said.rpartition("error: ")[2]
    if code != 2 or "Traceback" in said or "error: " not in said:
        return f"ended with {code}: {said[-1500:]}"
    remedied = "make room" in message or "Free some space" in message
    says = "disk" in message and remedied and ("/" in message or "cannot be written" in message)
    return "" if says else f"the message names no file, or not what to do: {message}"


def lost(found: State, before: State, expected: State) -> str:
    """Files that are neither as they were nor as they are to be."""
    wrong = [
        name
        for name in before
        if found.get(name) not in (before[name], expected.get(name)) and not any(part in name for part in UNFINISHED)
    ]
    return f"lost: {wrong[:5]}" if wrong else ""
