"""A message for a process that a signal ends, which can leave none itself."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# Runs next to a process and prints a line if that one ends without having written a byte to it. Workers of a loader also hold the
# pipe, so that its end alone would come late: the process has ended once this one has another parent.
WATCH = """
import os, select, sys
while os.getppid() == int(sys.argv[1]):
    if select.select([0], [], [], 0.5)[0]:
        if os.read(0, 1):
            sys.exit()
        break
print("error: " + sys.argv[2], file=sys.stderr, flush=True)
"""


@contextmanager
def speak_if_killed(message: str) -> Iterator[None]:
    """Start a second process that prints a message if a signal kills this one within the block; does nothing on Windows.

    Where no process can be started, as at the limit of open files or processes, the block runs without it.
    """
    watch = _start_watch(message) if os.name == "posix" else None
    if watch is None:
        yield
        return
    with watch:
        try:
            yield
        finally:
            with suppress(OSError):
                watch.communicate(b".")


def _start_watch(message: str) -> subprocess.Popen[bytes] | None:
    command = [sys.executable, "-I", "-S", "-c", WATCH, str(os.getpid()), message]
    # its own session: neither Ctrl-C nor torchrun, which signals the groups of its processes, ends it
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    except OSError:
        return None
