"""Tables of documents that a command writes from a file of results, between two marks."""

from pathlib import Path

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


def make_table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _split(document: Path, command: str) -> tuple[str, str, str]:
    begin = f"<!-- {command} writes from here -->"
    before, begun, rest = document.read_text(encoding="utf-8").partition(begin)
    table, ended, after = rest.partition(END)
    if not begun or not ended:
        raise UserError(f"{document} has no place for the table: it needs the lines {begin} and {END}.")
    return before + begin, table, after
