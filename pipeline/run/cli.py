"""Shared parts of the command line: options, and errors reported as one message with an exit code."""

import argparse
import errno
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from image_copies.data.commands import PROGRAM, describe_command, find_version, name_command, name_install
from image_copies.data.errors import UserError
from image_copies.data.files import is_disk_full, is_read_only
from image_copies.data.remote import as_path, is_remote

from ..streams import end_with_reader, prepare_streams

if TYPE_CHECKING:
    from .run import Run

prepare_streams()  # before the first --help: every command imports this module


class CommandParser(argparse.ArgumentParser):
    """A parser that answers what it does not understand in one line, and a misspelt option with the nearest right one."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Answer --version, and look for misspelt options first: otherwise what they leave out is reported as missing."""
        given = list(sys.argv[1:] if args is None else args)
        words = given[: given.index("--")] if "--" in given else given
        if "--version" in words:
            print(f"{PROGRAM} {find_version()}")
            self.exit()
        for word in words:
            name = word.partition("=")[0]
            known = self._option_string_actions
            if name.startswith("--") and not any(option.startswith(name) for option in known):
                shown = [option for option, action in known.items() if action.help != argparse.SUPPRESS]
                meant = get_close_matches(name, [*shown, "--version"], 1)
                self.error(f"there is no option {name}." + (f" Did you mean {meant[0]}?" if meant else ""))
        return super().parse_known_args(given, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the message and where the options are listed, and exit with code 2."""
        self.exit(
            2,
            f"error: {message.rstrip('.')}{'' if message.endswith('?') else '.'} See {self.prog} --help\n",
        )


def named_path(text: str) -> Path:
    """Parse the path of an option, which must be on this machine; to be used as its `type`.

    Raises:
        argparse.ArgumentTypeError: when the path is empty, or on an object store.
    """
    path = named_place(text)
    if is_remote(path):
        raise argparse.ArgumentTypeError(
            f"{text} is on an object store; this option needs a file or folder of this machine: copy it with the store's own tool"
        )
    return path


def named_place(text: str) -> Path:
    """Parse the path of an option, or a URL such as s3://bucket/photos; to be used as its `type`.

    Raises:
        argparse.ArgumentTypeError: when the path is empty, as from an unset shell variable: it would mean the current folder; or
            when it is a URL that cannot be used.
    """
    if not text:
        raise argparse.ArgumentTypeError(
            "the path is empty; give a file or a folder ('.' is the current folder)"
        )
    try:
        return as_path(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def make_step_parser(description: str | None, program: str | None = None) -> argparse.ArgumentParser:
    """Return a parser with the options that every step has; `program` is the command's name, if not that of its file."""
    parser = CommandParser(program, description=description)
    parser.add_argument(
        "--run", type=named_path, metavar="DIR", help="run folder; default: the latest under runs/"
    )
    parser.add_argument(
        "--recipe",
        type=named_path,
        metavar="FILE",
        help="recipe of a new run, or a changed recipe for this run",
    )
    parser.add_argument(
        "--data",
        type=named_place,
        metavar="DIR",
        help="data set of a new run, in the ISC2021 layout; or s3://…",
    )
    parser.add_argument(
        "--scale",
        type=float,
        metavar="SHARE",
        help="for a new run: use this share of the recipe's classes, and at most 2 epochs per stage",
    )
    parser.add_argument("--force", action="store_true", help="repeat the step even if nothing has changed")
    return parser


def open_chosen_run(options: argparse.Namespace) -> "Run":
    """Open the run that the options of `make_step_parser` name, creating it if it is new.

    Raises:
        UserError: when there is no such run, data set or recipe, or the recipe is invalid (see `open_run`).
    """
    from .run import open_run  # imported here: --help must answer at once

    return open_run(options.run, options.recipe, options.data, options.scale)


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, so that the same clean-up runs as on Ctrl-C."""


@contextmanager
def report_errors() -> Iterator[None]:
    """Print an error that the user can fix as one message and exit with code 2.

    On Ctrl-C, say how to continue and exit with code 130; on SIGTERM, with 143. Any other exception propagates.
    """
    terminated = _end_like_ctrl_c_on_sigterm()
    try:
        with end_with_reader():
            yield
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        message = describe_outside_cause(error)
        if message is None:
            raise
        print(f"error: {message}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as error:
        sys.excepthook = lambda *_: None  # of threads that still serve a worker, which is gone
        print(
            "\nstopped; finished files and vectors are kept, the same command does the rest again",
            file=sys.stderr,
        )
        sys.exit(143 if isinstance(error, Terminated) or terminated.is_set() else 130)  # Ray raises its own


def _end_like_ctrl_c_on_sigterm() -> threading.Event:
    """Raise `Terminated` on SIGTERM, and return what tells that it has come."""
    own, terminated = os.getpid(), threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() != own:
            os._exit(128 + number)  # a forked worker, which has nothing to clean up
        terminated.set()
        raise Terminated

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
    return terminated


def describe_outside_cause(error: Exception) -> str | None:
    """Return a message if a library's error means that memory, disk space or permissions are lacking; else None."""
    file = getattr(error, "filename2", None) or getattr(error, "filename", None)
    problem = str(error)
    if "DataLoader worker" in problem or isinstance(error, BrokenProcessPool):
        return (
            f"a worker process that reads images died ({problem.strip()}), usually for lack of memory: end what else uses it, or "
            "lower `workers` in the recipe. The same command continues from what is finished."
        )
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("image_copies"):
        return f"{error.name} is not installed, which this task needs. Install it with: {name_install('train')}"
    if getattr(error, "errno", None) == errno.ENAMETOOLONG:
        return f"{file} cannot be used: the name is longer than the disk allows. Choose a shorter one."
    if is_disk_full(error):
        return (
            f"the disk is full ({problem}). Finished files are complete: make room and repeat the command."
        )
    if is_read_only(error) and file is None:  # HDF5, safetensors and SQLite do not name the file
        return f"a file cannot be written: its folder is read-only ({problem}). Make it writable, or name another folder."
    if isinstance(error, (PermissionError, NotADirectoryError, IsADirectoryError)) or is_read_only(error):
        return f"{file} cannot be used: {getattr(error, 'strerror', error)}. Choose another path or correct this one."
    return None


T = TypeVar("T")
Table = dict[str, dict[str, Any]]  # the arguments of add_argument, by option


def checked(make: Callable[[str], T], holds: Callable[[T], bool], remedy: str) -> Callable[[str], T]:
    """Return the `type` of an option whose value must be made and fulfil a condition; otherwise the message says what to give."""

    def parse(text: str) -> T:
        with suppress(ValueError):  # no number
            if holds(value := make(text)):
                return value
        raise argparse.ArgumentTypeError(f"{text}: {remedy}")

    return parse


def at_least(least: int) -> Callable[[str], int]:
    """Return the `type` of an option that takes a whole number of at least so much."""
    return checked(int, lambda number: number >= least, f"give a whole number of at least {least}")


def above_zero(such_as: str) -> Callable[[str], float]:
    """Return the `type` of an option that takes a finite number above 0."""
    return checked(float, lambda number: 0 < number < math.inf, f"give a number above 0, such as {such_as}")


RATE = checked(float, lambda rate: 0 < rate < 1, "give a rate per query between 0 and 1, such as 0.001")
PORT = checked(int, lambda port: 0 <= port < 2**16, "give a port from 1024 to 65535, or 0 for any free one")
PIXELS = checked(int, lambda side: side >= 16, "give at least 16 pixels")
SCORE = checked(
    float, lambda score: score <= 0, "scores are −‖q − r‖², at most 0; give a number such as -0.5"
)
SEED = checked(int, lambda seed: 0 <= seed < 2**32, "give a whole number from 0 to 4294967295")
DIR: dict[str, Any] = {"type": named_path, "metavar": "DIR"}
FILE: dict[str, Any] = {"type": named_path, "metavar": "FILE"}
PLACE: dict[str, Any] = {"type": named_place, "metavar": "DIR"}
SOURCES = PLACE | {"nargs": "+", "metavar": "SOURCE", "default": []}
FLAG: dict[str, Any] = {"action": "store_true"}
OPTIONS: Table = {
    "--run": DIR | {"help": "run folder; without it the latest run under runs/"},
    "--data": PLACE | {"help": "the run's data set, if it has been moved"},
    "--checkpoint": FILE
    | {"help": "use this checkpoint, or any network as FILE.onnx[@PIXELS], instead of a run"},
    "--with": FILE
    | {"dest": "joined", "help": "join another network, as FILE.onnx[@PIXELS] or a checkpoint"},
    "--false-alarms": {"type": RATE, "default": 0.001, "metavar": "RATE"}
    | {"help": "expected per query that copies nothing; default 0.001"},
    "--threshold": {
        "type": SCORE,
        "metavar": "SCORE",
        "help": "lowest score of a copy, instead of --false-alarms",
    },
    "--json": FLAG | {"help": "results as JSON lines; messages go to standard error"},
}
NETWORK = ("--run", "--data", "--checkpoint", "--with")
RULE = ("--false-alarms", "--threshold")


def make_task_parser(script: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a script of pipeline/, which is named as the user called it."""
    about = describe_command(description)
    return CommandParser(
        name_command(script), description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_options(
    options: argparse._ActionsContainer, names: Iterable[str | tuple[str, ...]], table: Table = OPTIONS
) -> None:
    """Add options of a table by their names; of those in a tuple one may be given, and a name with a colon heads what follows."""
    group = options
    for name in names:
        if isinstance(name, tuple):
            add_options(group.add_mutually_exclusive_group(), name, table)
        elif name.endswith(":"):
            group = options.add_argument_group(name[:-1])
        else:
            group.add_argument(name, **table[name])
