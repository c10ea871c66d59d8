"""match.py add, remove, check, decide and decisions: a kept index of references, and what a person says of its pictures."""

from collections.abc import Sequence
from pathlib import Path

from image_copies.data.errors import text_of
from image_copies.data.sources.walking import known_path
from image_copies.data.targets import check_target_folder
from image_copies.models.inference.embedders import Look

from ..extractor import Extractor
from ..index import store as index_store
from ..index.decisions import Decisions, Word
from ..index.filling import add_pictures
from ..output import Output, count
from ..results import UNREADABLE
from ..show.report import report_unreadable
from .sources import look_in

SPOKEN = {"copy": "a copy", "not-a-copy": "not a copy"}


def find_added(index: Path, sources: Sequence[Path], results: Path, output: Output) -> list[Path]:
    """Find the pictures to be added to an index, except those in a folder of results, before anything is embedded.

    Raises:
        UserError: A source is missing or holds no picture, or the index would be made in a folder that is not its own.
    """
    check_target_folder(index, "--index", [index_store.DATABASE], [UNREADABLE])
    return look_in(sources, results, output)


def add(index: Path, extractor: Extractor, pictures: Sequence[Path], output: Output) -> None:
    """Add pictures to an index, which is made if it is new.

    Raises:
        UserError: The index is damaged or was made with another network, or the disk is full.
    """
    with index_store.open_store(index, extractor.identity, extractor.dimensions) as store:
        closed = add_and_say(store, extractor, pictures, output)
        report_unreadable([*closed, *index_store.unreadable_files(store)], index / UNREADABLE, output)


def add_and_say(
    store: index_store.Store,
    extractor: Extractor,
    pictures: Sequence[Path],
    output: Output,
    look: Look | None = None,
) -> list[Path]:
    """Add pictures to an open index, shown to `look`; say how many had to be embedded, and return those that cannot be opened."""
    embedded, closed = add_pictures(store, extractor, pictures, look)
    failed = f", {len(closed)} cannot be opened, the first is {closed[0]}" if closed else ""
    output.say(f"{store.folder}: {len(pictures)} images, {embedded} of them embedded{failed}")
    counted = {"images": len(pictures), "embedded": embedded, "cannot_be_opened": closed}
    output.record("added", counted)
    return closed


def remove(index: Path, paths: Sequence[Path], output: Output) -> None:
    """Remove files, or everything below folders, from an index.

    Raises:
        UserError: There is no index, it is damaged, or the disk is full.
    """
    with index_store.open_store(index) as store:
        files = index_store.remove_files(store, map(known_path, paths))
    output.say(f"removed {count(sum(files.values()), 'file')} from {index}")
    for path, held in files.items():
        output.record("removed", {"path": path, "files": held})
        if not held:
            output.say(f"{path} is not in it, nor anything below")


def check(index: Path, output: Output) -> None:
    """Read the database of an index whole.

    Raises:
        UserError: There is no index, or its database is damaged.
    """
    with index_store.open_store(index) as store:
        vectors = index_store.check_vectors(store)
    output.record("check", {"vectors": vectors})
    output.say(f"{index}: {vectors:,} vectors are whole")


def decide(place: Path, first: Path, second: Path, word: Word, output: Output) -> int:
    """Keep a decision about two pictures in the index at `place`, or take it back; return the exit code.

    It is 1 where a decision is to be taken back and nothing had been decided, else 0.

    Raises:
        UserError: One of them cannot be read, or they hold the same bytes.
    """
    digests = index_store.digest_of(first), index_store.digest_of(second)
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


def list_decisions(place: Path, output: Output) -> None:
    """Print every decision, the oldest first."""
    for decision in Decisions(place).read():
        first, second = decision.names
        values = {"first": first, "second": second, "copy": decision.copy, "decided": decision.decided}
        output.record("decision", values)
        if not output.json:
            said = SPOKEN[decision.word]
            output.say(f"{decision.decided}  {said}  {text_of(first)}  {text_of(second)}")
