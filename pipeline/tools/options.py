"""Tables of options, and those that several commands have: which network, and from which score a pair counts as a copy."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from image_copies.pipeline.run.cli import named_path, named_place

T = TypeVar("T")
Table = dict[str, dict[str, Any]]  # the arguments of add_argument, by option


def checked(make: Callable[[str], T], holds: Callable[[T], bool], remedy: str) -> Callable[[str], T]:
    """Return the `type` of an option whose value must fulfil a condition; otherwise the message says what to give."""

    def parse(text: str) -> T:
        value = make(text)
        if not holds(value):
            raise argparse.ArgumentTypeError(f"{text}: {remedy}")
        return value

    parse.__name__ = make.__name__  # argparse names it where the text is no number
    return parse


def at_least(least: int) -> Callable[[str], int]:
    """Return the `type` of an option that takes a whole number of at least so much."""
    return checked(int, lambda number: number >= least, f"give at least {least}")


RATE = checked(float, lambda rate: 0 < rate < 1, "give a rate per query between 0 and 1, such as 0.001")
SCORE = checked(float, lambda score: score <= 0, "scores are −‖q − r‖², at most 0; give a number such as -0.5")
DIR: dict[str, Any] = {"type": named_path, "metavar": "DIR"}
FILE: dict[str, Any] = {"type": named_path, "metavar": "FILE"}
FLAG: dict[str, Any] = {"action": "store_true"}
OPTIONS: Table = {
    "--run": DIR | {"help": "run folder; without it the latest run under runs/"},
    "--data": {"type": named_place, "metavar": "DIR", "help": "the run's data set, if it has been moved"},
    "--checkpoint": FILE | {"help": "use this checkpoint instead of a run"},
    "--onnx": FILE | {"help": "use this .onnx (export.py) instead of a run"},
    "--false-alarms": {"type": RATE, "default": 0.001, "metavar": "RATE"}
    | {"help": "expected per query that copies nothing; default 0.001"},
    "--threshold": {"type": SCORE, "metavar": "SCORE", "help": "lowest score of a copy, instead of --false-alarms"},
    "--json": FLAG | {"help": "results as JSON lines; messages go to standard error"},
}
NETWORK = ("--run", "--data", ("--checkpoint", "--onnx"))
RULE = ("--false-alarms", "--threshold")


def add_options(options: argparse._ActionsContainer, names: Sequence[str | tuple[str, ...]], table: Table = OPTIONS) -> None:
    """Add options of a table by their names; of those in a tuple one may be given, and a name with a colon heads what follows."""
    group = options
    for name in names:
        if isinstance(name, tuple):
            add_options(group.add_mutually_exclusive_group(), name, table)
        elif name.endswith(":"):
            group = options.add_argument_group(name[:-1])
        else:
            group.add_argument(name, **table[name])
