"""The file systems of object stores, which are fsspec's, and what their failures mean to the user."""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from image_copies.data.errors import StorageError
from image_copies.data.installation import name_install


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
    return StorageError(f"{place}: there is no such bucket or folder. Check the name; {bucket} must exist and be readable.")
