"""Every command killed, stopped, without room, without rights or without a worker: one message, and then the same end."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.harness import Forks, Job, Ledger, State, differences, exact_state, folder_state, share_of
from tests.faults.workshop import JOBS, Workshop

pytestmark = pytest.mark.faults
MOMENTS = share_of(12)  # of kills by the clock, of each job
CHANGES = share_of(12)  # before a change of a file
SIZES = share_of(4)  # in the midst of a file
SIGNALS = share_of(4)
ROOMS = share_of(4)  # bytes left on a disk, besides none and a page
UNFINISHED = ("state", "curve.csv", "tensorboard", ".sqlite", "journal.jsonl", "queries/", "models/")  # may grow before the end
POOLS = ("make_data", "00_augment")  # here their workers are forked, which a terminal's Ctrl-C would reach: not the real ones
WITH_WORKERS = ("make_data", "00_augment", "01_train", "02_embed", "embed_folder")
PAGE = 4096
ROOMY = 256 * 2**20  # bytes of a small disk
READ_ONLY = ("cannot be written", "cannot be used: Read-only", "cannot be made (Read-only", "must be writable")


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """The folder as a disk of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOMY}", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here, which takes root: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def resize(disk: Path, free: int | None) -> None:
    """Leave so many bytes free on the disk; None for plenty."""
    size = ROOMY if free is None else max(PAGE, used(disk) + free // PAGE * PAGE)
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


def used(disk: Path) -> int:
    """Bytes that are taken."""
    state = os.statvfs(disk)
    return (state.f_blocks - state.f_bfree) * state.f_frsize


def go_on(job: Job, forks: Forks, expected: State, what: str, wrong: str = "") -> list[str]:
    """Run the job again; in words what is wrong with its end, or was before."""
    again = job.run(forks)
    wrong = wrong or (differences(folder_state(job.where), expected) if again.code == job.code else again.said[-1500:])
    return [f"{what}, then {again.code}: {wrong}"] if wrong else []


def ill_ended(code: int, expected: int, said: str, *words: str) -> str:
    """What is wrong with how a command ended; empty where it ended as it should."""
    if code != expected or "Traceback" in said or not all(word in said for word in words):
        return f"ended with {code}, not {expected}: {said[-1500:]}"
    return ""


@pytest.mark.parametrize("name", JOBS)
def test_a_killed_command_goes_on_to_the_same_end(name: str, workshop: Workshop, forks: Forks, ledger: Ledger) -> None:
    """What a kill leaves that an earlier kill of the same job left, byte by byte, is not gone on from a second time."""
    started, job, rng = time.monotonic(), workshop.job(name), random.Random(name)
    job.put_back()
    whole = job.finish(forks)
    expected = folder_state(job.where)
    cases: list[dict[str, float | int]] = [{"delay": rng.uniform(0, whole.seconds)} for _ in range(MOMENTS)]
    cases += [{"last_change": at} for at in sorted(rng.sample(range(whole.changes), min(CHANGES, whole.changes)))]
    cases += [{"largest_file": rng.randint(0, 40_000)} for _ in range(SIZES)]
    failures, seen = list[str](), list[State]()
    for number, fault in enumerate(cases):
        job.put_back()
        killed = job.run(forks, **fault)
        if number % 4 == 3 and killed.code == -signal.SIGKILL:  # killed again while it goes on
            job.run(forks, delay=rng.uniform(0, whole.seconds))
        left = exact_state(job.where)
        if left not in seen:
            seen.append(left)
            failures += go_on(job, forks, expected, f"{fault}: {killed.code}")
    ledger(f"kills: {name}, gone on from {len(seen)} different states", len(cases), failures, time.monotonic() - started)


@pytest.mark.parametrize("name", JOBS)
def test_a_signal_ends_a_command_with_a_message(name: str, workshop: Workshop, forks: Forks, ledger: Ledger) -> None:
    started, job, rng, failures = time.monotonic(), workshop.job(name), random.Random(name), list[str]()
    job.put_back()
    whole = job.finish(forks).seconds
    expected = folder_state(job.where)
    for number in range(SIGNALS):
        sent = signal.SIGINT if number % 2 else signal.SIGTERM
        job.put_back()
        together = sent == signal.SIGINT and name not in POOLS
        done = job.run(forks, delay=rng.uniform(0, 0.8) * whole, after_a_change=True, signal=sent, to_group=together)
        wrong = "" if done.code == job.code or not done.struck else ill_ended(done.code, 128 + sent, done.said)
        failures += go_on(job, forks, expected, f"{sent.name}: {done.code}", wrong)
    ledger(f"SIGINT and SIGTERM: {name}", SIGNALS, failures, time.monotonic() - started)


@pytest.mark.parametrize("name", WITH_WORKERS)
def test_a_lost_worker_is_named(name: str, workshop: Workshop, forks: Forks, ledger: Ledger) -> None:
    started, job, rng, failures, struck = time.monotonic(), workshop.job(name), random.Random(name), list[str](), 0
    job.put_back()
    job.finish(forks)
    expected = folder_state(job.where)
    for number in range(SIGNALS):
        job.put_back()
        done = job.run(forks, worker_delay=rng.uniform(0, 0.2) if number % 2 else 0.0)  # some workers live for an instant
        struck += done.code != job.code
        wrong = "" if done.code == job.code else ill_ended(done.code, 2, done.said, "a worker process", "memory")
        failures += go_on(job, forks, expected, str(done.code), wrong)
    ledger(f"a worker killed: {name}, which ended {struck} of them", SIGNALS, failures, time.monotonic() - started)
    assert struck, "no worker was there to be killed"


def fill(job: Job, disk: Path) -> None:
    """The folder as it was before, on a disk with room."""
    resize(disk, None)
    for path in disk.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.copytree(job.before, disk, symlinks=True, dirs_exist_ok=True)


@pytest.mark.parametrize("name", JOBS)
def test_a_full_disk_costs_nothing(name: str, workshop: Workshop, forks: Forks, ledger: Ledger) -> None:
    started, job, rng = time.monotonic(), workshop.job(name), random.Random(name)  # made first, on a larger disk
    failures, full = list[str](), 0
    with small_disk(job.where) as disk:
        fill(job, disk)
        before, at_first = folder_state(disk), used(disk)
        job.finish(forks)
        expected, grown = folder_state(disk), max(PAGE, used(disk) - at_first)
        for free in [0, PAGE, *sorted(rng.randrange(0, grown, 1) for _ in range(ROOMS))]:
            fill(job, disk)
            resize(disk, free)
            done = job.run(forks)
            resize(disk, None)
            wrong = ""
            if done.code != job.code:
                full += 1
                wrong = ill_said(done.code, done.said) or lost(folder_state(disk), before, expected)
            failures += go_on(job, forks, expected, f"{free} bytes free: {done.code}", wrong)
    ledger(f"full disk: {name}, full in {full}", 2 + ROOMS, failures, time.monotonic() - started)


def ill_said(code: int, said: str) -> str:
    """What a message about a full disk lacks; empty for a good one."""
    message = said.rpartition("error: ")[2]
    remedied = "make room" in message or "Free some space" in message
    says = "disk" in message and remedied and ("/" in message or "cannot be written" in message)
    return ill_ended(code, 2, said, "error: ") or ("" if says else f"the message names no file, or not what to do: {message}")


def lost(found: State, before: State, expected: State) -> str:
    """Files that are neither as they were nor as they are to be."""
    changed = [name for name in before if found.get(name) not in (before[name], expected.get(name))]
    wrong = [name for name in changed if not any(part in name for part in UNFINISHED)]
    return f"lost: {wrong[:5]}" if wrong else ""


@pytest.mark.parametrize("name", JOBS)
def test_a_read_only_folder_is_named(name: str, workshop: Workshop, forks: Forks, ledger: Ledger) -> None:
    started, job, failures = time.monotonic(), workshop.job(name), list[str]()
    with small_disk(job.where) as disk:
        fill(job, disk)
        before = folder_state(disk)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = job.run(forks)
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        message = done.said.rpartition("error: ")[2]
        if wrong := ill_ended(done.code, 2, done.said, "error: "):
            failures.append(wrong)
        elif not any(words in message for words in READ_ONLY):
            failures.append(f"the message does not say what is wrong: {message}")
        if folder_state(disk) != before:
            failures.append("something has changed")
        if (again := job.run(forks)).code != job.code:
            failures.append(f"then, in a folder that can be written, {again.code}: {again.said[-1500:]}")
    ledger(f"read-only folder: {name}", 1, failures, time.monotonic() - started)
