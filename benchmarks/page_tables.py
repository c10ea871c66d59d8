"""Tables of documents that a command writes from a file of results, between two marks."""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from measurements import Measurements

from image_copies.data.errors import UserError
from image_copies.data.files import write_text

DOCUMENTS = Path(__file__).parents[1] / "docs"
END = "<!-- to here -->"


def read_table(document: Path, command: str) -> str:
    """Return what stands between the marks of a command.

    Raises:
        UserError: The document lacks a mark.
    """
    return _split(document, command)[1].strip()


def write_table(document: Path, command: str, table: str) -> None:
    """Replace what stands between the marks of a command.

    Raises:
        UserError: The document lacks a mark.
    """
    before, _, after = _split(document, command)
    write_text(document, f"{before}\n\n{table}\n\n{END}{after}")


def write_tables(tables: dict[str, str], command: str) -> None:
    """Replace the table of a command in each document, by its path in the documents' folder."""
    for document, table in tables.items():
        write_table(DOCUMENTS / document, command, table)


def parse_options(
    parser: argparse.ArgumentParser,
    results: Path,
    make_tables: Callable[[Measurements], dict[str, str]],
    command: str,
    with_data: bool = True,
) -> tuple[argparse.Namespace, Measurements]:
    """Return a benchmark's options and its file of results; with --docs write its tables instead, and end the command.

    `with_data`: the first argument is the folder of the development sets, which COPYSETS names otherwise.
    """
    if with_data:
        parser.add_argument("data", type=Path, nargs="?", default=os.environ.get("COPYSETS") or None)
    parser.add_argument("--results", type=Path, default=results, metavar="FILE.json")
    parser.add_argument("--docs", action="store_true", help="measure nothing, write the tables of the documents")
    options = parser.parse_args()
    store = Measurements.open(options.results)
    if options.docs:
        write_tables(make_tables(store), command)
        parser.exit()
    if with_data and options.data is None:
        parser.error("name DATA, or set COPYSETS")
    return options, store


def make_table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def show_mean(values: Sequence[float]) -> str:
    """Return the mean over the seeds, with the standard deviation of several."""
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values, ddof=1):.3f} ({len(values)} seeds)" if len(values) > 1 else "")


def _split(document: Path, command: str) -> tuple[str, str, str]:
    begin = f"<!-- {command} writes from here -->"
    before, begun, rest = document.read_text(encoding="utf-8").partition(begin)
    table, ended, after = rest.partition(END)
    if not begun or not ended:
        raise UserError(f"{document} has no place for the table: it needs the lines {begin} and {END}.")
    return before + begin, table, after
