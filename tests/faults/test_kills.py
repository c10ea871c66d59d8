"""Killed at any moment: a command that is started again makes what an unbroken one makes, to the byte."""

import json
import random
import signal
import time
from collections import defaultdict
from pathlib import Path

import pytest

from tests.faults.harness import Forks, Ledger, State, differences, exact_state, folder_state, share_of
from tests.faults.workshop import JOBS, Workshop

pytestmark = pytest.mark.faults
MOMENTS = share_of(12)  # by the clock, of each job
CHANGES = share_of(12)  # before a change of a file
SIZES = share_of(4)  # in the midst of a file


@pytest.mark.parametrize("name", JOBS)
def test_a_killed_command_goes_on_to_the_same_end(name: str, workshop: Workshop, forks: Forks, ledger: Ledger) -> None:
    """What a kill leaves that an earlier kill of the same job left, byte by byte, is not gone on from a second time."""
    started, job, rng = time.monotonic(), workshop.job(name), random.Random(name)
    for _ in range(2 if name == "export_onnx" else 1):  # the first export is slower, and is kept
        job.put_back()
        whole = job.finish(forks)
    expected, losses = folder_state(job.where), read_losses(job.where)
    cases: list[dict[str, float | int]] = [{"delay": rng.uniform(0, whole.seconds)} for _ in range(MOMENTS)]
    cases += [{"last_change": at} for at in sorted(rng.sample(range(whole.changes), min(CHANGES, whole.changes)))]
    cases += [{"largest_file": rng.randint(0, 40_000)} for _ in range(SIZES)]
    failures, seen = [], list[State]()
    for number, fault in enumerate(cases):
        job.put_back()
        killed = job.run(forks, **fault)
        if number % 4 == 3 and killed.code == -signal.SIGKILL:  # killed again while it goes on
            job.run(forks, delay=rng.uniform(0, whole.seconds))
        left = exact_state(job.where)
        if left in seen:
            continue
        seen.append(left)
        again = job.run(forks)
        wrong = differences(folder_state(job.where), expected) if again.code == job.code else again.said[-1500:]
        wrong = wrong or different_losses(read_losses(job.where), losses)
        if wrong:
            failures.append(f"{fault}: {killed.code}, then {again.code}: {wrong}")
    ledger(f"kills: {name}, gone on from {len(seen)} different states", len(cases), failures, time.monotonic() - started)


def read_losses(where: Path) -> dict[tuple[str, int, int], set[str]]:
    """Every loss that was logged for a model's stage and step, with the images it is of."""
    found: dict[tuple[str, int, int], set[str]] = defaultdict(set)
    path = where / "losses.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            model, stage, step, *rest = json.loads(line)
        except ValueError:
            continue  # the line that a kill broke off
        found[model, stage, step].add(repr(rest))
    return found


def different_losses(found: dict[tuple[str, int, int], set[str]], expected: dict[tuple[str, int, int], set[str]]) -> str:
    """The first step whose losses differ, in words; of a training that was killed some steps are there twice."""
    wrong = [key for key in found | expected if found.get(key) != expected.get(key)]
    return f"{len(wrong)} steps have other losses, the first is {wrong[0]}" if wrong else ""
