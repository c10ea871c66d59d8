"""What is to be deduplicated: containers of pictures, listed one by one; no list holds all pictures."""

import hashlib
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.remote import as_path
from image_copies.data.sources.containers import FILES, TABLE, Container, kind_of
from image_copies.data.sources.discovery import CANNOT_BE_OPENED, DAMAGED_ARCHIVE, look
from image_copies.data.sources.walking import expand_sources, find_files, known_path

BATCH_FILES = 1024  # files of a batch, about; a name may end it earlier,
MOST_FILES = 4  # and it holds at most this many times as many


def list_containers(
    sources: Sequence[Path], results: Path, apart: Sequence[Path] = (), column: str = "image"
) -> Iterator[Container]:
    """Yield the containers of folders, tars, Parquet files and lists of them.

    A batch of files ends where a file's name within its source says so, so that a new file changes one batch and not all that
    follow. Nothing below the folder of the results is listed, unless a source in it is named, nothing of the sources that are
    kept `apart`, and nothing twice, whichever sources lead to it.

    Raises:
        UserError: A source or list cannot be found or read.
    """
    for source, files in groupby(_find_files(sources, results, apart), key=itemgetter(0)):
        batch = list[tuple[str, int, int]]()
        for _, path, state in files:
            if (kind := kind_of(str(path))) != FILES:
                yield Container(
                    kind,
                    str(path),
                    _digest([state.st_size], [state.st_mtime_ns]),
                    column if kind == TABLE else "",
                )
                continue
            for name in _list_pictures(path):
                batch.append((name, state.st_size, state.st_mtime_ns))
                ends = zlib.crc32(os.fsencode(name.removeprefix(source))) % BATCH_FILES == 0
                if (ends and len(batch) * 2 >= BATCH_FILES) or len(batch) == MOST_FILES * BATCH_FILES:
                    yield _make_batch(source, batch)
                    batch = []
        if batch:
            yield _make_batch(source, batch)


def _make_batch(source: str, files: Sequence[tuple[str, int, int]]) -> Container:
    names, sizes, times = zip(*files, strict=True)
    return Container(FILES, source, _digest(sizes, times), "", names, sizes)


def is_changed(source: str, state: str) -> bool:
    """Whether a tar or Parquet file is another one than that of which a state began with its own, or has gone."""
    try:
        found = as_path(source).stat()
        return not state.startswith(_digest([found.st_size], [found.st_mtime_ns]))
    except FileNotFoundError:
        return True


def _digest(sizes: Sequence[int], times: Sequence[int]) -> str:
    said = "".join(f"{size} {time};" for size, time in zip(sizes, times, strict=True))
    return hashlib.sha256(said.encode()).hexdigest()


def _find_files(
    sources: Sequence[Path], results: Path, apart: Sequence[Path]
) -> Iterator[tuple[str, Path, os.stat_result]]:
    """Yield the folder that was named, empty for files that were named themselves, with the path and state of each file."""
    failed, own = list[OSError](), str(known_path(results))
    skipped = {own, *(str(known_path(source)) for source in expand_sources(apart))}
    for source in expand_sources(sources):
        place = known_path(source)
        known = str(place)
        if not skipped.isdisjoint({known, *map(str, place.parents)} - {own}):
            continue  # listed before
        for path in find_files(source, skipped, hidden=False, failed=failed):
            try:
                state = path.stat()
            except OSError:  # a link that leads nowhere, or it has just gone
                continue
            if stat.S_ISREG(state.st_mode):
                yield "" if str(path) == known else known, path, state
        if failed:
            raise UserError(
                f"{failed[0].filename} cannot be opened ({failed[0].strerror}). Change its rights, or name others."
            )
        skipped.add(known)


def _list_pictures(path: Path) -> list[str]:
    """Return a picture's own path, or the pictures in an archive; what cannot be opened counts as an unreadable picture."""
    shown = (None, CANNOT_BE_OPENED, DAMAGED_ARCHIVE)
    return [str(picture) for picture, reason in look(path, any_ending=False) if reason in shown]
