"""The references of an index in one SQLite database: files, and the hashes and vectors of their contents.

SQLite's transactions survive a kill at any moment.
"""

import hashlib
import json
import os
import shutil
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.data.files import digest_file, is_file
from image_copies.data.remote import as_path, is_remote
from image_copies.data.sources.archives import read_bytes

from ..threshold import Floats

DATABASE = "references.sqlite"
MIN_FREE_BYTES = 2**18  # with less free space, an I/O error of SQLite is reported as a full disk
LOCK_TIMEOUT_SECONDS = 60.0  # how long to wait for another process that is writing
ROWS_PER_READ = 4096  # vectors read from the database at once
SCHEMA = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE contents "
    "(content INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, vector BLOB, checksum INTEGER)",
    "CREATE INDEX readable ON contents (content) WHERE vector IS NOT NULL",
    "CREATE TABLE files (path BLOB PRIMARY KEY, content INTEGER NOT NULL REFERENCES contents (content)) WITHOUT ROWID",
    "CREATE INDEX files_of_content ON files (content)",
    *(
        f"CREATE TRIGGER forget_after_{event.split()[0].lower()} AFTER {event} ON files "
        "WHEN NOT EXISTS (SELECT 1 FROM files WHERE content = old.content) "
        "BEGIN DELETE FROM contents WHERE content = old.content; END"
        for event in ("DELETE", "UPDATE")
    ),
    "CREATE TABLE decisions (first BLOB NOT NULL, second BLOB NOT NULL, copy INTEGER NOT NULL, "
    "decided TEXT NOT NULL, first_name BLOB NOT NULL, second_name BLOB NOT NULL, PRIMARY KEY (first, second))",
)


@dataclass(frozen=True)
class Store:
    """An open index folder, its database and the number d of dimensions of its vectors."""

    folder: Path
    database: sqlite3.Connection
    dimensions: int


@contextmanager
def open_store(
    folder: Path, identity: str | None = None, dimensions: int = 0, replace: bool = False, new: bool = True
) -> Iterator[Store]:
    """Open an index, or make a new one, unless it must be there; `replace` empties one that was made with another extractor.

    Statements are committed at once, apart from transactions.

    Args:
        folder: The index.
        identity: A digest of everything that determines the vectors (`Extractor.identity`); None to open an existing index
            whatever its vectors come from, for work that needs no network.
        dimensions: Those of the vectors of this extractor.
        replace: Whether to forget what another extractor made.
        new: Whether a missing index is made.

    Raises:
        UserError: The index cannot be used, is missing, or was made with another extractor; or the disk is full.
    """
    path, new = folder / DATABASE, new and identity is not None
    if not new:
        require_index(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UserError(f"{folder} is a file. An index is a folder: name another one.") from error
    try:
        with closing(
            # other threads read verdicts
            sqlite3.connect(
                path, timeout=LOCK_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
        ) as database:
            database.create_function("checksum", 1, compute_checksum, deterministic=True)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA foreign_keys = ON")
            with write_together(database):  # of two processes that find no index, one makes it
                _prepare(database, path, identity, dimensions, replace, new)
            yield Store(folder, database, int(_read_about(database, "dimensions")))
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # a message may quote a damaged file
        raise _describe_error(path, error) from error


def require_index(folder: Path) -> None:
    """Check that a folder holds an index.

    Raises:
        UserError: It holds none.
    """
    if not (folder / DATABASE).exists():
        raise UserError(
            f"{folder} holds no index. Make it with: {name_command('match')} add DIR --index {folder}"
        )


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


def compute_checksum(vector: bytes | None) -> int | None:
    """Return the CRC-32 of a vector's bytes, which finds flipped bytes, not forgeries."""
    return None if vector is None else zlib.crc32(vector)


def _prepare(
    database: sqlite3.Connection,
    path: Path,
    identity: str | None,
    dimensions: int,
    replace: bool,
    new: bool,
) -> None:
    """Make the tables where there are none, and check that the vectors are those of the extractor."""
    about = {"describer": identity, "dimensions": str(dimensions)}
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
        if not new:
            raise UserError(f"{path} is empty. Remove it and add the images again (`match add`).")
        for statement in SCHEMA:
            database.execute(statement)
        database.executemany("INSERT INTO about VALUES (?, ?)", (about | {"changes": "0"}).items())
    if identity in (None, _read_about(database, "describer")):
        return
    if not replace:
        raise UserError(
            f"{path.parent} was made with another run or checkpoint; its vectors cannot be compared with this one's. "
            "Name the run it was made with, or another folder with --index."
        )
    database.execute("DELETE FROM files")
    database.execute("DELETE FROM contents")
    database.executemany(
        "UPDATE about SET value = ? WHERE key = ?", [(value, key) for key, value in about.items()]
    )
    database.execute("UPDATE about SET value = value + 1 WHERE key = 'changes'")


def _read_about(database: sqlite3.Connection, key: str) -> str:
    """Return what the index says about itself: "describer", "dimensions" or "changes".

    Raises:
        sqlite3.DatabaseError: It does not say it, so that it is damaged.
    """
    row = database.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
    if row is None or (key != "describer" and not str(row[0]).isdecimal()):
        raise sqlite3.DatabaseError(f"its {key} is {row and row[0]!r}")
    return str(row[0])


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
        remedy = f"another process has been writing for {LOCK_TIMEOUT_SECONDS:g} s. Try again."
    elif code in (
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PERM,
    ):
        remedy = "the folder must be writable and the disk must have room."
    else:
        remedy = f"it is damaged, or of another version: remove {path.parent} and add the images again."
    return UserError(f"{path} cannot be used ({error}): {remedy}")


def digest_of(path: Path) -> bytes:
    """Return the SHA-256 of the bytes of a file or of an archive's member, 32 bytes.

    Raises:
        UserError: when it cannot be read.
    """
    return read_content(path, 0)[0]


def read_content(path: Path, most: int) -> tuple[bytes, bytes | None]:
    """Return the SHA-256 of the bytes of a file or of an archive's member, and the bytes; None for more than `most` of a file.

    Raises:
        UserError: when it cannot be read.
    """
    try:
        if not is_remote(path) and is_file(path) and path.stat().st_size > most:
            return bytes.fromhex(digest_file(path)), None
        content = read_bytes(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}).") from error
    return hashlib.sha256(content).digest(), content


def add_files(store: Store, files: Mapping[Path, bytes], contents: Mapping[bytes, Floats | None]) -> None:
    """Add new contents, and record which content each file has by its digest, all or nothing.

    A file whose content has changed is moved to the new one; contents that no file has any more are forgotten. The vector of a
    picture that cannot be read is None.

    Raises:
        ValueError: A vector is not finite.
    """
    with _change_files(store):
        _add_contents(store, contents)
        store.database.executemany(
            "INSERT INTO files SELECT ?, content FROM contents WHERE digest = ? "
            "ON CONFLICT (path) DO UPDATE SET content = excluded.content",
            [(os.fsencode(path), digest) for path, digest in files.items()],
        )


def remove_files(store: Store, paths: Iterable[Path]) -> dict[Path, int]:
    """Remove files, and everything below a folder that is named; returns how many files went for each path."""
    with _change_files(store):
        removed = {}
        for path in paths:
            find = "DELETE FROM files WHERE path = ? OR (path > ? AND path < ?)"
            done = store.database.execute(find, (os.fsencode(path), *names_below(path)))
            removed[path] = done.rowcount
    return removed


def names_below(folder: PurePath) -> tuple[bytes, bytes]:
    """Return two names between which, in the order of bytes, lies everything below a folder and nothing else."""
    below = os.fsencode(folder / "x")[:-1]  # with the separator
    return below, below[:-1] + bytes([below[-1] + 1])


def stored_files(store: Store) -> dict[Path, bytes]:
    """Return every file with the SHA-256 of its content, ordered by path."""
    find = "SELECT path, digest FROM files JOIN contents USING (content) ORDER BY path"
    return {_to_path(path): digest for path, digest in store.database.execute(find)}


def unreadable_files(store: Store) -> list[Path]:
    """Return the files of contents that cannot be read as pictures."""
    find = "SELECT path FROM files JOIN contents USING (content) WHERE vector IS NULL ORDER BY path"
    return [_to_path(path) for (path,) in store.database.execute(find)]


def digests_of_files(store: Store, paths: Iterable[Path]) -> dict[Path, bytes]:
    """Return the digests of those of the files that the index holds."""
    find = "SELECT digest FROM files JOIN contents USING (content) WHERE path = ?"
    rows = {path: store.database.execute(find, (os.fsencode(path),)).fetchone() for path in paths}
    return {path: bytes(row[0]) for path, row in rows.items() if row is not None}


def files_of(store: Store, digest: bytes) -> list[Path]:
    """Return the files that have the content with this digest, ordered by path; none of one that has been removed."""
    find = "SELECT path FROM contents JOIN files USING (content) WHERE digest = ? ORDER BY path"
    return [_to_path(path) for (path,) in store.database.execute(find, (digest,))]


def vectors_by_digest(store: Store, digests: Iterable[bytes]) -> dict[bytes, Floats | None]:
    """Return the vectors float32 [d] of those contents that the index knows as references or queries; None for an unreadable one.

    Raises:
        UserError: when a vector is damaged.
    """
    find = "SELECT vector, checksum FROM contents WHERE digest = ?"
    found: dict[bytes, Floats | None] = {}
    for digest in digests:
        row = store.database.execute(find, (digest,)).fetchone()
        if row is not None:
            vector, checksum = row
            if vector is not None and _is_damaged(store, vector, checksum):
                raise _damaged_vector_error(store)
            found[digest] = None if vector is None else np.frombuffer(vector, np.float32)
    return found


def keep_queries(store: Store, contents: Mapping[bytes, Floats | None]) -> None:
    """Remember the vectors of queries by their digests; they are not embedded again, and never found as references."""
    with write_together(store.database):
        _add_contents(store, contents)


def _add_contents(store: Store, contents: Mapping[bytes, Floats | None]) -> None:
    for digest, vector in contents.items():
        if vector is not None and not np.isfinite(vector).all():
            raise ValueError("a vector that is not finite would stop every search")
        packed = None if vector is None else np.ascontiguousarray(vector, np.float32).tobytes()
        store.database.execute(
            "INSERT OR IGNORE INTO contents (digest, vector, checksum) VALUES (?1, ?2, checksum(?2))",
            (digest, packed),
        )


def forget_queries(store: Store, kept: Iterable[bytes]) -> None:
    """Forget the vectors of all queries but those with the digests `kept`."""
    names = json.dumps([digest.hex().upper() for digest in kept])
    forget = (
        "DELETE FROM contents WHERE content NOT IN (SELECT content FROM files) "
        "AND hex(digest) NOT IN (SELECT value FROM json_each(?))"
    )
    store.database.execute(forget, (names,))


def stored_vectors(store: Store) -> Iterator[tuple[list[bytes], Floats]]:
    """Yield blocks of the digests [m] and vectors [m, d] of all readable contents of files, in the order of their addition.

    Raises:
        UserError: A vector is damaged; the message names its first file.
    """
    find = (
        "SELECT digest, vector, checksum FROM contents WHERE vector IS NOT NULL "
        "AND content IN (SELECT content FROM files) ORDER BY content"
    )
    rows = store.database.execute(find)
    while block := rows.fetchmany(ROWS_PER_READ):
        digests, vectors, _ = zip(*block, strict=True)
        for digest, vector, checksum in block:
            if _is_damaged(store, vector, checksum):
                raise _damaged_vector_error(store, digest)
        yield list(digests), np.frombuffer(b"".join(vectors), np.float32).reshape(-1, store.dimensions)


def check_vectors(store: Store) -> int:
    """Read the whole database and return the number of its vectors.

    Raises:
        UserError: A vector or a page of the database is damaged.
    """
    count = sum(len(digests) for digests, _ in stored_vectors(store))
    find = "SELECT count(*) FROM contents WHERE checksum IS NOT NULL AND checksum IS NOT checksum(vector)"
    if store.database.execute(find).fetchone()[0]:
        raise _damaged_vector_error(store)
    (found,) = store.database.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    return count


def count_changes(store: Store) -> int:
    """Return how many times the index was changed; the number identifies its state."""
    return int(_read_about(store.database, "changes"))


def _is_damaged(store: Store, vector: bytes, checksum: int | None) -> bool:
    return len(vector) != 4 * store.dimensions or checksum not in (None, compute_checksum(vector))


def _damaged_vector_error(store: Store, digest: bytes = b"") -> UserError:
    """Return the error for a damaged vector: of a content whose file can be named, or of another picture."""
    path = store.folder / DATABASE
    if files := files_of(store, digest):
        return UserError(
            f"{path} holds a damaged vector, of {files[0]}. Remove it (`match remove`) and add it again."
        )
    return UserError(f"{path} holds a damaged vector: remove {store.folder}, add the images again.")


def _to_path(name: bytes) -> Path:
    return as_path(os.fsdecode(name))


@contextmanager
def _change_files(store: Store) -> Iterator[None]:
    """Change files and contents in one transaction, and count the change."""
    with write_together(store.database):
        yield
        store.database.execute("UPDATE about SET value = value + 1 WHERE key = 'changes'")
