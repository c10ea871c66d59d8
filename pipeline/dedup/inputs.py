"""What is to be deduplicated: folders, tars and Parquet files, in parts of about a thousand pictures; no list holds them all.

A container is a tar, a Parquet file, or a batch of a folder's files. Its index, a JSON file in the folder of results, says what a
process needs to read each of its parts, and how many pictures that has. It is made again when the container has changed.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Literal

from image_copies.data.archives import is_archive, list_archive, read_bytes
from image_copies.data.discovery import expand_sources
from image_copies.data.errors import StorageError, UserError
from image_copies.data.files import is_file, is_folder, read_json, write_text
from image_copies.data.formats import IMAGE_ENDINGS, SIGNATURE_BYTES, detect_format
from image_copies.data.remote import READERS, RemotePath, as_path, is_remote
from image_copies.data.threads import map_in_threads
from image_copies.pipeline.dedup.collection import open_table
from image_copies.pipeline.dedup.tars import READ_ERRORS, Damage, is_picture, is_tar, open_tar, walk_tar
from image_copies.submissions.vectors.parquet import is_parquet

Kind = Literal["files", "tar", "parquet"]
MOST_FILES = 4  # times the usual number: the most files of a batch, which ends early where a name says so


@dataclass(frozen=True)
class Container:
    """A tar, a Parquet file or a batch of files, before its index is made.

    Attributes:
        kind: What it is.
        source: Its path; of a batch of files the path that was named.
        names: Of a batch, the paths of its files.
        sizes: Of a batch, the sizes of its files, or of the archives that they are in.
        state: Digest of the sizes and times of modification.
        against: Whether it is of a test set.
    """

    kind: Kind
    source: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    state: str
    against: bool = False

    @property
    def key(self) -> str:
        """Its name in the folder of results: what it is, whatever state it is in."""
        said = json.dumps([self.kind, self.source, self.names, self.against]).encode()
        return hashlib.sha256(said).hexdigest()[:20]


@dataclass(frozen=True)
class Part:
    """Pictures that are embedded together: files, the members of a tar from one header to another, or row groups."""

    first: int
    end: int
    count: int


@dataclass(frozen=True)
class Index:
    """The parts of a container, and what is wrong with it."""

    kind: Kind
    source: str
    state: str
    column: str
    against: bool
    parts: list[Part]
    problems: list[str] = field(default_factory=list)
    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()


def list_containers(sources: Sequence[Path], size: int, excluded: Path, against: bool = False) -> Iterator[Container]:
    """Yield the containers of folders, tars, Parquet files and lists of them; batches hold about `size` files.

    A batch ends where a file's name says so, so that a new file changes one batch and not all that follow. Nothing below the
    `excluded` folder, that of the results, is listed.

    Raises:
        UserError: A source or list cannot be found or read.
    """
    excluded_name = str(excluded) if is_remote(excluded) else os.path.realpath(excluded)
    for source, files in groupby(_find_files(sources, excluded_name), key=itemgetter(0)):
        batch, states = list[tuple[str, int]](), hashlib.sha256()
        for _, path, state in files:
            said = f"{state.st_size} {state.st_mtime_ns};".encode()
            if is_tar(path) or is_parquet(path):
                state_now = hashlib.sha256(said).hexdigest()
                yield Container("tar" if is_tar(path) else "parquet", path, (), (), state_now, against)
                continue
            for name in _list_pictures(path):
                batch.append((name, state.st_size))
                states.update(said)
                ends = zlib.crc32(os.fsencode(name)) % size == 0
                if (ends and len(batch) * 2 >= size) or len(batch) == MOST_FILES * size:
                    yield _end_batch(source, batch, states.hexdigest(), against)
                    batch, states = [], hashlib.sha256()
        if batch:
            yield _end_batch(source, batch, states.hexdigest(), against)


def _end_batch(source: str, batch: Sequence[tuple[str, int]], state: str, against: bool) -> Container:
    return Container("files", source, tuple(name for name, _ in batch), tuple(size for _, size in batch), state, against)


def _find_files(sources: Sequence[Path], excluded: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yield the folder that was named, empty for files that were named themselves, with the path and state of each file."""
    for source in expand_sources(sources):
        if isinstance(source, RemotePath) and source.is_dir():
            found = _walk_store(list(source.iterdir()), excluded)
            yield from ((str(source), str(path), path.stat()) for path in found)
        elif is_folder(source):
            folder = os.path.realpath(source)
            yield from ((folder, path, state) for path, state in _walk(folder, excluded))
        elif is_file(source):
            yield "", str(source) if is_remote(source) else os.path.abspath(source), source.stat()  # noqa: PTH100 - links stay
        else:
            raise UserError(f"{source} does not exist. Name a folder, a tar, a Parquet file, a picture or @list.txt.")


def _walk(folder: str, excluded: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files below a folder in the order of their names, with their states; hidden ones are skipped."""
    with os.scandir(folder) as entries:
        found = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, excluded) if entry.path != excluded else ()
        elif entry.is_file():
            yield entry.path, entry.stat()


def _walk_store(entries: Sequence[RemotePath], excluded: str) -> Iterator[RemotePath]:
    """Yield the files below a folder of an object store in the order of `_walk`, given by what is in it; lists some at once."""
    shown = [path for path in entries if not path.name.startswith(".") and str(path) != excluded]
    below = map_in_threads(lambda folder: list(folder.iterdir()), (path for path in shown if path.state is None), READERS)
    for path in shown:
        yield from _walk_store(next(below), excluded) if path.state is None else (path,)


def _list_pictures(path: str) -> list[str]:
    """Return a picture's own path, or the pictures in an archive; one that cannot be read counts as an unreadable picture."""
    if not is_archive(Path(path)):
        ending = os.path.splitext(path)[1].lower()  # noqa: PTH122 - of millions
        return [path] if ending in IMAGE_ENDINGS or (not ending and _begins_as_picture(path)) else []
    try:
        members = list_archive(as_path(path)).members
    except StorageError:
        raise
    except UserError:
        return [path]
    is_table = path.endswith(".arrow")  # whose pictures need no ending
    return [f"{path}/{name}" for name in members if is_table or PurePosixPath(name).suffix.lower() in IMAGE_ENDINGS]


def _begins_as_picture(path: str) -> bool:
    try:
        return detect_format(read_bytes(as_path(path), SIGNATURE_BYTES)) is not None
    except OSError:
        return True  # it will be listed as unreadable


def index_container(container: Container, path: Path, size: int, column: str) -> Index:
    """Return a container's index, and write it if the one at `path` is of another state or column."""
    known = read_index(path)
    if known is not None and (known.state, known.column) == (container.state, column):
        return known
    make = {"files": _index_files, "tar": _index_tar, "parquet": _index_parquet}[container.kind]
    about = container.kind, container.source, container.state, column, container.against
    empty = Index(*about, parts=[], names=container.names, sizes=container.sizes)
    index = make(empty, size)
    write_text(path, json.dumps(asdict(index)))
    return index


def index_path(folder: Path, key: str) -> Path:
    """Return the path of a container's index in the folder of results."""
    return folder / "index" / key[:2] / f"{key}.json"


def read_index(path: Path) -> Index | None:
    """Read an index; None where there is none that says all that an index says."""
    content = read_json(path)
    if not content or content.keys() != Index.__dataclass_fields__.keys():
        return None
    parts = [Part(**part) for part in content.pop("parts")]
    return Index(**content | {"parts": parts, "names": tuple(content["names"]), "sizes": tuple(content["sizes"])})


def _index_files(empty: Index, size: int) -> Index:
    count = len(empty.names)
    return replace(
        empty, parts=[Part(first, min(first + size, count), min(size, count - first)) for first in range(0, count, size)]
    )


def _index_tar(empty: Index, size: int) -> Index:
    parts, problems = list[Part](), list[str]()
    first, end, count = 0, 0, 0
    try:
        with open_tar(as_path(empty.source)) as stream:
            for found in walk_tar(stream):
                if isinstance(found, Damage):
                    problems.append(found.reason)
                elif is_picture(found, stream):
                    first, end, count = (found.header if not count else first), found.data, count + 1
                    if count == size:
                        parts.append(Part(first, end, count))
                        count = 0
    except READ_ERRORS as error:
        problems.append(f"cannot be read ({error})")
    if count:
        parts.append(Part(first, end, count))
    return replace(empty, parts=parts, problems=problems)


def _index_parquet(empty: Index, size: int) -> Index:
    from pyarrow import ArrowException  # imported here: an extra

    try:
        with open_table(as_path(empty.source)) as file:
            names, counts = file.schema_arrow.names, [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    except (OSError, ArrowException) as error:
        return replace(empty, problems=[f"cannot be read ({str(error).splitlines()[0]})"])
    if empty.column not in names:
        return replace(empty, problems=[f"has no column {empty.column} (--column names it), but {', '.join(names)}"])
    parts, first, count = list[Part](), 0, 0
    for group, rows in enumerate(counts, 1):
        count += rows
        if count >= size or (group == len(counts) and count):
            parts.append(Part(first, group, count))
            first, count = group, 0
    return replace(empty, parts=parts)
