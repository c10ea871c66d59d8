"""The references of an index in one SQLite database: files, and the hashes and vectors of their contents.

SQLite's transactions survive a kill at any moment. The files next to the database (`parts.py`, `codes.py`) are derived from it
and can be written again.
"""

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.data.files import digest_file
from image_copies.data.remote import as_path, is_remote
from image_copies.data.sources.archives import find_archive, read_bytes
from image_copies.matching.index.database import (
    DATABASE,
    compute_checksum,
    open_database,
    read_about,
    read_maker,
    write_together,
)

ROWS_PER_READ = 4096  # vectors read from the database at once
MAX_CONTENT_NUMBER = 2**63 - 1  # the highest that SQLite gives


@dataclass(frozen=True)
class Store:
    """An open index folder, its database and the number d of dimensions of its vectors."""

    folder: Path
    database: sqlite3.Connection
    dimensions: int


@dataclass(frozen=True)
class Content:
    """The SHA-256 of a picture's bytes, and its vector float32 [d]; None where it cannot be read."""

    digest: bytes
    vector: NDArray[np.float32] | None

    @property
    def packed(self) -> bytes | None:
        """The vector as the database has it."""
        return None if self.vector is None else np.ascontiguousarray(self.vector, np.float32).tobytes()


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
        if not is_remote(path) and path.stat().st_size > most:
            return bytes.fromhex(digest_file(path)), None
        content = read_bytes(path)
    except (NotADirectoryError, FileNotFoundError) as error:
        if find_archive(path) is None:
            raise UserError(f"{path} cannot be read ({error.strerror or error}).") from error
        content = read_bytes(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error}).") from error
    return hashlib.sha256(content).digest(), content


@contextmanager
def open_store(
    folder: Path, identity: str, dimensions: int, replace: bool = False, new: bool = True
) -> Iterator[Store]:
    """Open an index, or make a new one, unless it must be there; `replace` empties one that was made with another extractor.

    `identity` is a digest of everything that determines the vectors (`Extractor.identity`), of so many dimensions.

    Raises:
        UserError: The index cannot be used, is missing, or was made with another extractor; or the disk is full.
    """
    if not new:
        require_index(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UserError(f"{folder} is a file. An index is a folder: name another one.") from error
    with open_database(folder, identity, dimensions, replace, new) as database:
        yield Store(folder, database, dimensions)


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
def open_known_store(folder: Path) -> Iterator[Store]:
    """Open an existing index without the network that its vectors come from, for work that needs no network.

    Raises:
        UserError: There is no index, or it cannot be used.
    """
    require_index(folder)
    identity, dimensions = read_maker(folder)
    with open_store(folder, identity, dimensions, new=False) as store:
        yield store


def contents_of(store: Store, digests: Iterable[bytes]) -> dict[bytes, int]:
    """Return the numbers of those contents that the index holds, by digest."""
    find = "SELECT content FROM contents WHERE digest = ?"
    found = {digest: store.database.execute(find, (digest,)).fetchone() for digest in digests}
    return {digest: int(row[0]) for digest, row in found.items() if row}


def add_files(store: Store, files: dict[Path, bytes], contents: Iterable[Content]) -> None:
    """Add new contents, and record which content each file has, all or nothing.

    A file whose content has changed is moved to the new one; contents that no file has any more are forgotten.

    Raises:
        ValueError: A vector is not finite.
    """
    with _change_files(store):
        for content in contents:
            if content.vector is not None and not np.isfinite(content.vector).all():
                raise ValueError("a vector that is not finite would stop every search")
            store.database.execute(
                "INSERT OR IGNORE INTO contents (digest, vector, checksum) VALUES (?1, ?2, checksum(?2))",
                (content.digest, content.packed),
            )
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
    separator = str(type(folder)("a", "b"))[1].encode()
    below = os.fsencode(folder).rstrip(separator) + separator
    return below, below[:-1] + bytes([separator[0] + 1])


def stored_files(store: Store) -> dict[Path, bytes]:
    """Return every file with the SHA-256 of its content, ordered by path."""
    found = store.database.execute(
        "SELECT path, digest FROM files JOIN contents USING (content) ORDER BY path"
    )
    return {as_path(os.fsdecode(path)): digest for path, digest in found}


def digests_of_files(store: Store, paths: Iterable[Path]) -> dict[Path, bytes]:
    """Return the digests of those of the files that the index holds."""
    find = "SELECT digest FROM files JOIN contents USING (content) WHERE path = ?"
    rows = {path: store.database.execute(find, (os.fsencode(path),)).fetchone() for path in paths}
    return {path: bytes(row[0]) for path, row in rows.items() if row is not None}


def read_content_files(store: Store, content: int) -> tuple[bytes, list[Path]]:
    """Return the digest of a content, and its files, ordered by path; nothing of one that has been removed since."""
    find = "SELECT digest, path FROM contents JOIN files USING (content) WHERE content = ? ORDER BY path"
    found = store.database.execute(find, (int(content),)).fetchall()
    return bytes(found[0][0]) if found else b"", [as_path(os.fsdecode(path)) for _, path in found]


def vectors_by_digest(store: Store, digests: Iterable[bytes]) -> dict[bytes, NDArray[np.float32] | None]:
    """Return the vectors float32 [d] of those contents that the index knows as references or queries; None for an unreadable one.

    Raises:
        UserError: when a vector is damaged.
    """
    find = (
        "SELECT vector, checksum FROM contents WHERE digest = :digest "
        "UNION ALL SELECT vector, checksum FROM queries WHERE digest = :digest"
    )
    found: dict[bytes, NDArray[np.float32] | None] = {}
    for digest in digests:
        row = store.database.execute(find, {"digest": digest}).fetchone()
        if row is not None:
            vector, checksum = row
            if vector is not None and _is_damaged(store, vector, checksum):
                raise UserError(
                    f"{store.folder / DATABASE} holds a damaged vector: remove {store.folder}, add the images again."
                )
            found[digest] = None if vector is None else np.frombuffer(vector, np.float32)
    return found


def known_digests(store: Store) -> frozenset[bytes]:
    """Return the digests of all contents, of references and queries."""
    found = store.database.execute("SELECT digest FROM contents UNION SELECT digest FROM queries")
    return frozenset(digest for (digest,) in found)


def keep_queries(store: Store, contents: Iterable[Content]) -> None:
    """Remember the vectors of queries, so that they are not embedded again; they are never found as references."""
    with write_together(store.database):
        for content in contents:
            insert = "INSERT OR IGNORE INTO queries VALUES (?1, ?2, checksum(?2))"
            store.database.execute(insert, (content.digest, content.packed))


def forget_queries(store: Store, kept: Iterable[bytes]) -> None:
    """Forget the vectors of all queries but those with the digests `kept`."""
    wanted = set(kept)
    gone = [
        (digest,)
        for (digest,) in store.database.execute("SELECT digest FROM queries")
        if digest not in wanted
    ]
    store.database.executemany("DELETE FROM queries WHERE digest = ?", gone)


def unreadable_files(store: Store) -> list[Path]:
    """Return the files of contents that cannot be read as pictures."""
    found = store.database.execute(
        "SELECT path FROM files JOIN contents USING (content) WHERE vector IS NULL ORDER BY path"
    )
    return [as_path(os.fsdecode(path)) for (path,) in found]


def stored_vectors(
    store: Store, after: int = 0, until: int = MAX_CONTENT_NUMBER
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield blocks of content numbers [m] and vectors [m, d] of readable contents, in order, above `after` and up to `until`.

    Raises:
        UserError: A vector is damaged; the message names its first file.
    """
    find = (
        "SELECT content, vector, checksum FROM contents "
        "WHERE content > ? AND content <= ? AND vector IS NOT NULL ORDER BY content"
    )
    rows = store.database.execute(find, (after, until))
    while block := rows.fetchmany(ROWS_PER_READ):
        for number, vector, checksum in block:
            if _is_damaged(store, vector, checksum):
                raise _damaged_vector_error(store, number)
        numbers = np.array([number for number, _, _ in block], np.int64)
        yield (
            numbers,
            np.frombuffer(b"".join(vector for _, vector, _ in block), np.float32).reshape(
                -1, store.dimensions
            ),
        )


def check_vectors(store: Store) -> int:
    """Read the whole database and return the number of its vectors.

    Raises:
        UserError: A vector or a page of the database is damaged.
    """
    count = sum(len(numbers) for numbers, _ in stored_vectors(store))
    find = "SELECT count(*) FROM queries WHERE checksum IS NOT NULL AND checksum IS NOT checksum(vector)"
    if store.database.execute(find).fetchone()[0]:
        raise UserError(
            f"{store.folder / DATABASE} holds a damaged vector of a query: remove {store.folder}, add all again."
        )
    (found,) = store.database.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    return count


def _is_damaged(store: Store, vector: bytes, checksum: int | None) -> bool:
    return len(vector) != 4 * store.dimensions or checksum not in (None, compute_checksum(vector))


def _damaged_vector_error(store: Store, content: int) -> UserError:
    _, files = read_content_files(store, content)
    if not files:
        return UserError(
            f"{store.folder / DATABASE} holds a damaged vector of no file: remove {store.folder}, add all again."
        )
    return UserError(
        f"{store.folder / DATABASE} holds a damaged vector, of {files[0]}. Remove it (`match remove`) and add it again."
    )


def count_changes(store: Store) -> int:
    """Return how many times the index was changed; the number identifies the state that a Faiss file was made from."""
    number = read_about(store.database, "changes")
    if not number.isdecimal():
        raise sqlite3.DatabaseError(f"its number of changes is {number!r}")
    return int(number)


def removed_contents(store: Store) -> NDArray[np.int64]:
    """Return the numbers [n] of all readable contents that were removed; numbers are never given again."""
    return np.array(
        [number for (number,) in store.database.execute("SELECT content FROM removed ORDER BY content")],
        np.int64,
    )


@contextmanager
def _change_files(store: Store) -> Iterator[None]:
    """Change files and contents in one transaction, and count the change."""
    with write_together(store.database):
        yield
        store.database.execute("UPDATE about SET value = value + 1 WHERE key = 'changes'")
