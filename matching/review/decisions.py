"""What a person has decided about pairs of contents, as an index keeps it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from image_copies.matching.index.database import DATABASE
from image_copies.matching.index.decisions import Decision, Pair, decide, read_decisions, take_back
from image_copies.matching.index.store import open_known_store

Word = Literal["copy", "not-a-copy", "undecided"]


@dataclass(frozen=True)
class Decisions:
    """The decisions of an index, which other processes may change; read from it each time.

    Attributes:
        index: The folder of the index.
    """

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
        """Keep or forget a decision.

        Args:
            files: The two files, which the decision is listed with.
            digests: SHA-256 of both.
            word: The decision.

        Returns:
            The earlier decision.

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

    def forget(self, digests: tuple[bytes, bytes]) -> bool:
        """Forget what is decided about two contents; return whether anything was.

        Raises:
            UserError: The index cannot be used.
        """
        with open_known_store(self.index) as store:
            return take_back(store, digests)


def word_of(decision: Decision) -> Word:
    """Return a decision as the page words it."""
    return "copy" if decision.copy else "not-a-copy"
