"""The user's decisions about pairs of pictures, stored by the hashes of their contents, so that files may be renamed."""

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from image_copies.data.remote import as_path
from image_copies.matching.index.database import DATABASE, write_together
from image_copies.matching.index.store import Store, open_known_store

Pair = frozenset[bytes]
Word = Literal["copy", "not-a-copy", "undecided"]


@dataclass(frozen=True)
class Decision:
    """A decision about one pair of contents."""

    first: bytes  # SHA-256 of one picture's bytes
    second: bytes  # of the other's
    copy: bool  # whether they are copies of each other
    decided: str  # local date and time, `YYYY-MM-DD HH:MM:SS`
    names: tuple[Path, Path]  # paths of the two files at that time

    @property
    def pair(self) -> Pair:
        """The two digests, unordered."""
        return frozenset((self.first, self.second))


def decide(store: Store, pictures: tuple[Path, Path], digests: tuple[bytes, bytes], copy: bool) -> None:
    """Store a decision about the contents of two files, replacing an earlier one."""
    (first, one), (second, other) = sorted(zip(digests, map(os.fsencode, pictures), strict=True))
    now = datetime.now().isoformat(sep=" ", timespec="seconds")
    store.database.execute(
        "INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, ?, ?, ?)",
        (first, second, int(copy), now, one, other),
    )


def read_decisions(store: Store) -> list[Decision]:
    """Return all decisions, oldest first.

    Raises:
        sqlite3.DatabaseError: A decision is damaged; `open_store` turns it into a message.
    """
    rows = store.database.execute(
        "SELECT first, second, copy, decided, first_name, second_name FROM decisions ORDER BY decided, rowid"
    )
    decisions = []
    for first, second, copy, decided, one, other in rows:
        if not all(isinstance(value, bytes) for value in (first, second, one, other)) or not isinstance(
            decided, str
        ):
            raise sqlite3.DatabaseError("one of its decisions lacks a name, a digest or its time")
        decisions.append(
            Decision(
                first, second, bool(copy), decided, (as_path(os.fsdecode(one)), as_path(os.fsdecode(other)))
            )
        )
    return decisions


def take_back(store: Store, digests: tuple[bytes, bytes]) -> bool:
    """Delete the decision about a pair, in any order, and return whether there was one."""
    done = store.database.execute(
        "DELETE FROM decisions WHERE first = ? AND second = ?", tuple(sorted(digests))
    )
    return done.rowcount > 0


@dataclass(frozen=True)
class Decisions:
    """The decisions of an index, which other processes may change: it is opened each time."""

    index: Path

    def read(self) -> list[Decision]:
        """Return every decision, the oldest first.

        Raises:
            UserError: The index cannot be used.
        """
        if not (self.index / DATABASE).is_file():
            return []
        with open_known_store(self.index) as store:
            return read_decisions(store)

    def words(self) -> dict[Pair, Word]:
        """Return what is decided, by the pair of SHA-256.

        Raises:
            UserError: The index cannot be used.
        """
        return {decision.pair: word_of(decision) for decision in self.read()}

    def record(self, files: tuple[Path, Path], digests: tuple[bytes, bytes], word: Word) -> Word:
        """Keep or forget a decision about two files with these SHA-256, and return the earlier one.

        Raises:
            UserError: The index cannot be used.
        """
        before = self.words().get(frozenset(digests), "undecided")
        with open_known_store(self.index) as store:
            if word == "undecided":
                take_back(store, digests)
            else:
                decide(store, files, digests, word == "copy")
        return before

    def record_copies(self, pairs: Sequence[tuple[tuple[Path, Path], tuple[bytes, bytes]]]) -> None:
        """Keep of many pairs of files, with their SHA-256, that they are copies: of all or of none.

        Raises:
            UserError: The index cannot be used.
        """
        with open_known_store(self.index) as store, write_together(store.database):
            for files, digests in pairs:
                decide(store, files, digests, True)

    def forget(self, pairs: Sequence[tuple[bytes, bytes]]) -> bool:
        """Forget what is decided about pairs of contents; return whether anything was.

        Raises:
            UserError: The index cannot be used.
        """
        with open_known_store(self.index) as store, write_together(store.database):
            return sum(take_back(store, digests) for digests in pairs) > 0


def word_of(decision: Decision) -> Word:
    """Return a decision as the page words it."""
    return "copy" if decision.copy else "not-a-copy"
