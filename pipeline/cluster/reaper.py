"""Ends what is left of the cluster that a command started for itself, when the command has ended or was killed.

Ray's processes end with the command, but for its agents, which go on for more than a minute after a SIGKILL. This is a process of
its own, which needs neither Ray nor the project: `connection.py` starts it. It waits for the end of its standard input, which the
system closes when the command ends in whatever way.
"""

import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

MARK = "COPY_DETECTION_CLUSTER"  # environment variable of all processes of the cluster: its folder
KEPT = "SPT_NOENV"  # keeps Ray's processes from writing their titles over the environment that the system shows
ROUNDS = 3  # processes may start others meanwhile


def mark_processes(folder: str) -> dict[str, str]:
    """Return the variables that all processes of a cluster must inherit, for `end_cluster` to find them."""
    return {MARK: folder, KEPT: "1"}


def end_cluster(folder: str) -> None:
    """Kill all processes that bear a cluster's mark, where the system shows their environments (Linux), and remove its folder."""
    mark = f"{MARK}={folder}".encode()
    for _ in range(ROUNDS):
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if int(process.name) != os.getpid() and mark in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.read()
    end_cluster(sys.argv[1])
