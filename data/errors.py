"""Errors that a user can mend; scripts print them and exit with code 2."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """An error whose message says what was found, what was expected and what to do."""


class ImageError(UserError):
    """An image that cannot be used; the caller lists it, skips it and continues.

    Attributes:
        path: the image's file.
        problem: what is wrong with it, without the path.
    """

    def __init__(self, path: Path | str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = Path(path)
        self.problem = problem

    def __reduce__(self) -> tuple[type["ImageError"], tuple[Path, str]]:
        return ImageError, (self.path, self.problem)  # crosses worker processes whole


@contextmanager
def naming(subject: Path | str) -> Iterator[None]:
    """Put `subject`, usually a file, in front of the message of a UserError raised within by code that does not know it."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{subject}: {error}") from error
