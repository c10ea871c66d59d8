"""The database of an index: its tables, opening it, and what its errors mean to a user."""

import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from image_copies.data.errors import UserError

DATABASE = "references.sqlite"
MIN_FREE_BYTES = 2**18  # with less free space, an I/O error of SQLite is reported as a full disk
LOCK_TIMEOUT_SECONDS = 60.0  # how long to wait for another process that is writing
PASSING_ERRORS = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# where the folder is read-only
UNWRITABLE_ERRORS = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
SCHEMA = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE contents "
    "(content INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, vector BLOB, checksum INTEGER)",
    "CREATE TABLE files (path BLOB PRIMARY KEY, content INTEGER NOT NULL REFERENCES contents (content)) WITHOUT ROWID",
    "CREATE INDEX files_of_content ON files (content)",
    *(
        f"CREATE TRIGGER forget_after_{event.split()[0].lower()} AFTER {event} ON files "
        "WHEN NOT EXISTS (SELECT 1 FROM files WHERE content = old.content) "
        "BEGIN DELETE FROM contents WHERE content = old.content; END"
        for event in ("DELETE", "UPDATE")
    ),
    "CREATE TABLE queries (digest BLOB PRIMARY KEY, vector BLOB, checksum INTEGER)",
    "CREATE TABLE decisions (first BLOB NOT NULL, second BLOB NOT NULL, copy INTEGER NOT NULL, "
    "decided TEXT NOT NULL, first_name BLOB NOT NULL, second_name BLOB NOT NULL, PRIMARY KEY (first, second))",
    "CREATE TABLE removed (content INTEGER PRIMARY KEY)",
    "CREATE TRIGGER note_removed AFTER DELETE ON contents WHEN old.vector IS NOT NULL "
    "BEGIN INSERT OR IGNORE INTO removed VALUES (old.content); END",
)


@contextmanager
def open_database(
    folder: Path, identity: str, dimensions: int, replace: bool, new: bool
) -> Iterator[sqlite3.Connection]:
    """Open the database of an index, or make a new one; statements are committed at once, apart from transactions.

    Arguments and errors are those of `matching.index.store.open_store`, which is how others open an index.
    """
    path = folder / DATABASE
    try:
        with closing(
            # other threads read verdicts
            sqlite3.connect(path, timeout=LOCK_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False)
        ) as database:
            database.create_function("checksum", 1, compute_checksum, deterministic=True)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA foreign_keys = ON")
            _prepare(database, folder, identity, dimensions, replace, new)
            yield database
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # a message may quote a damaged file
        raise _describe_error(path, error) from error


def read_maker(folder: Path) -> tuple[str, int]:
    """Read what made an index: the identity of the extractor and the number of dimensions.

    Raises:
        UserError: There is no index, or it cannot be used.
    """
    path = folder / DATABASE
    try:
        address = path.absolute().as_uri()  # file:///C:/… on Windows
        with closing(
            sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=LOCK_TIMEOUT_SECONDS)
        ) as database:
            return read_about(database, "describer"), int(read_about(database, "dimensions"))
    except (sqlite3.DatabaseError, ValueError) as error:
        passing = PASSING_ERRORS + (UNWRITABLE_ERRORS if path.is_file() else ())
        if (
            isinstance(error, sqlite3.DatabaseError)
            and getattr(error, "sqlite_errorcode", 0) & 0xFF in passing
        ):
            raise _describe_error(path, error) from error
        raise UserError(
            f"{path} is not an index that can be used ({error}). Make an index with `match add`."
        ) from error


@contextmanager
def write_together(database: sqlite3.Connection) -> Iterator[None]:
    """Make changes in one transaction, all or nothing."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        # on a full disk SQLite has rolled back itself, and complains when it is asked to
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def read_about(database: sqlite3.Connection, key: str) -> str:
    """Return what the index says about itself: "describer", "dimensions" or "changes".

    Raises:
        sqlite3.DatabaseError: It does not say it, so that it is damaged.
    """
    row = database.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
    if row is None:
        raise sqlite3.DatabaseError(f"it does not say its {key}")
    return str(row[0])


def compute_checksum(vector: bytes | None) -> int | None:
    """Return the CRC-32 of a vector's bytes, which finds flipped bytes, not forgeries."""
    return None if vector is None else zlib.crc32(vector)


def _prepare(
    database: sqlite3.Connection, folder: Path, identity: str, dimensions: int, replace: bool, new: bool
) -> None:
    """Make the tables where there are none, and check that the vectors are those of the extractor."""
    about = {"describer": identity, "dimensions": str(dimensions)}
    with write_together(database):  # of two processes that find no index, one makes it
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
            if not new:
                raise UserError(
                    f"{folder / DATABASE} is empty. Remove it and add the images again (`match add`)."
                )
            for statement in SCHEMA:
                database.execute(statement)
            database.executemany("INSERT INTO about VALUES (?, ?)", (about | {"changes": "0"}).items())
        if replace and read_about(database, "describer") != identity:
            database.execute("DELETE FROM files")
            database.execute("DELETE FROM queries")
            database.executemany(
                "UPDATE about SET value = ? WHERE key = ?", [(value, key) for key, value in about.items()]
            )
            database.execute("UPDATE about SET value = value + 1 WHERE key = 'changes'")
    if read_about(database, "describer") != identity:
        raise UserError(
            f"{folder} was made with another run or checkpoint; its vectors cannot be compared with this one's. "
            "Name the run it was made with, or another folder with --index."
        )


def _describe_error(path: Path, error: sqlite3.DatabaseError | UnicodeDecodeError) -> UserError:
    """Return the error with the remedy for its cause: a full disk, another process, missing rights, or a damaged file."""
    # the lowest byte is the primary code
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    lacks_room = code == sqlite3.SQLITE_IOERR and shutil.disk_usage(path.parent).free < MIN_FREE_BYTES
    if code == sqlite3.SQLITE_FULL or lacks_room:
        return UserError(
            f"{path} cannot be written: the disk is full. What it held is whole: make room and give the same command again."
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return UserError(
            f"{path} cannot be used ({error}): another process has been writing for {LOCK_TIMEOUT_SECONDS:g} s. Try again."
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM):
        return UserError(
            f"{path} cannot be used ({error}): the folder must be writable and the disk must have room."
        )
    return UserError(
        f"{path} cannot be used ({error}). It is damaged: remove {path.parent} and add the images again."
    )
