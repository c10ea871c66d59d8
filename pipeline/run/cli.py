"""What the commands share: a step's options, and errors that end in one message and an exit code."""

import argparse
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from data.errors import UserError
from pipeline.run.run import Run, open_run


def print_anything() -> None:
    """Let characters that the terminal's encoding lacks, and bytes of file names that are no text, be printed as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


print_anything()  # before the first --help: every command imports this module


def named_path(text: str) -> Path:
    """An option's path. An empty one is refused: it would be the current folder, and comes from an unset shell variable."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; name a file or a folder ('.' is the current folder)")
    return Path(text)


def step_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that every step has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--run", type=named_path, metavar="DIR", help="run folder; without it the latest run under runs/")
    parser.add_argument("--recipe", type=named_path, metavar="FILE", help="recipe of a new run, or a changed one for this run")
    parser.add_argument("--data", type=named_path, metavar="DIR", help="data set of a new run, in the ISC2021 layout")
    parser.add_argument(
        "--scale", type=float, metavar="SHARE", help="of a new run: this share of the recipe's classes, at most 2 epochs a stage"
    )
    parser.add_argument("--force", action="store_true", help="do the step again even if nothing has changed")
    return parser


def chosen_run(options: argparse.Namespace) -> Run:
    """The run that the options of `step_parser` name, made where it is new."""
    return open_run(options.run, options.recipe, options.data, options.scale)


def add_data_option(parser: argparse._ActionsContainer) -> None:
    """Add --data, with which a tool opens a run whose data set has moved."""
    parser.add_argument("--data", type=named_path, metavar="DIR", help="the run's data set, where it has been moved")


class Terminated(KeyboardInterrupt):
    """SIGTERM: what is cleaned up on Ctrl-C is cleaned up then, too."""


@contextmanager
def report_errors() -> Iterator[None]:
    """Print an error that a user can mend as one message and exit with 2.

    On Ctrl-C say how to go on and exit with 130, on SIGTERM with 143.
    """
    _end_like_ctrl_c_on_sigterm()
    try:
        yield
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        message = _outside_cause(error)
        if message is None:
            raise
        print(f"error: {message}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as error:
        print("\nstopped; the same command goes on from what is finished", file=sys.stderr)
        sys.exit(143 if isinstance(error, Terminated) else 130)


def _end_like_ctrl_c_on_sigterm() -> None:
    own = os.getpid()

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() != own:
            os._exit(128 + number)  # a forked worker, which has nothing to clean up
        raise Terminated

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)


def _outside_cause(error: Exception) -> str | None:
    """What the machine lacked, where that is what a library's error says."""
    problem = str(error)
    if "DataLoader worker" in problem:
        return (
            f"a worker process that reads images was lost ({problem.strip()}), mostly for want of memory: lower `workers` in the "
            "recipe. The same command goes on from what is finished."
        )
    if getattr(error, "errno", None) == errno.ENOSPC or os.strerror(errno.ENOSPC) in problem:
        return f"the disk is full ({problem}). What is finished is whole: make room, and the same command goes on."
    if isinstance(error, (PermissionError, NotADirectoryError, IsADirectoryError)):
        return f"{error.filename2 or error.filename} cannot be used: {error.strerror}. Choose another path, or mend this one."
    return None
