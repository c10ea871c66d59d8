"""One process at a time in a folder, on every system.

SQLite's locks end with the process that holds them, its workers do not inherit them, and others can still read who holds one.
"""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from data.errors import UserError
from data.files import HOST
from data.process import runs

SESSION = "COPY_DETECTION_SESSION"  # a script that calls several steps names itself here: it holds its folder between them, too
LOCK = ".in-use"
_HANDOVER = 1.0  # seconds; between naming itself and working the holder lets go for an instant


@dataclass(frozen=True)
class _Holder:
    """Who works in a folder.

    Attributes:
        host: The machine.
        session: The process, or the script that called it.
        started: When the session was started, as the system counts; tells processes of one number apart. Empty where unknown.
        doing: What it does.
        since: When it began, local time.
    """

    host: str
    session: int
    started: str
    doing: str
    since: str

    def __str__(self) -> str:
        return f"{self.doing}, process {self.session} on {self.host}, since {self.since}"

    def works(self) -> bool:
        """Whether it is another session of this machine that still runs."""
        return self.host == HOST and self.session != _session() and runs(self.session) and self.started == _start_of(self.session)


@contextmanager
def only_one(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock file for as long as the block runs.

    Args:
        path: The lock file; made where it is missing, never removed.
        busy: The message for the process that comes second.

    Raises:
        UserError: Another process holds the lock, or the file cannot be written.
    """
    with closing(_opened(path, 0)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.DatabaseError as error:
            if _code(error) == sqlite3.SQLITE_BUSY:
                raise UserError(busy) from error
            _go_on_without(path, error)
        yield


@contextmanager
def used_alone(folder: Path, doing: str, lock: Path | None = None, wait: float = 0.0) -> Iterator[None]:
    """Hold a folder while the block runs.

    Args:
        folder: It is made where it does not exist, unless `lock` is given.
        doing: What the block does, for the message that others get.
        lock: The lock's file, where the folder itself is replaced.
        wait: Seconds to wait for a process that works there; others that only hold the folder between two steps do not count.

    Raises:
        UserError: Another process works there; names it. Or the folder cannot be written.
    """
    path = lock or folder / LOCK
    with closing(_opened(path, max(wait, _HANDOVER))) as database:
        _take(database, folder, doing, wait)
        try:
            yield
        finally:
            if SESSION not in os.environ:
                _leave(database)


def _opened(path: Path, wait: float) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return sqlite3.connect(path, timeout=wait, isolation_level=None)
    except (FileExistsError, NotADirectoryError) as error:
        raise UserError(f"{path.parent} is a file. Name a folder.") from error
    except (OSError, sqlite3.OperationalError) as error:
        raise UserError(f"{path.parent} cannot be written ({error}).") from error


def _code(error: sqlite3.DatabaseError) -> int:
    """SQLite's primary error code, which is the lowest byte."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _go_on_without(place: Path, error: sqlite3.DatabaseError) -> None:
    """Warn where the file system knows no locks; UserError for anything else."""
    if _code(error) != sqlite3.SQLITE_IOERR:
        raise UserError(f"{place} cannot be locked ({error}): it must be writable, and its lock file whole.") from error
    print(f"{place} lies where files cannot be locked: see that no other process works there", file=sys.stderr)


def _take(database: sqlite3.Connection, folder: Path, doing: str, wait: float) -> None:
    now = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
    own = _Holder(HOST, _session(), _start_of(_session()), doing, now)
    try:
        database.execute("BEGIN IMMEDIATE")
        other = _holder(database)
        if other is not None and other.works() and not wait:
            raise _refusal(folder, other)
        database.execute("CREATE TABLE IF NOT EXISTS holder (host TEXT, session INTEGER, started TEXT, doing TEXT, since TEXT)")
        database.execute("DELETE FROM holder")
        database.execute("INSERT INTO holder VALUES (?, ?, ?, ?, ?)", tuple(vars(own).values()))
        database.execute("COMMIT")
        database.execute("BEGIN IMMEDIATE")
    except sqlite3.DatabaseError as error:
        if _code(error) == sqlite3.SQLITE_BUSY:
            raise _refusal(folder, _holder(database)) from error
        _go_on_without(folder, error)


def _leave(database: sqlite3.Connection) -> None:
    """Say that nobody works here; after a kill the number of a process that is no more says the same."""
    with suppress(sqlite3.DatabaseError):
        database.execute("DELETE FROM holder")
        if database.in_transaction:
            database.execute("COMMIT")


def _holder(database: sqlite3.Connection) -> _Holder | None:
    with suppress(sqlite3.DatabaseError):  # nobody has been here before, or it is being written
        row = database.execute("SELECT host, session, started, doing, since FROM holder").fetchone()
        return None if row is None else _Holder(*row)
    return None


def _refusal(folder: Path, holder: _Holder | None) -> UserError:
    return UserError(f"{folder} is in use ({holder or 'by another process'}). Wait for it, stop it, or name another folder.")


def _session() -> int:
    named = os.environ.get(SESSION, "")
    return int(named) if named.isdecimal() else os.getpid()


def _start_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""  # no such process, or no Linux
