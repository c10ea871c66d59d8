"""Ctrl-C, SIGTERM, and a worker that is killed for want of memory: one message, an exit code, and the work goes on."""

import random
import signal
import time

import pytest

from tests.faults.harness import Forks, Job, Ledger, differences, folder_state, share_of
from tests.faults.workshop import JOBS, Workshop

pytestmark = pytest.mark.faults
CASES = share_of(4)
POOLS = ("make_data", "00_augment")  # here their workers are forked, which a terminal's Ctrl-C would reach: not the real ones
WITH_WORKERS = ("make_data", "00_augment", "01_train", "02_embed", "embed_folder")


@pytest.mark.parametrize("name", JOBS)
def test_a_signal_ends_a_command_with_a_message(name: str, workshop: Workshop, forks: Forks, ledger: Ledger) -> None:
    started, job, rng = time.monotonic(), workshop.job(name), random.Random(name)
    whole, expected, failures = unbroken(job, forks)
    for number in range(CASES):
        sent = signal.SIGINT if number % 2 else signal.SIGTERM
        job.put_back()
        together = sent == signal.SIGINT and name not in POOLS
        done = job.run(forks, delay=rng.uniform(0, 0.8) * whole, after_a_change=True, number=sent, to_group=together)
        wrong = "" if done.code == job.code or not done.struck else ill_ended(done.code, 128 + sent, done.said)
        again = job.run(forks)
        if wrong := wrong or (differences(folder_state(job.where), expected) if again.code == job.code else again.said[-1500:]):
            failures.append(f"{sent.name}: {done.code}, then {again.code}: {wrong}")
    ledger(f"SIGINT and SIGTERM: {name}", CASES, failures, time.monotonic() - started)


@pytest.mark.parametrize("name", WITH_WORKERS)
def test_a_lost_worker_is_named(name: str, workshop: Workshop, forks: Forks, ledger: Ledger) -> None:
    started, job, rng = time.monotonic(), workshop.job(name), random.Random(name)
    _, expected, failures = unbroken(job, forks)
    struck = 0
    for number in range(CASES):
        job.put_back()
        done = job.run(forks, worker_delay=rng.uniform(0, 0.2) if number % 2 else 0.0)  # some workers live for an instant
        struck += done.code != job.code
        wrong = "" if done.code == job.code else ill_ended(done.code, 2, done.said, "a worker process", "memory")
        again = job.run(forks)
        if wrong := wrong or (differences(folder_state(job.where), expected) if again.code == job.code else again.said[-1500:]):
            failures.append(f"{done.code}, then {again.code}: {wrong}")
    ledger(f"a worker killed: {name}, which ended {struck} of them", CASES, failures, time.monotonic() - started)
    assert struck, "no worker was there to be killed"


def unbroken(job: Job, forks: Forks) -> tuple[float, dict[str, str], list[str]]:
    """Seconds of an unbroken run, what it makes, and an empty list of failures."""
    seconds = 0.0
    for _ in range(2 if job.name == "export_onnx" else 1):  # the first export is slower, and is kept
        job.put_back()
        seconds = job.finish(forks).seconds
    return seconds, folder_state(job.where), []


def ill_ended(code: int, expected: int, said: str, *words: str) -> str:
    """What is wrong with how a command ended; empty where it ended as it should."""
    if code != expected or "Traceback" in said or not all(word in said for word in words):
        return f"ended with {code}, not {expected}: {said[-1500:]}"
    return ""
