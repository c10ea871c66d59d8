"""Locks that let one process at a time work in a folder, on every operating system.

They are SQLite locks: they end with the process that holds them, its workers do not inherit them, and other processes can still
read who the holder is.
"""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from .errors import UserError
from .files import HOST, disk_full, is_disk_full
from .process import is_running

SESSION_VARIABLE = (
    # environment variable: process id of a script that holds its folder between the steps it calls
    "COPY_DETECTION_SESSION"
)
LOCK_NAME = ".in-use"
_HANDOVER_SECONDS = 1.0  # the holder releases the lock for an instant after writing its name


@dataclass(frozen=True)
class _Holder:
    """The process that works in a folder, or the script that called it (`SESSION_VARIABLE`), with its machine and since when.

    Its start time, in clock ticks since boot, distinguishes processes that reuse an id; "" if unknown.
    """

    host: str
    session: int
    started: str
    doing: str
    since: str

    def __str__(self) -> str:
        return f"{self.doing}, process {self.session} on {self.host}, since {self.since}"

    def is_active(self) -> bool:
        """Whether this is another session of the same machine that is still running."""
        return (
            self.host == HOST
            and self.session != _read_session()
            and is_running(self.session)
            and self.started == _read_start(self.session)
        )


@contextmanager
def hold_lock_file(path: Path, busy: str, wait: float = 0.0) -> Iterator[None]:
    """Hold a lock file while the block runs, waiting `wait` seconds for it; it is created if missing, and never removed.

    Raises:
        UserError: when another process holds the lock, with the message `busy`; or the file cannot be written.
    """
    with closing(_connect(path, wait)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.DatabaseError as error:
            if _read_code(error) == sqlite3.SQLITE_BUSY:
                raise UserError(busy) from error
            _go_on_without(path, error)
        yield


@contextmanager
def hold_folder(folder: Path, doing: str, lock: Path | None = None) -> Iterator[None]:
    """Hold a folder while the block runs; the message to other processes says what it does.

    The folder is created if missing, unless the lock file has another place, as it needs if the block replaces the folder itself.

    Raises:
        UserError: when another process works in the folder (the message names it), or the folder cannot be written.
    """
    with closing(_connect(lock or folder / LOCK_NAME, _HANDOVER_SECONDS)) as database:
        _take(database, folder, doing)
        try:
            yield
        finally:
            if SESSION_VARIABLE not in os.environ:
                _leave(database)


def _connect(path: Path, wait: float) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return sqlite3.connect(path, timeout=wait, isolation_level=None)
    except (FileExistsError, NotADirectoryError) as error:
        raise UserError(f"{path.parent} is a file. Name a folder.") from error
    except (OSError, sqlite3.OperationalError) as error:
        if is_disk_full(error):
            raise disk_full(path) from error
        raise UserError(f"{path.parent} cannot be written ({error}).") from error


def _read_code(error: sqlite3.DatabaseError) -> int:
    """Return SQLite's primary error code, the lowest byte of the extended one."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _go_on_without(place: Path, error: sqlite3.DatabaseError) -> None:
    """Warn if the file system does not support locks.

    Raises:
        UserError: when the error is another one.
    """
    if _read_code(error) == sqlite3.SQLITE_FULL:
        raise disk_full(place) from error
    if _read_code(error) == sqlite3.SQLITE_READONLY:
        raise UserError(
            f"{place} cannot be written: it or its lock file {LOCK_NAME} is read-only. Make it writable."
        ) from error
    if _read_code(error) != sqlite3.SQLITE_IOERR:
        raise UserError(
            f"{place} cannot be locked ({error}). Make it writable; if its lock file {LOCK_NAME} is damaged, delete that."
        ) from error
    print(
        f"warning: the file system of {place} has no locks; make sure that no other process works there",
        file=sys.stderr,
    )


def _describe_self(doing: str) -> _Holder:
    now = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return _Holder(HOST, _read_session(), _read_start(_read_session()), doing, now)


def _take(database: sqlite3.Connection, folder: Path, doing: str) -> None:
    own = _describe_self(doing)
    try:
        database.execute("BEGIN IMMEDIATE")
        other = _read_holder(database)
        if other is not None and other.is_active():
            raise _make_refusal(folder, other)
        database.execute(
            "CREATE TABLE IF NOT EXISTS holder (host TEXT, session INTEGER, started TEXT, doing TEXT, since TEXT)"
        )
        database.execute("DELETE FROM holder")
        database.execute("INSERT INTO holder VALUES (?, ?, ?, ?, ?)", tuple(vars(own).values()))
        database.execute("COMMIT")
        database.execute("BEGIN IMMEDIATE")
    except sqlite3.DatabaseError as error:
        if _read_code(error) == sqlite3.SQLITE_BUSY:
            raise _make_refusal(folder, _read_holder(database)) from error
        _go_on_without(folder, error)


def _leave(database: sqlite3.Connection) -> None:
    """Remove the holder's name; after a kill the id of a dead process has the same effect."""
    with suppress(sqlite3.DatabaseError):
        database.execute("DELETE FROM holder")
        if database.in_transaction:
            database.execute("COMMIT")


def _read_holder(database: sqlite3.Connection) -> _Holder | None:
    with suppress(sqlite3.DatabaseError):  # no holder yet, or it is being written
        row = database.execute("SELECT host, session, started, doing, since FROM holder").fetchone()
        return None if row is None else _Holder(*row)
    return None


def _make_refusal(folder: Path, holder: _Holder | None) -> UserError:
    return UserError(
        f"{folder} is in use ({holder or 'by another process'}). Wait for it, stop it, or name another folder."
    )


def _read_session() -> int:
    named = os.environ.get(SESSION_VARIABLE, "")
    return int(named) if named.isdecimal() else os.getpid()


def _read_start(process: int) -> str:
    try:
        return (
            Path(f"/proc/{process}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()[19]
        )
    except (OSError, IndexError):
        return ""  # no such process, or not Linux
