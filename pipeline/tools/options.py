"""Tables of options, and those that several commands have: which network, and from which score a pair counts as a copy."""

import argparse
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from image_copies.data.commands import describe_command, name_command
from image_copies.pipeline.run.cli import CommandParser, named_path, named_place

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
SCORE = checked(float, lambda score: score <= 0, "scores are −‖q − r‖², at most 0; give a number such as -0.5")
SEED = checked(int, lambda seed: 0 <= seed < 2**32, "give a whole number from 0 to 4294967295")
DIR: dict[str, Any] = {"type": named_path, "metavar": "DIR"}
FILE: dict[str, Any] = {"type": named_path, "metavar": "FILE"}
PLACE: dict[str, Any] = {"type": named_place, "metavar": "DIR"}
SOURCES = PLACE | {"nargs": "+", "metavar": "SOURCE", "default": []}
FLAG: dict[str, Any] = {"action": "store_true"}
OPTIONS: Table = {
    "--run": DIR | {"help": "run folder; without it the latest run under runs/"},
    "--data": PLACE | {"help": "the run's data set, if it has been moved"},
    "--checkpoint": FILE | {"help": "use this checkpoint instead of a run"},
    "--onnx": FILE | {"help": "use this .onnx (export.py) instead of a run"},
    "--false-alarms": {"type": RATE, "default": 0.001, "metavar": "RATE"}
    | {"help": "expected per query that copies nothing; default 0.001"},
    "--threshold": {"type": SCORE, "metavar": "SCORE", "help": "lowest score of a copy, instead of --false-alarms"},
    "--json": FLAG | {"help": "results as JSON lines; messages go to standard error"},
}
NETWORK = ("--run", "--data", ("--checkpoint", "--onnx"))
RULE = ("--false-alarms", "--threshold")


def make_task_parser(script: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a script of pipeline/, which is named as the user called it."""
    about = describe_command(description)
    return CommandParser(name_command(script), description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def add_options(options: argparse._ActionsContainer, names: Iterable[str | tuple[str, ...]], table: Table = OPTIONS) -> None:
    """Add options of a table by their names; of those in a tuple one may be given, and a name with a colon heads what follows."""
    group = options
    for name in names:
        if isinstance(name, tuple):
            add_options(group.add_mutually_exclusive_group(), name, table)
        elif name.endswith(":"):
            group = options.add_argument_group(name[:-1])
        else:
            group.add_argument(name, **table[name])
