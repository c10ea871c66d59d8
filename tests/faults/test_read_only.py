"""A folder that cannot be written: one message that names it, exit code 2, and nothing changed."""

import subprocess
import time
from pathlib import Path

import pytest

from tests.faults.disk import small_disk
from tests.faults.harness import Forks, Ledger, folder_state
from tests.faults.test_disk_full import put_back
from tests.faults.workshop import JOBS, Workshop

pytestmark = pytest.mark.faults

REASONS = ("cannot be written", "cannot be used: Read-only", "cannot be made (Read-only", "must be writable")


@pytest.mark.parametrize("name", JOBS)
def test_a_read_only_folder_is_named(name: str, workshop: Workshop, forks: Forks, ledger: Ledger) -> None:
    started, job, failures = time.monotonic(), workshop.job(name), []
    with small_disk(job.where) as disk:
        put_back(job, disk)
        before = folder_state(disk)
        protect(disk, True)
        done = job.run(forks)
        protect(disk, False)
        message = done.said.rpartition("error: ")[2]
        if done.code != 2 or "Traceback" in done.said or "error: " not in done.said:
            failures.append(f"ended with {done.code}: {done.said[-1500:]}")
        elif not any(words in message for words in REASONS):
            failures.append(f"the message does not say what is wrong: {message}")
        if folder_state(disk) != before:
            failures.append("something has changed")
        again = job.run(forks)
        if again.code != job.code:
            failures.append(f"then, in a folder that can be written, {again.code}: {again.said[-1500:]}")
    ledger(f"read-only folder: {name}", 1, failures, time.monotonic() - started)


def protect(disk: Path, on: bool) -> None:
    """Make a disk read-only, or writable again."""
    subprocess.run(["mount", "-o", f"remount,{'ro' if on else 'rw'}", str(disk)], check=True)
