"""What was found out of pictures, and of pairs of them, by their contents: no search finds it out a second time."""

import base64
import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from image_copies.data.sources.archives import find_archive

from .store import write_together

# whoever changes what is found out, or how, raises it: all that an index keeps of another version is dropped
VERSION = 10
TABLE = (
    "CREATE TABLE IF NOT EXISTS verdicts (first BLOB NOT NULL, second BLOB NOT NULL, question BLOB NOT NULL, "
    "version INTEGER NOT NULL, answer BLOB NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (first, second, question))"
)
READ = (
    "SELECT answer FROM verdicts WHERE first = ? AND second = ? AND question = ? AND version = ? "
    "AND checksum = checksum(answer)"
)
WRITE = "INSERT OR REPLACE INTO verdicts VALUES (?1, ?2, ?3, ?4, ?5, checksum(?5))"
KNOWN = "(SELECT digest FROM contents)"
FORGET = f"DELETE FROM verdicts WHERE version != ? OR first NOT IN {KNOWN} OR second NOT IN {KNOWN}"
Files = tuple[Path, ...]  # one, or two whose order matters
Key = tuple[bytes | None, bytes | None, bytes, int]  # both digests, the digest of the question, the version
T = TypeVar("T")


class Verdicts:
    """What was found out of the files of a search, kept as JSON in its index.

    Threads may ask; the thread that has opened the index keeps what they found. What was found out of a file that has changed
    since it was watched is not kept: it need not be that of the contents that the index knows.
    """

    def __init__(self, database: sqlite3.Connection | None = None, watched: Iterable[Path] = ()) -> None:
        """Open what an index keeps of files whose changes are watched from now on; without a database nothing is kept."""
        self._database = database
        self._digests: dict[Path, bytes] = {}
        self._states = {path: _read_state(path) for path in watched}
        self._found: dict[Key, tuple[Files, bytes]] = {}
        self._lock = threading.Lock()
        if database is not None:
            database.execute(TABLE)

    def know(self, digests: Iterable[tuple[Path, bytes]]) -> None:
        """Take the SHA-256 of files; of others nothing is kept."""
        if self._database is not None:
            self._digests.update(digests)

    def ask(
        self, files: Files, question: str, given: Sequence[object], find: Callable[[], T], *types: type
    ) -> T:
        """Return what is known of one file or two, in their order, or find it out; an error of `find` is passed on.

        Args:
            files: The files.
            question: What is asked.
            given: All that the answer depends on besides the question and the contents of the files.
            find: Finds the answer.
            types: The dataclasses that it consists of; tuples, arrays, numbers and texts in them need no type.
        """
        if self._database is None:
            return find()
        key = self._make_key(files, question, given)
        known = self._read(key)
        if known is not None:
            return cast("T", _decode(known, types))
        answer = find()
        self._found[key] = files, _encode(answer)
        return answer

    def find(self, files: Files, question: str, given: Sequence[object]) -> Any:
        """Return what is known, as `ask` does of answers without dataclasses; None for nothing."""
        known = self._read(self._make_key(files, question, given))
        return None if known is None else _decode(known, ())

    def note(self, files: Files, question: str, given: Sequence[object], answer: object) -> None:
        """Take what was found out elsewhere, to be kept as what `ask` finds out is."""
        if self._database is not None:
            self._found[self._make_key(files, question, given)] = files, _encode(answer)

    def _make_key(self, files: Files, question: str, given: Sequence[object]) -> Key:
        what = hashlib.sha256(_encode([question, *given])).digest()
        return self._digests.get(files[0]), self._digests.get(files[-1]), what, VERSION

    def _read(self, key: Key) -> bytes | None:
        if self._database is None:
            return None
        with self._lock:
            row = self._database.execute(READ, key).fetchone()
        return None if row is None else bytes(row[0])

    def keep(self) -> None:
        """Keep what was found since the last call, all or nothing."""
        if self._database is None:
            return
        asked = {path for files, _ in self._found.values() for path in files}
        same = {
            path for path in asked & self._digests.keys() if self._states.get(path) == _read_state(path)
        }
        rows = [(*key, answer) for key, (files, answer) in self._found.items() if same.issuperset(files)]
        with write_together(self._database):
            self._database.executemany(WRITE, rows)
        self._found.clear()

    def forget_others(self) -> None:
        """Forget what is known of contents that the index does not know any more, and what another version found."""
        if self._database is not None:
            self._database.execute(FORGET, (VERSION,))


def _read_state(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is written or replaced, of a member of an archive that of the archive."""
    try:
        state = (find_archive(path) or path).stat()
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns


def _encode(value: object) -> bytes:
    return json.dumps(value, default=_describe).encode()


def _describe(value: Any) -> object:
    """Return a value that JSON does not know as one that it knows."""
    if isinstance(value, np.ndarray):
        return {
            "array": base64.b64encode(value.tobytes()).decode(),
            "dtype": value.dtype.str,
            "shape": value.shape,
        }
    if isinstance(value, np.generic):
        return value.item()
    return {"type": type(value).__name__} | {
        field.name: getattr(value, field.name) for field in fields(value)
    }


def _decode(answer: bytes, types: Sequence[type]) -> Any:
    """Return what was encoded; lists within dataclasses were tuples."""
    makers = {made.__name__: made for made in types}

    def make(values: dict[str, Any]) -> Any:
        if "array" in values:
            return (
                np.frombuffer(base64.b64decode(values["array"]), values["dtype"])
                .reshape(values["shape"])
                .copy()
            )
        if "type" not in values:
            return values
        maker = makers[values.pop("type")]
        return maker(
            **{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        )

    return json.loads(answer, object_hook=make)


NOTHING_KEPT = Verdicts()
