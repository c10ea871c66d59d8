"""The table of the claims in docs/papers.md, which is made from the committed results file."""

from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.files import write_text

DOCUMENT = Path(__file__).parents[2] / "docs" / "papers.md"
RESULTS = Path(__file__).parents[1] / "claims.json"  # what the document's table is made from
BEGIN, END = "<!-- benchmarks/claims.py --docs writes from here -->", "<!-- to here -->"


def read_table(document: Path) -> str:
    """Return what stands between the marks.

    Raises:
        UserError: The document lacks a mark.
    """
    return _split(document)[1].strip()


def write_table(document: Path, table: str) -> None:
    """Replace what stands between the marks.

    Raises:
        UserError: The document lacks a mark.
    """
    before, _, after = _split(document)
    write_text(document, f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")


def _split(document: Path) -> tuple[str, str, str]:
    before, begun, rest = document.read_text(encoding="utf-8").partition(BEGIN)
    table, ended, after = rest.partition(END)
    if not begun or not ended:
        raise UserError(f"{document} has no place for the table: it needs the lines {BEGIN} and {END}.")
    return before, table, after
