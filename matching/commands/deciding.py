"""match.py's decisions: what a person says of a pair holds in every later search of the index."""

from pathlib import Path

from image_copies.data.errors import UserError, text_of
from image_copies.matching.index.database import DATABASE
from image_copies.matching.index.decisions import Decisions, Pair, Word, word_of
from image_copies.matching.index.store import digest_of
from image_copies.matching.output import Output
from image_copies.matching.results.folder import OWN_INDEX, SEARCH, read_notes

SPOKEN = {"copy": "a copy", "not-a-copy": "not a copy"}


def find_index(index: Path | None, folder: Path) -> Path:
    """Return the index that decisions are kept in: the named one, or the one that a folder of results was searched in.

    Raises:
        UserError: there is none yet.
    """
    place = index or read_notes(folder).index_in(folder)
    if not (place / DATABASE).is_file():
        raise UserError(
            f"{place} holds no index to keep decisions in. Search first, or name one with --index."
        )
    return place


def decide(place: Path, first: Path, second: Path, word: Word, output: Output) -> int:
    """Keep a decision about two pictures in the index at `place`, or take it back; return the exit code.

    It is 1 where a decision is to be taken back and nothing had been decided, else 0.

    Raises:
        UserError: One of them cannot be read, or they hold the same bytes.
    """
    digests = digest_of(first), digest_of(second)
    if digests[0] == digests[1] and word != "undecided":
        raise UserError(f"{first} and {second} hold the same bytes: there is nothing to decide.")
    before = Decisions(place).record((first, second), digests, word)
    output.record(
        "decision",
        {"first": first, "second": second, "copy": None if word == "undecided" else word == "copy"},
    )
    if word != "undecided":
        output.say(f"{first} and {second}: {SPOKEN[word]}, from now on")
        return 0
    found = before != "undecided"
    output.say(
        f"{first} and {second}: " + ("the decision is taken back" if found else "nothing had been decided")
    )
    return 0 if found else 1


def read_rejected_pairs(folder: Path, index: Path | None) -> frozenset[Pair]:
    """Return the pairs of contents that a person has called no copies.

    Args:
        folder: A folder of results.
        index: The index that keeps the decisions; None for the one that the folder's search used.

    Raises:
        UserError: The index is gone or damaged.
    """
    if index is None and not (folder / SEARCH).exists() and not (folder / OWN_INDEX).exists():
        return frozenset()
    place = index or read_notes(folder).index_in(folder)
    if not (place / DATABASE).is_file():
        raise UserError(
            f"{place} holds no index any more, which keeps your decisions. Name its new place with --index DIR, or search again."
        )
    return frozenset(pair for pair, word in Decisions(place).words().items() if word == "not-a-copy")


def list_decisions(place: Path, output: Output) -> int:
    """Print every decision, the oldest first; return the exit code."""
    for decision in Decisions(place).read():
        first, second = decision.names
        values = {"first": first, "second": second, "copy": decision.copy, "decided": decision.decided}
        output.record("decision", values)
        if not output.json:
            output.say(
                f"{decision.decided}  {SPOKEN[word_of(decision)]}  {text_of(first)}  {text_of(second)}"
            )
    return 0
