"""Pictures, and two laid on each other, as notebooks, files and the review page show them."""

import base64
import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image

from image_copies.data.arrays import UInt8s
from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError, text_of
from image_copies.data.files import whole_file
from image_copies.data.squares import shrink
from image_copies.submissions.report.inputs import render

from ..verification.overlay import SHOWN_SIDE, Overlay, lay_on_each_other

TEMPLATES = Path(__file__).parent / "templates"
GAP = 8  # pixels between the pictures of a file
THUMBNAIL_SIDE = 160  # pixels of the long side of a picture in a grid
SHOWN_AS = (".png", ".jpg", ".webp")  # formats of files
SHEET = "image-copies: two pictures laid on each other"  # what a file of ours says of itself
NOT_LAID = "Nothing says how these two could be laid on each other."


@dataclass(frozen=True)
class LaidPair:
    """Two pictures laid on each other; a notebook shows them with a slider."""

    overlay: Overlay
    files: tuple[Path, Path]

    @property
    def names(self) -> tuple[str, str]:
        """Names of the picture below and of the one that is laid on it."""
        below, above = self.files if self.overlay.frame == 0 else self.files[::-1]
        return text_of(Path(below.name)), text_of(Path(above.name))

    @property
    def differ(self) -> str:
        """Return what differs in words."""
        count = self.overlay.frames
        parts = "1 part differs" if count == 1 else f"{count} parts differ"
        return f"{parts if count else 'Nothing differs'} by more than tones, sharpness and compression"

    def values(self) -> dict[str, Any]:
        """Return the pictures as data URLs, and what is said of them, by name."""
        shown = ("under", "laid", "differences")
        pictures = {name: data_url(getattr(self.overlay, name)) for name in shown}
        return pictures | {"frame": self.overlay.frame, "differ": self.differ}

    def save(self, path: Path) -> None:
        """Write the two in their order, the second laid on the first or below it, and what differs side by side.

        The name says the format.

        Raises:
            UserError: The disk is full.
        """
        overlay = self.overlay
        pictures = [overlay.under, overlay.laid]
        if overlay.frame == 1:  # the second file lies below, but the first stands first
            pictures.reverse()
        gap = np.full((len(overlay.under), GAP, 3), 255, np.uint8)
        sheet = np.concatenate([pictures[0], gap, pictures[1], gap, overlay.differences], axis=1)
        exif = Image.Exif()
        exif[ExifTags.Base.ImageDescription] = SHEET
        with whole_file(path) as temporary:
            Image.fromarray(sheet).save(temporary, exif=exif)

    def _repr_html_(self) -> str:
        """Return an HTML fragment; notebooks call this."""
        return render(TEMPLATES / "laid.html.jinja", names=self.names, **self.values())


@dataclass(frozen=True)
class PictureGrid:
    """Rows of pictures, which a notebook shows: of each a title, and the pictures with a caption each.

    With `laid`, below each row are its pictures laid on the first one.
    """

    rows: Sequence[tuple[str, Sequence[tuple[Path, str]]]]
    laid: bool = False

    def _repr_html_(self) -> str:
        """Return an HTML fragment; notebooks call this."""
        return render(
            TEMPLATES / "grid.html.jinja",
            rows=self.rows,
            laid=self.laid,
            side=THUMBNAIL_SIDE,
            read=_read,
            lay=_lay,
            text_of=text_of,
        )


def _read(path: Path) -> tuple[str, str]:
    """Return a thumbnail as a data URL, and what is wrong with a file that has none."""
    try:
        return data_url(decode_rgb(path, THUMBNAIL_SIDE), THUMBNAIL_SIDE), ""
    except (UserError, OSError) as error:
        return "", str(error)


def _lay(first: Path, second: Path) -> tuple[str, str]:
    """Return two files laid on each other as HTML, and what is wrong with two of which nothing can be shown."""
    try:
        pair = lay_pair(first, second)
    except (UserError, OSError) as error:
        return "", str(error)
    return (pair._repr_html_(), "") if pair else ("", f"{text_of(second.name)}: {NOT_LAID}")


def lay_pair(first: Path, second: Path) -> LaidPair | None:
    """Lay one of two pictures on the other; None where nothing says how.

    Raises:
        ImageError: One of them cannot be read.
    """
    overlay = lay_on_each_other(first, second)
    return None if overlay is None else LaidPair(overlay, (first, second))


def is_sheet(path: Path) -> bool:
    """Whether a file is one that `LaidPair.save` wrote."""
    with suppress(Exception), Image.open(path) as image:  # damaged and huge pictures raise anything
        return bool(image.getexif().get(ExifTags.Base.ImageDescription) == SHEET)
    return False


def encode_jpeg(pixels: UInt8s, long_side: int) -> bytes:
    """Encode a picture, uint8 [h, w, 3], as JPEG, with its long side reduced to at most `long_side` pixels."""
    content = io.BytesIO()
    Image.fromarray(shrink(pixels, long_side)).save(content, "JPEG", quality=85)
    return content.getvalue()


def data_url(pixels: UInt8s, long_side: int = SHOWN_SIDE) -> str:
    """Encode a picture, uint8 [h, w, 3], as `encode_jpeg` does, as a data URL for an <img>."""
    return f"data:image/jpeg;base64,{base64.b64encode(encode_jpeg(pixels, long_side)).decode()}"
