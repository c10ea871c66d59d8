"""The user's decisions about pairs of pictures, stored by the hashes of their contents, so that files may be renamed."""

import os
import sqlite3
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from image_copies.data.errors import UserError
from image_copies.data.remote import as_path

from .store import DATABASE, Store, open_store, write_together

Pair = frozenset[bytes]
Word = Literal["copy", "not-a-copy", "undecided"]
WORDS: dict[bool | None, Word] = {True: "copy", False: "not-a-copy", None: "undecided"}


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

    @property
    def word(self) -> Word:
        """The decision as the page words it."""
        return WORDS[self.copy]


def map_decisions(store: Store) -> dict[Pair, bool]:
    """Return what a person decided of pairs of contents: whether they are copies."""
    return {decision.pair: decision.copy for decision in read_decisions(store)}


def read_decisions(store: Store) -> list[Decision]:
    """Return all decisions, oldest first.

    Raises:
        sqlite3.DatabaseError: A decision is damaged; `open_store` turns it into a message.
    """
    find = "SELECT first, second, copy, decided, first_name, second_name FROM decisions ORDER BY decided, rowid"
    decisions = []
    for first, second, copy, decided, *names in store.database.execute(find):
        if [type(value) for value in (first, second, decided, *names)] != [bytes, bytes, str, bytes, bytes]:
            raise sqlite3.DatabaseError("one of its decisions lacks a name, a digest or its time")
        one, other = (as_path(os.fsdecode(name)) for name in names)
        decisions.append(Decision(first, second, bool(copy), decided, (one, other)))
    return decisions


@dataclass(frozen=True)
class Decisions:
    """The decisions of an index, which other processes may change: it is opened each time.

    All methods raise UserError where the index cannot be used.
    """

    index: Path

    def read(self) -> list[Decision]:
        """Return every decision, the oldest first."""
        if not (self.index / DATABASE).is_file():
            return []
        with open_store(self.index) as store:
            return read_decisions(store)

    def words(self) -> dict[Pair, Word]:
        """Return what is decided, by the pair of SHA-256."""
        return {decision.pair: decision.word for decision in self.read()}

    def record(self, files: tuple[Path, Path], digests: tuple[bytes, bytes], word: Word) -> Word:
        """Keep or forget a decision about two files with these SHA-256, and return the earlier one.

        Raises:
            UserError: They hold the same bytes, and are to be copies or not.
        """
        now = datetime.now().isoformat(sep=" ", timespec="seconds")
        (first, one), (second, other) = sorted(zip(digests, map(os.fsencode, files), strict=True))
        if first == second and word != "undecided":
            raise UserError("The two files hold the same bytes: there is nothing to decide.")
        with open_store(self.index) as store, write_together(store.database):
            before = map_decisions(store).get(frozenset(digests))
            forget = "DELETE FROM decisions WHERE first = ? AND second = ?"
            store.database.execute(forget, (first, second))
            if word != "undecided":
                decision = (first, second, word == "copy", now, one, other)
                store.database.execute("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?)", decision)
        return WORDS[before]
