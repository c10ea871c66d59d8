"""What a person has decided about pairs of pictures; kept by the hash of their contents, so that names may change."""

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from submissions.index.store import Store

Pair = frozenset[bytes]


@dataclass(frozen=True)
class Decision:
    """One pair of contents.

    Attributes:
        first: SHA-256 of one picture's bytes.
        second: SHA-256 of the other's.
        copy: whether they are copies of each other.
        decided: when, local time.
        names: what the two files were called when it was decided.
    """

    first: bytes
    second: bytes
    copy: bool
    decided: str
    names: tuple[Path, Path]

    @property
    def pair(self) -> Pair:
        """The two digests, in no order."""
        return frozenset((self.first, self.second))


def decide(store: Store, pictures: tuple[Path, Path], digests: tuple[bytes, bytes], copy: bool) -> None:
    """Remember a decision; one made before about the same pair is replaced."""
    (first, one), (second, other) = sorted(zip(digests, map(os.fsencode, pictures), strict=True))
    now = datetime.now().isoformat(sep=" ", timespec="seconds")
    store.database.execute(
        "INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, ?, ?, ?)", (first, second, int(copy), now, one, other)
    )


def decisions(store: Store) -> list[Decision]:
    """Return all decisions, the oldest first."""
    rows = store.database.execute(
        "SELECT first, second, copy, decided, first_name, second_name FROM decisions ORDER BY decided, rowid"
    )
    return [
        Decision(first, second, bool(copy), decided, (Path(os.fsdecode(one)), Path(os.fsdecode(other))))
        for first, second, copy, decided, one, other in rows
    ]


def take_back(store: Store, digests: tuple[bytes, bytes]) -> bool:
    """Forget the decision about a pair; False where there was none."""
    done = store.database.execute("DELETE FROM decisions WHERE first = ? AND second = ?", tuple(sorted(digests)))
    return done.rowcount > 0
