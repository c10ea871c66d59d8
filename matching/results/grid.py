"""Groups of pictures as a grid that a notebook shows."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import starmap
from pathlib import Path

from PIL import Image

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError
from image_copies.data.names import text_of

SHOWN_SIDE = 160  # pixels of a thumbnail's long side


@dataclass(frozen=True)
class PictureGrid:
    """Rows of pictures: of each a title, and the pictures with a caption each; its thumbnails are in the HTML itself."""

    rows: Sequence[tuple[str, Sequence[tuple[Path, str]]]]

    def _repr_html_(self) -> str:
        """Return an HTML fragment; notebooks call this."""
        return "".join(
            f'<h4>{escape(title)}</h4><div style="display:flex;flex-wrap:wrap;gap:8px">{"".join(starmap(_show, pictures))}</div>'
            for title, pictures in self.rows
        )


def _show(path: Path, caption: str) -> str:
    try:
        picture = f'<img src="data:image/jpeg;base64,{_encode_thumbnail(path)}" alt="{escape(text_of(path))}">'
    except (UserError, OSError) as error:
        picture = escape(str(error))
    return f'<figure style="margin:0;width:{SHOWN_SIDE}px">{picture}<figcaption>{escape(caption)}</figcaption></figure>'


def _encode_thumbnail(path: Path) -> str:
    content = io.BytesIO()
    thumbnail = Image.fromarray(decode_rgb(path, SHOWN_SIDE))
    thumbnail.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
    thumbnail.save(content, "JPEG", quality=80)
    return base64.b64encode(content.getvalue()).decode()
