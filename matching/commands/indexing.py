"""match.py add, remove, check, decide and decisions: a kept index of references, and what a person says of its pictures."""

from collections.abc import Sequence
from pathlib import Path

from image_copies.data.errors import UserError, text_of
from image_copies.data.sources.discovery import Discovered
from image_copies.data.sources.walking import known_path
from image_copies.data.targets import check_target_folder

from ..extractor import Extractor
from ..index.decisions import Decisions, Pair, Word
from ..index.filling import add_pictures
from ..index.store import (
    DATABASE,
    check_vectors,
    digest_of,
    open_store,
    remove_files,
    remove_made_files,
    unreadable_files,
)
from ..output import Output, count
from ..results.folder import OWN_INDEX, SEARCH, UNREADABLE, read_notes
from ..results.report import report_unreadable
from .sources import look_in

SPOKEN = {"copy": "a copy", "not-a-copy": "not a copy"}


def find_added(index: Path, sources: Sequence[Path], results: Path, output: Output) -> Discovered:
    """Find the pictures to be added to an index, except those in a folder of results, before anything is embedded.

    Raises:
        UserError: A source is missing or holds no picture, or the index would be made in a folder that is not its own.
    """
    check_target_folder(index, "--index", [DATABASE], [UNREADABLE])
    return look_in(sources, results, output)


def add(index: Path, extractor: Extractor, pictures: Discovered, output: Output) -> int:
    """Add pictures to an index, which is made if it is new; return the exit code.

    Raises:
        UserError: The index is damaged or was made with another network, or the disk is full.
    """
    with open_store(index, extractor.identity, extractor.dimensions) as store:
        embedded, closed = add_pictures(store, extractor, pictures.paths)
        say_added(str(index), len(pictures.paths), embedded, closed, output)
        report_unreadable([*closed, *unreadable_files(store)], index / UNREADABLE, output)
    return 0


def remove(index: Path, paths: Sequence[Path], output: Output) -> int:
    """Remove files, or everything below folders, from an index; return the exit code.

    Raises:
        UserError: There is no index, it is damaged, or the disk is full.
    """
    with open_store(index) as store:
        files = remove_files(store, map(known_path, paths))
    output.say(f"removed {count(sum(files.values()), 'file')} from {index}")
    for path, held in files.items():
        output.record("removed", {"path": path, "files": held})
        if not held:
            output.say(f"{path} is not in it, nor anything below")
    return 0


def check(index: Path, output: Output) -> int:
    """Read the database of an index whole, and remove the files that the next search makes of it; return the exit code.

    Raises:
        UserError: There is no index, or its database is damaged.
    """
    with open_store(index) as store:
        vectors = check_vectors(store)
    remove_made_files(index)
    output.record("check", {"vectors": vectors})
    output.say(
        f"{index}: {vectors:,} vectors are whole; the next search makes the files beside the database again"
    )
    return 0


def say_added(where: str, images: int, embedded: int, closed: Sequence[Path], output: Output) -> None:
    """Say how many pictures an index was given, how many of them had to be embedded, and how many cannot be opened."""
    failed = f", {len(closed)} cannot be opened, the first is {closed[0]}" if closed else ""
    output.say(f"{where}: {images} images, {embedded} of them embedded{failed}")
    output.record("added", {"images": images, "embedded": embedded, "cannot_be_opened": closed})


def find_index(index: Path | None, folder: Path) -> Path:
    """Return the index that decisions are kept in: the named one, or the one that a folder of results was searched in.

    Raises:
        UserError: There is none, or none any more.
    """
    place = index or read_notes(folder).index or folder / OWN_INDEX
    if not (place / DATABASE).is_file():
        raise UserError(
            f"{place} holds no index, which keeps your decisions. Search first, or name its place with --index DIR."
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
    copy = None if word == "undecided" else word == "copy"
    output.record("decision", {"first": first, "second": second, "copy": copy})
    if word != "undecided":
        said = f"{SPOKEN[word]}, from now on"
    elif before == "undecided":
        said = "nothing had been decided"
    else:
        said = "the decision is taken back"
    output.say(f"{first} and {second}: {said}")
    return 1 if word == before == "undecided" else 0


def list_decisions(place: Path, output: Output) -> int:
    """Print every decision, the oldest first; return the exit code."""
    for decision in Decisions(place).read():
        first, second = decision.names
        values = {"first": first, "second": second, "copy": decision.copy, "decided": decision.decided}
        output.record("decision", values)
        if not output.json:
            said = SPOKEN[decision.word]
            output.say(f"{decision.decided}  {said}  {text_of(first)}  {text_of(second)}")
    return 0


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
    words = Decisions(find_index(index, folder)).words()
    return frozenset(pair for pair, word in words.items() if word == "not-a-copy")
