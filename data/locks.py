"""One process at a time: a lock file that goes with the process, on any system."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data.errors import UserError


@contextmanager
def only_one(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock on a file for as long as the block runs.

    Args:
        path: the lock file; made where it is missing, never removed.
        busy: the message for the process that comes second.

    Raises:
        UserError: another process holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not _lock(handle):
            raise UserError(busy)
        yield
    finally:
        os.close(handle)  # gives the lock back


if os.name == "nt":
    import msvcrt

    def _lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
