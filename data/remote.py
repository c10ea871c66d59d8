"""Folders and files on object stores (`s3://bucket/photos`, `gs://…`) and on any other file system that fsspec knows.

A remote place is a `RemotePath`, which is a `pathlib.Path`: code that lists, names, compares and opens files takes either. Its
text is the URL, and its methods ask the store. universal-pathlib's paths are no `pathlib.Path`, and ask for size and time of each
file by itself, where a listing tells them of a thousand files in one request.

Credentials and addresses are those of the store's own tools: for S3 the variables AWS_ACCESS_KEY_ID, AWS_PROFILE,
AWS_ENDPOINT_URL and so on, ~/.aws, or what the machine has been given.
"""

import errno
import io
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path, PosixPath
from typing import IO, Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from .commands import name_install
from .errors import StorageError
from .threads import map_in_threads


def open_store_of(place: Path) -> tuple[Any, str]:
    """Return the file system of a place, as fsspec's, and the place's name in it.

    Raises:
        StorageError: no package is installed that knows the store.
    """
    scheme = place.parts[0].rstrip(":")
    files = open_file_system(scheme, os.getpid())
    return files, str(files._strip_protocol(str(place)))


_opening = threading.Lock()


@cache
def open_file_system(scheme: str, process: int) -> Any:
    """Return fsspec's file system, one per process: connections do not survive a fork."""
    try:
        import fsspec  # here: only places on stores need it

        with _opening:
            return fsspec.filesystem(scheme, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        raise StorageError(
            f"{scheme}:// needs a package that is not installed ({error}). Install it: {name_install('cluster')}"
        ) from error


@cache
def known_schemes() -> frozenset[str]:
    """Return the schemes of URLs that name places on stores; a few common ones where fsspec is not installed."""
    try:
        import fsspec
    except ImportError:
        return frozenset({"s3", "gs", "file", "memory"})
    return frozenset(fsspec.available_protocols())


@contextmanager
def explain_failures(place: Path, attempt: str = "read") -> Iterator[None]:
    """Turn what a store's library raises into a `StorageError`; of what is not there, into a FileNotFoundError.

    Raises:
        FileNotFoundError: there is nothing there.
        StorageError: in all other cases.
    """
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError as error:
        if "bucket does not exist" in str(error).lower():
            raise missing_error(place) from error
        raise FileNotFoundError(errno.ENOENT, "no such file", str(place)) from error
    except Exception as error:  # each store's library has its own
        raise StorageError(_describe_failure(place, error, attempt)) from error


def _describe_failure(place: Path, error: BaseException, attempt: str) -> str:
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    kinds = " ".join(type(one).__name__ for one in causes)
    said = f"{type(error).__name__}: {error}".strip(": ")
    credentials = (
        "Give those of an account that may use it, as the store's own tools take them (for S3: AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE)."
    )
    again = "What is finished is kept: the same command continues from there."
    if "Credential" in kinds or "TokenRetrieval" in kinds:
        return f"{place} cannot be {attempt}: there are no credentials ({said}). {credentials} {again}"
    if isinstance(error, PermissionError):
        return f"{place} cannot be {attempt}: the store refuses it ({said}). {credentials} {again}"
    return f"{place} cannot be {attempt}: the store cannot be reached or fails ({said}). {again}"


def missing_error(place: Path) -> StorageError:
    """Return the error to raise where there is no such bucket or folder."""
    bucket = "/".join(str(place).split("/")[:3])
    return StorageError(
        f"{place}: there is no such bucket or folder. Check the name; {bucket} must exist and be readable."
    )


URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(/.*|[^/].*)", re.DOTALL)  # pathlib leaves one of two slashes
LOCAL_SCHEMES = ("file", "local")
READERS = 16  # files that are read at once: a store answers after tens of milliseconds, however many ask
# what an opened file reads at once, and how much of it is kept in memory
BLOCK_BYTES, MAX_BLOCKS = 4 * 2**20, 32
Result = TypeVar("Result")


class ObjectState(NamedTuple):
    """What a store says of a file."""

    size: int  # in bytes
    modified: int  # modification time in nanoseconds since 1970; 0 where the store does not know it


def as_path(place: str | os.PathLike[str]) -> Path:
    """Return the path of a file or folder on this machine, or the `RemotePath` of a URL.

    It may be a path, `file:///path`, or a URL such as `s3://bucket/photos`; also one that has lost a slash in a `Path`.

    Raises:
        StorageError: the URL has a password; or on Windows, where there are no remote places.
    """
    if isinstance(place, Path) and (
        isinstance(place, RemotePath) or not place.parts or not place.parts[0].endswith(":")
    ):
        return place
    text = os.fspath(place)
    match = URL.fullmatch(text)
    if match is not None and re.match(r"/?/?[^/@]*:[^/]*@", match[2]):
        raise StorageError(
            f"a {match[1]}:// URL with a password is refused, because results and messages would repeat it. Give it by the "
            f"store's own settings, such as AWS_SECRET_ACCESS_KEY or FSSPEC_{match[1].upper()}_PASSWORD."
        )
    if (
        match is None
        or (match[2][0] != "/" and not isinstance(place, Path))
        or match[1] not in known_schemes()
    ):
        return Path(place)
    if match[1] in LOCAL_SCHEMES:
        return (
            Path(unquote(urlsplit(text).path))
            if isinstance(place, str)
            else Path(f"/{match[2].lstrip('/')}")
        )
    if os.name == "nt":
        raise StorageError(f"{text}: places on object stores can be used on Linux and macOS only.")
    return RemotePath(text)


def is_remote(place: str | os.PathLike[str]) -> bool:
    """Whether this is a place on an object store."""
    return isinstance(as_path(place), RemotePath)


class RemotePath(PosixPath):
    """A file or folder on a file system of fsspec, such as `s3://bucket/photos/a.jpg`.

    What a listing told of its `state` is not asked for again.
    """

    __slots__ = ("_state",)
    _state: ObjectState | None

    @property
    def state(self) -> ObjectState | None:
        """What a listing told of it; None if none did. Python 3.11 makes children without calling a constructor."""
        return getattr(self, "_state", None)

    def __str__(self) -> str:
        """Return the URL."""
        scheme, colon, rest = super().__str__().partition(":/")
        return f"{scheme}://{rest.lstrip('/')}" if colon else scheme + "://" * scheme.endswith(":")

    def __fspath__(self) -> str:
        """Return the URL: the system finds no file by it, fsspec does."""
        return str(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (str(self), self.state)

    def with_state(self, state: ObjectState) -> "RemotePath":
        """Remember size and time, and return this path."""
        self._state = state
        return self

    def relative_to(self, *other: Any, **options: Any) -> Path:  # type: ignore[override]  # a part of a URL is none
        """Return the local path that leads from a folder to this one."""
        return Path(*self.parts).relative_to(Path(*as_path(other[0]).parts, *other[1:]), **options)

    def resolve(self, strict: bool = False) -> "RemotePath":
        """Return this path: there are no links."""
        return self

    def absolute(self) -> "RemotePath":
        """Return this path, which leads from nowhere else."""
        return self

    def is_absolute(self) -> bool:
        """True: a URL leads from nowhere else."""
        return True

    def is_symlink(self) -> bool:
        """False: there are no links."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return size, time and kind.

        Raises:
            FileNotFoundError: there is nothing there.
            StorageError: the store cannot be asked.
        """
        known = self.state
        if known is not None:
            return _make_stat(stat.S_IFREG, known)
        files, name = open_store_of(self)
        with explain_failures(self):
            info = files.info(name)
        return _make_stat(stat.S_IFDIR if info["type"] == "directory" else stat.S_IFREG, _read_state(info))

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is a file or a folder."""
        return self._kind() is not None

    def is_file(self, **_: Any) -> bool:
        """Whether there is a file."""
        return self._kind() == stat.S_IFREG

    def is_dir(self, **_: Any) -> bool:
        """Whether there is a folder: a name that others begin with."""
        return self._kind() == stat.S_IFDIR

    def _kind(self) -> int | None:
        try:
            return stat.S_IFMT(self.stat().st_mode)
        except FileNotFoundError:
            return None

    def open(self, mode: str = "r", *_: Any, encoding: str | None = None, **options: Any) -> IO[Any]:  # type: ignore[override]
        """Open a file for reading; only the parts that are asked for are read. For writing there is `data.files.whole_file`.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: it cannot be read.
            ValueError: the mode is another one than "r" and "rb".
        """
        if mode == "r":
            return io.TextIOWrapper(
                io.BytesIO(self.read_bytes()), encoding=encoding or "utf-8", errors=options.get("errors")
            )
        if mode != "rb":
            raise ValueError(f"{self} is written whole, by data.files.whole_file")
        files, name = open_store_of(self)
        with explain_failures(self):
            blocks = {
                "block_size": BLOCK_BYTES,
                "cache_type": "blockcache",
                "cache_options": {"maxblocks": MAX_BLOCKS},
            }
            return io.BufferedReader(_Explained(files.open(name, "rb", **blocks), self))

    def read_bytes(self, limit: int | None = None) -> bytes:
        """Return the bytes of a file, or the first `limit` of them, in one request.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: it cannot be read.
        """
        files, name = open_store_of(self)
        # an empty file has no part that could be asked for
        size = None if limit is None else self.stat().st_size
        with explain_failures(self):
            whole = size is None or limit is None or size <= limit
            # s3fs else asks for the size first
            once = {"max_concurrency": 1} if "s3" in files.protocol else {}
            content: bytes = (
                files.cat_file(name, **once) if whole else files.cat_file(name, start=0, end=limit)
            )
        return content

    def read_text(
        self, encoding: str | None = None, errors: str | None = None, newline: str | None = None
    ) -> str:
        """Return the text of a file; errors as in `read_bytes`."""
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove a file.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: it cannot be removed.
        """
        files, name = open_store_of(self)
        try:
            with explain_failures(self):
                files.rm_file(name)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: folders are the names of their files."""

    def iterdir(self) -> Iterator["RemotePath"]:  # type: ignore[override]
        """Yield what is directly below a folder, ordered by name: files with sizes and times, folders without `state`.

        Raises:
            StorageError: there is no such bucket or folder, the store cannot be asked, or a folder has no name.
        """
        files, name = open_store_of(self)
        try:
            with explain_failures(self):
                entries = files.ls(name, detail=True)
        except FileNotFoundError as error:
            raise missing_error(self) from error
        found = [
            (str(info["name"]).removeprefix(name.rstrip("/")).removeprefix("/"), info) for info in entries
        ]
        folders = {key.rstrip("/") for key, info in found if info["type"] == "directory"}
        if odd := sorted(folders & {"", ".", ".."}):
            raise StorageError(
                f"{self} holds {len(odd)} names with empty parts, '.' or '..', which name no file of a folder; the first is "
                f"'{self.name}/{odd[0]}/'. Rename them."
            )
        inside = {
            key: info for key, info in found if info["type"] != "directory" and key[-1:] not in ("", "/")
        }
        listed = [(self / key).with_state(_read_state(info)) for key, info in inside.items()]
        yield from sorted([*listed, *(self / key for key in folders)])

    def upload(self, source: Path) -> None:
        """Write a local file here; readers find the old one or the whole new one.

        Raises:
            StorageError: the store cannot be written to.
        """
        files, name = open_store_of(self)
        with explain_failures(self, "written to"):
            try:
                files.put_file(str(source), name)
            except FileNotFoundError as error:
                raise missing_error(self) from error


class _Explained(io.RawIOBase):
    """A file of fsspec whose errors are `StorageError`s that name it."""

    def __init__(self, file: Any, place: RemotePath) -> None:
        self._file, self._place = file, place

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        with explain_failures(self._place):
            content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()


def remove_folder(folder: Path) -> None:
    """Remove a folder with everything below it; nothing where there is none.

    Raises:
        StorageError: the store cannot be written to.
        OSError: a local folder cannot be removed.
    """
    if not isinstance(folder, RemotePath):
        if folder.exists():
            shutil.rmtree(folder)
        return
    files, name = open_store_of(folder)
    with explain_failures(folder, "written to"):
        if files.exists(name):
            files.rm(name, recursive=True)


def map_files(work: Callable[[Path], Result], paths: Sequence[Path]) -> Iterator[Result]:
    """Yield work(path) of every path, in order: if one of them is on a store, which answers slowly, by `READERS` threads."""
    if len(paths) < 2 or not any(map(is_remote, paths)):
        return map(work, paths)
    return map_in_threads(work, paths, READERS)


def _read_state(info: dict[str, Any]) -> ObjectState:
    time = info.get("LastModified") or info.get("mtime") or info.get("updated") or info.get("created") or 0
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    seconds = time.timestamp() if isinstance(time, datetime) else float(time)
    return ObjectState(int(info.get("size") or 0), round(seconds * 1000) * 1_000_000)


def _make_stat(kind: int, state: ObjectState) -> os.stat_result:
    seconds = state.modified / 1e9
    numbers = (kind | 0o644, 0, 0, 1, 0, 0, state.size, int(seconds), int(seconds), int(seconds))
    times = dict.fromkeys(("st_atime", "st_mtime", "st_ctime"), seconds)
    return os.stat_result(
        numbers, times | dict.fromkeys(("st_atime_ns", "st_mtime_ns", "st_ctime_ns"), state.modified)
    )


def _restore(url: str, state: ObjectState | None) -> RemotePath:
    path = RemotePath(url)
    path._state = state
    return path
