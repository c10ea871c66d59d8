"""Errors that the user can fix; scripts print their message and exit with code 2. Paths as text that a message can show."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """An error that the user can fix; its message says what was found, what was expected and what to do."""


class StorageError(UserError):
    """A store of files that cannot be used: unreachable, refusing, or without the bucket.

    It says nothing about a single file: who skips files that cannot be read lets it pass. Raised in a worker process of torch,
    it keeps its message and drops the traceback that torch puts before it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.rpartition(f"{type(self).__name__}: ")[2].strip())


class ImageError(UserError):
    """An image that cannot be used; the caller records it, skips it and continues.

    Attributes:
        path: The image file, or `<bytes>`.
        problem: What is wrong with it, without the path.
    """

    def __init__(self, path: Path | str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path if isinstance(path, Path) else Path(path)
        self.problem = problem

    def __reduce__(self) -> tuple[type["ImageError"], tuple[Path, str]]:
        return ImageError, (self.path, self.problem)  # keeps both fields when pickled by a worker process


@contextmanager
def prefix_errors(subject: Path | str) -> Iterator[None]:
    """Prefix the message of an error raised in the block with `subject`, usually a file that the raising code does not know.

    Raises:
        UserError: when the block raises one; with the prefixed message.
    """
    try:
        yield
    except UserError as error:
        raise UserError(f"{subject}: {error}") from error


def text_of(path: Path | str) -> str:
    """Return a path as text that can be encoded in UTF-8; bytes that are no text become escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def line_of(path: Path | str) -> str:
    """Return a path as one line of text; tabs, line breaks and other control characters become escapes, too."""
    return "".join(
        c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text_of(path)
    )
