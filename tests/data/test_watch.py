"""What a process leaves behind that a signal ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from image_copies.data.watch import speak_if_killed

ENDS = {
    "aborted": ("os.abort()", -6),
    "killed": ("os.kill(os.getpid(), 9)", -9),
    "killed beside a loader's worker": ("os.fork() and os.kill(os.getpid(), 9); time.sleep(1.5)", -9),
    "ended": ("pass", 0),
    "with an error of its own": ("raise ValueError('a bug')", 1),
    "by itself": ("sys.exit(2)", 2),
}


@pytest.mark.parametrize("interpreter", ["", "/nonexistent/python"])
def test_the_work_goes_on_where_no_process_can_be_started(interpreter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)
    done = False
    with speak_if_killed("it was killed"):
        done = True
    assert done


@pytest.mark.skipif(os.name != "posix", reason="processes are ended by signals")
@pytest.mark.parametrize("end", ENDS)
def test_a_process_that_a_signal_ends_leaves_a_message(end: str) -> None:
    """As NCCL's watchdog aborts it, from a thread in which no Python runs."""
    how, code = ENDS[end]
    program = f"""
import os, sys, time
from image_copies.data.watch import speak_if_killed
with speak_if_killed('it was killed'):
    {how}
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code and ("error: it was killed\n" in done.stderr) == (code < 0)
    assert ("a bug" in done.stderr) == ("bug" in how)
