"""Locks on the files themselves: whoever removes a file, from wherever, knows that another one relies on it."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where the lock of all plans of a user has to do
    fcntl = None  # type: ignore[assignment]

FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)  # a pipe of that name is not waited for


@contextmanager
def hold_files(file: Path, kept: Path) -> Iterator[None]:
    """Let no other process that holds files remove `kept`, or do anything with `file`, while the block runs.

    A lock belongs to the file on the disk, whatever path leads there. What is missing, or lies where nothing can be locked, is
    not held; nor is one that both paths lead to held twice.

    Raises:
        BlockingIOError: another process holds one of them.
    """
    with ExitStack() as held:
        handles: list[int] = []
        for path, exclusive in ((file, True), (kept, False)):
            try:
                handles.append(os.open(path, FLAGS))
            except OSError:
                continue
            held.callback(os.close, handles[-1])
            if fcntl is None or (len(handles) == 2 and os.path.sameopenfile(*handles)):
                continue
            try:
                fcntl.flock(handles[-1], (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError:
                raise
            except OSError:  # a file system without such locks
                continue
        yield
