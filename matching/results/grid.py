"""Groups of pictures as a grid that a notebook shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import starmap
from pathlib import Path

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError, text_of
from image_copies.matching.results.overlays import NOT_LAID, data_url, lay_pair

SHOWN_SIDE = 160  # pixels of a thumbnail's long side
ROW = "display:flex;flex-wrap:wrap;gap:8px;margin:8px 0"
# a long name is broken, and does not run into the next one
FIGURE = f"margin:0;width:{SHOWN_SIDE}px;overflow-wrap:anywhere"


@dataclass(frozen=True)
class PictureGrid:
    """Rows of pictures: of each a title, and the pictures with a caption each; its thumbnails are in the HTML itself.

    With `laid`, below each row are its pictures laid on the first one.
    """

    rows: Sequence[tuple[str, Sequence[tuple[Path, str]]]]
    laid: bool = False

    def _repr_html_(self) -> str:
        """Return an HTML fragment; notebooks call this."""
        return "".join(
            f'<h4>{escape(title)}</h4><div style="{ROW}">{"".join(starmap(_show, pictures))}</div>'
            + "".join(_lay(pictures[0][0], path) for path, _ in pictures[1:] if self.laid)
            for title, pictures in self.rows
        )


def _show(path: Path, caption: str) -> str:
    try:
        picture = (
            f'<img src="{data_url(decode_rgb(path, SHOWN_SIDE), SHOWN_SIDE)}" alt="{escape(text_of(path))}">'
        )
    except (UserError, OSError) as error:
        picture = escape(str(error))
    return f'<figure style="{FIGURE}">{picture}<figcaption>{escape(caption)}</figcaption></figure>'


def _lay(first: Path, second: Path) -> str:
    try:
        pair = lay_pair(first, second)
    except (UserError, OSError) as error:
        return f"<p>{escape(str(error))}</p>"
    return pair._repr_html_() if pair else f"<p>{escape(text_of(second.name))}: {NOT_LAID}</p>"
