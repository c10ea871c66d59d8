"""Pictures, and two laid on each other, as notebooks, files and the review page show them."""

import base64
import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import ExifTags, Image

from image_copies.data.arrays import Float32s, UInt8s
from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError, text_of
from image_copies.data.files import whole_file
from image_copies.data.squares import shrink
from image_copies.submissions.report.inputs import render

from ..verification import alignment, edits, geometry, judgement, registration
from ..verification.differences import CLEAR_EXCESS, measure_differences
from ..verification.picture import Picture

TEMPLATES = Path(__file__).parent / "templates"
SHOWN_SIDE = 1000  # pixels of the longer side of two that are laid on each other, at most
PALE = 0.35  # strength of a picture's own colours outside the other one, and under the red of differences
FAINT, STRONG = 1.2, 3.0  # excess of a difference (`differences.py`) from which red begins, and is full
JOINED = 31  # pixels within which differences share a frame
RED = (214, 40, 40)
GAP = 8  # pixels between the pictures of a file
THUMBNAIL_SIDE = 160  # pixels of the long side of a picture in a grid
SHOWN_AS = (".png", ".jpg", ".webp")  # formats of files
SHEET = "image-copies: two pictures laid on each other"  # what a file of ours says of itself
NOT_LAID = "Nothing says how these two could be laid on each other."


@dataclass(frozen=True)
class LaidPair:
    """Two pictures laid on each other; a notebook shows them with a slider.

    They lie in the frame of the one that shows more or else has more pixels, else of the first; each is uint8 [h, w, 3], RGB.

    Attributes:
        files: The two.
        frame: Which of them gives the frame, 0 or 1.
        under: That one.
        laid: The other one warped onto it; where it has no pixels, those of `under`, paled.
        differences: `under`, paled, with what differs by more than tones, sharpness and compression in red, framed.
        frames: Number of frames.
    """

    files: tuple[Path, Path]
    frame: int
    under: UInt8s
    laid: UInt8s
    differences: UInt8s
    frames: int

    @property
    def names(self) -> tuple[str, str]:
        """Names of the picture below and of the one that is laid on it."""
        below, above = self.files if self.frame == 0 else self.files[::-1]
        return text_of(Path(below.name)), text_of(Path(above.name))

    @property
    def differ(self) -> str:
        """Return what differs in words."""
        parts = "1 part differs" if self.frames == 1 else f"{self.frames} parts differ"
        return (
            f"{parts if self.frames else 'Nothing differs'} by more than tones, sharpness and compression"
        )

    def values(self) -> dict[str, Any]:
        """Return the pictures as data URLs, and what is said of them, by name."""
        shown = ("under", "laid", "differences")
        pictures = {name: data_url(getattr(self, name)) for name in shown}
        return pictures | {"frame": self.frame, "differ": self.differ}

    def save(self, path: Path) -> None:
        """Write the two in their order, the second laid on the first or below it, and what differs side by side.

        The name says the format.

        Raises:
            UserError: The disk is full.
        """
        pictures = [self.under, self.laid]
        if self.frame == 1:  # the second file lies below, but the first stands first
            pictures.reverse()
        gap = np.full((len(self.under), GAP, 3), 255, np.uint8)
        sheet = np.concatenate([pictures[0], gap, pictures[1], gap, self.differences], axis=1)
        exif = Image.Exif()
        exif[ExifTags.Base.ImageDescription] = SHEET
        with whole_file(path) as temporary:
            Image.fromarray(sheet).save(temporary, exif=exif)

    def _repr_html_(self) -> str:
        """Return an HTML fragment; notebooks call this."""
        return render(TEMPLATES / "laid.html.jinja", names=self.names, **self.values())


def lay_pair(first: Path, second: Path) -> LaidPair | None:
    """Lay one of two pictures on the other; None where nothing says how.

    Raises:
        ImageError: One of them cannot be read.
    """
    pictures = [shrink(decode_rgb(path, SHOWN_SIDE), SHOWN_SIDE) for path in (first, second)]
    found = registration.register(Picture(first), Picture(second))
    if found is None or (found.inliers < geometry.MIN_INLIERS and found.median < judgement.OTHER_MEDIAN):
        return None
    fixed = 0 if found.swapped else 1
    to_fixed = found.homography @ alignment.map_resized(found.moving.shape, pictures[1 - fixed].shape)
    to_shown = alignment.map_resized(pictures[fixed].shape, found.fixed.shape) @ to_fixed
    # by how much the one that gives the alignment's frame shows more
    more = found.seen.mean() - found.covered.mean()
    larger = int(pictures[0].size < pictures[1].size)
    frame = larger if abs(more) <= 1 - judgement.MAX_SHOWN else fixed if more > 0 else 1 - fixed
    under, other = pictures[frame], pictures[1 - frame]
    size = under.shape[1], under.shape[0]
    onto = to_shown if frame == fixed else alignment.invert(to_shown)
    warped = cv2.warpPerspective(other, onto, size, flags=cv2.INTER_LINEAR)
    covered = alignment.find_covered(other.shape, onto, under.shape)[..., None] > 0.5
    back = (
        alignment.invert(to_fixed)
        if frame != fixed
        else alignment.map_resized(pictures[fixed].shape, found.fixed.shape)
    )
    apart = edits.find_differing(found) | edits.find_clearly_differing(found)
    measured = np.maximum(measure_differences(found, drawn=True), STRONG * apart)
    excess = cv2.warpPerspective(measured, back, size, flags=cv2.INTER_LINEAR)
    differences, frames = _draw_differences(under, np.asarray(excess, np.float32))
    laid = np.where(covered, warped, _pale(under))
    return LaidPair((first, second), frame, under, laid, differences, frames)


def _pale(picture: UInt8s) -> UInt8s:
    return np.asarray(PALE * picture + (1 - PALE) * 235, np.uint8)


def _draw_differences(picture: UInt8s, excess: Float32s) -> tuple[UInt8s, int]:
    """Return a picture, paled, with what differs in red, each part framed; and the number of frames."""
    red = np.clip((excess - FAINT) / (STRONG - FAINT), 0, 1)[..., None]
    drawn = np.asarray((1 - red) * _pale(picture) + red * np.array(RED), np.uint8)
    differing = (excess > CLEAR_EXCESS).astype(np.uint8)
    near = cv2.dilate(differing, np.ones((JOINED, JOINED), np.uint8))
    count, joined, boxes, _ = cv2.connectedComponentsWithStats(near)
    for part, (left, top, width, height, _) in enumerate(boxes[1:].tolist(), 1):
        inside = slice(top, top + height), slice(left, left + width)
        x, y, width, height = cv2.boundingRect(differing[inside] * (joined[inside] == part))
        left, top = left + x, top + y
        cv2.rectangle(drawn, (left, top), (left + width - 1, top + height - 1), RED, 3)
    return drawn, count - 1


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
