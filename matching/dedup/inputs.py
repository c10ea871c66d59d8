"""What is to be deduplicated: containers of pictures, listed one by one, and an index of each; no list holds all pictures.

An index is a JSON file in the folder of results, which says what a process needs to read each part of a container, and how many
pictures that has. It is made again when the container has changed.
"""

import hashlib
import json
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.files import read_json, write_text
from image_copies.data.remote import as_path
from image_copies.data.sources.containers import FILES, Container, Part, kind_of
from image_copies.data.sources.discovery import CANNOT_BE_OPENED, DAMAGED_ARCHIVE, look
from image_copies.data.sources.walking import expand_sources, find_files, known_path

MOST_FILES = 4  # a batch holds at most this many times the usual number of files; a name may end it earlier


@dataclass(frozen=True)
class Index:
    """The parts of a container, and what is wrong with it."""

    container: Container
    parts: list[Part]
    problems: list[str]


def list_containers(sources: Sequence[Path], size: int, excluded: Path, column: str = "image") -> Iterator[Container]:
    """Yield the containers of folders, tars, Parquet files and lists of them; batches hold about `size` files.

    A batch ends where a file's name within its source says so, so that a new file changes one batch and not all that follow.
    Nothing below the `excluded` folder, that of the results, is listed, and nothing twice, whichever sources lead to it.

    Raises:
        UserError: A source or list cannot be found or read.
    """
    for source, files in groupby(_find_files(sources, excluded), key=itemgetter(0)):
        batch, states = list[tuple[str, int]](), hashlib.sha256()
        for _, path, state in files:
            if (kind := kind_of(str(path))) != FILES:
                yield Container(kind, str(path), hashlib.sha256(_describe(state)).hexdigest(), column)
                continue
            for name in _list_pictures(path):
                batch.append((name, state.st_size))
                states.update(_describe(state))
                ends = zlib.crc32(os.fsencode(name.removeprefix(source))) % size == 0
                if (ends and len(batch) * 2 >= size) or len(batch) == MOST_FILES * size:
                    yield Container(FILES, source, states.hexdigest(), column, *zip(*batch, strict=True))
                    batch, states = [], hashlib.sha256()
        if batch:
            yield Container(FILES, source, states.hexdigest(), column, *zip(*batch, strict=True))


def is_changed(container: Container) -> bool:
    """Whether a tar or Parquet file is another one than was listed, or has gone."""
    try:
        state = as_path(container.source).stat()
    except FileNotFoundError:
        return True
    return container.state != hashlib.sha256(_describe(state)).hexdigest()


def _describe(state: os.stat_result) -> bytes:
    return f"{state.st_size} {state.st_mtime_ns};".encode()


def _find_files(sources: Sequence[Path], excluded: Path) -> Iterator[tuple[str, Path, os.stat_result]]:
    """Yield the folder that was named, empty for files that were named themselves, with the path and state of each file."""
    results, failed = str(known_path(excluded)), list[OSError]()
    skipped = {results}
    for source in expand_sources(sources):
        place = known_path(source)
        known = str(place)
        if not skipped.isdisjoint({known, *map(str, place.parents)} - {results}):
            continue  # listed before
        for path in find_files(source, skipped, hidden=False, failed=failed):
            try:
                state = path.stat()
            except OSError:  # a link that leads nowhere, or it has just gone
                continue
            if stat.S_ISREG(state.st_mode):
                yield "" if str(path) == known else known, path, state
        if failed:
            raise UserError(f"{failed[0].filename} cannot be opened ({failed[0].strerror}). Change its rights, or name others.")
        skipped.add(known)


def _list_pictures(path: Path) -> list[str]:
    """Return a picture's own path, or the pictures in an archive; what cannot be opened counts as an unreadable picture."""
    shown = (None, CANNOT_BE_OPENED, DAMAGED_ARCHIVE)
    return [str(picture) for picture, reason in look(path, any_ending=False) if reason in shown]


def is_indexed(container: Container, known: Index | None) -> bool:
    """Whether an index is that of a container in its present state."""
    return known is not None and (known.container.state, known.container.column) == (container.state, container.column)


def index_container(container: Container, path: Path, size: int) -> Index:
    """Return a container's index, and write it if the one at `path` is of another state or column."""
    known = read_index(path)
    if known is not None and is_indexed(container, known):
        return known
    found = list(container.parts(size))
    parts, problems = [one for one in found if isinstance(one, Part)], [one for one in found if isinstance(one, str)]
    listed = {"parts": list(map(asdict, parts)), "problems": problems}
    write_text(path, json.dumps(asdict(container) | listed))
    return Index(container, parts, problems)


def index_path(folder: Path, key: str) -> Path:
    """Return the path of a container's index in the folder of results."""
    return folder / "index" / key[:2] / f"{key}.json"


def read_index(path: Path) -> Index | None:
    """Read an index; None where there is none that says all that an index says."""
    content = read_json(path)
    try:
        parts, problems = content.pop("parts"), content.pop("problems")
        container = Container(**content | {name: tuple(content[name]) for name in ("names", "sizes")})
        return Index(container, [Part(**part) for part in parts], problems)
    except (KeyError, TypeError):
        return None
