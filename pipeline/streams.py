"""What a command's streams can show: characters that the encoding lacks, bars only on a terminal, nothing where nobody reads."""

import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

UNREAD = 141  # exit code, as of a program that SIGPIPE ends


def prepare_streams() -> None:
    """Print characters that the encoding lacks as escapes, and draw no bars where standard error is no terminal.

    Bars are tqdm's, which reads the variables when it is imported. What they count is known even where they are not drawn.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if sys.stderr is None:
        os.environ.setdefault("TQDM_DISABLE", "1")
    elif not sys.stderr.isatty():
        os.environ.setdefault("TQDM_NROWS", "-1")  # rows of the terminal


@contextmanager
def end_with_reader() -> Iterator[None]:
    """End without a message where nobody reads standard output any more, as before `head`; other broken pipes propagate."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        if not _is_unread():
            raise
        # or the interpreter fails to flush it once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(UNREAD)


def _is_unread() -> bool:
    try:
        output = select.poll()
        output.register(sys.stdout, 0)
        return bool(output.poll(0))  # errors only
    except (AttributeError, OSError, ValueError):  # Windows has no poll, a captured stream no number
        return False
