"""match.py add, remove and check: a kept index of references."""

from collections.abc import Sequence
from pathlib import Path

from image_copies.data.sources.discovery import Discovered
from image_copies.data.sources.walking import known_path
from image_copies.data.targets import check_target_folder
from image_copies.matching.commands.sources import look_in
from image_copies.matching.extractor import Extractor
from image_copies.matching.index import codes, parts
from image_copies.matching.index.database import DATABASE
from image_copies.matching.index.filling import Added, add_pictures
from image_copies.matching.index.store import (
    check_vectors,
    open_known_store,
    open_store,
    remove_files,
    unreadable_files,
)
from image_copies.matching.output import Output, count
from image_copies.matching.results.folder import UNREADABLE
from image_copies.matching.results.report import report_unreadable


def find_added(index: Path, sources: Sequence[Path], results: Path, output: Output) -> Discovered:
    """Find the pictures to be added to an index, except those in a folder of results, before anything is embedded.

    Raises:
        UserError: A source is missing or holds no picture, or the index would be made in a folder that is not its own.
    """
    check_target_folder(index, "--index", [DATABASE], [UNREADABLE])
    database = index / DATABASE
    if database.is_file() and not database.stat().st_size:
        output.say(f"{database} is empty, as a killed or damaged one is: a new index is made")
    return look_in(sources, results, output)


def add(index: Path, extractor: Extractor, pictures: Discovered, output: Output) -> int:
    """Add pictures to an index, which is made if it is new; return the exit code.

    Raises:
        UserError: The index is damaged or was made with another network, or the disk is full.
    """
    with open_store(index, extractor.identity, extractor.dimensions) as store:
        done = add_pictures(store, extractor, pictures.paths)
        say_added(str(index), done, output)
        report_unreadable([*done.closed, *unreadable_files(store)], index / UNREADABLE, output)
    return 0


def remove(index: Path, paths: Sequence[Path], output: Output) -> int:
    """Remove files, or everything below folders, from an index; return the exit code.

    Raises:
        UserError: There is no index, it is damaged, or the disk is full.
    """
    with open_known_store(index) as store:
        files = remove_files(store, map(known_path, paths))
    output.say(f"removed {count(sum(files.values()), 'file')} from {index}")
    for path, held in files.items():
        output.record("removed", {"path": path, "files": held})
        if not held:
            output.say(f"{path} is not in it, nor anything below")
    return 0


def check(index: Path, output: Output) -> int:
    """Read every byte of an index, and remove damaged files, which the next search makes again; return the exit code, 1 if any.

    Raises:
        UserError: There is no index, or its database is damaged.
    """
    with open_known_store(index) as store:
        vectors = check_vectors(store)
        held = [path for path in sorted(index.glob("vectors-*")) if parts.NAME.fullmatch(path.name)]
        coded = [path for path in sorted(index.glob("codes-*")) if codes.NAME.fullmatch(path.name)]
        damaged = [path for path in held if not parts.is_intact(store, path)]
        damaged += [path for path in coded if not codes.is_intact(path)]
    files = len(held) + len(coded)
    output.record("check", {"vectors": vectors, "files": files, "damaged": damaged})
    for path in damaged:
        path.unlink()
        output.say(f"{path} was damaged: the next search writes it again from the database")
    output.say(f"{index}: {vectors:,} vectors in the database and {files} files read, {len(damaged)} damaged")
    return 1 if damaged else 0


def say_added(where: str, added: Added, output: Output) -> None:
    """Say how many pictures an index was given, and how many of them had to be embedded."""
    known = added.images - added.embedded - added.broken - added.doubles - len(added.closed)
    others = {
        f"{added.broken} cannot be decoded": added.broken,
        f"{added.doubles} with the same bytes as others": added.doubles,
        f"{known} known from before": known,
        f"{len(added.closed)} cannot be opened, the first is {''.join(map(str, added.closed[:1]))}": len(
            added.closed
        ),
    }
    output.say(
        ", ".join(
            [
                f"{where}: {added.images} images, {added.embedded} of them embedded",
                *filter(others.get, others),
            ]
        )
    )
    output.record(
        "added", {"images": added.images, "embedded": added.embedded, "cannot_be_opened": added.closed}
    )
