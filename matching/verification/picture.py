"""A picture as it is compared with others: what is made of it is made when it is first asked for, and kept."""

import hashlib
from collections import ChainMap
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

import cv2
import numpy as np
from PIL import ExifTags

from image_copies.data.arrays import Float32s, UInt8s
from image_copies.data.decode import MAX_FILE_BYTES, Decoded, decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.sources.archives import read_image_bytes

from .alignment import MAX_SIDE, reduce_picture
from .contents import Contents, open_picture, read_contents
from .features import DECODED_SIDE, Features, detect_features, local_features, reduce_to_grey

# time zones differ by multiples of it, so clocks that were set right later do, too
CLOCK_STEP = timedelta(minutes=15)
CAMERA = ExifTags.Base.Make, ExifTags.Base.Model, ExifTags.Base.BodySerialNumber
TAKEN, FRACTION = ExifTags.Base.DateTimeOriginal, ExifTags.Base.SubsecTimeOriginal
# pixels of the side of a thumbnail, from which structure wider than an eighth of it is removed
THUMBNAIL = 32
Pixels = UInt8s


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture. What is asked of one that cannot be read raises ImageError.

    Attributes:
        source: Its file, that one's bytes, or its pixels [h, w, 3], RGB, in place of a file.
        decoded: What was decoded of it before, which is kept with it.
    """

    source: Path | bytes | Pixels
    decoded: Decoded | None = None

    def read(self, short_side: int | None = None) -> Pixels:
        """Return its pixels [h, w, 3], RGB, reduced at most to this short side; None for all."""
        return (
            self.source
            if isinstance(self.source, np.ndarray)
            else decode_rgb(self.source, short_side, self.decoded)
        )

    @property
    def file(self) -> Path | bytes:
        """Its file, or that one's bytes."""
        assert not isinstance(self.source, np.ndarray), "pixels are no file"
        return self.source

    @property
    def content(self) -> bytes:
        """The bytes of its file, which are not kept."""
        return (
            self.file if isinstance(self.file, bytes) else read_image_bytes(self.file, MAX_FILE_BYTES + 1)
        )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of its file."""
        return hashlib.sha256(self.content).digest()

    @cached_property
    def _shown(self) -> tuple[Pixels, Pixels, dict[int, str]]:
        """Its reduced pixels, grey values in which features are found, and the tags of its shot, of one reading."""
        if isinstance(self.source, np.ndarray):
            return reduce_picture(self.source), reduce_to_grey(self.source), {}
        content = self.content
        pixels = decode_rgb(content, MAX_SIDE, self.decoded)
        return reduce_picture(pixels), reduce_to_grey(pixels), _read_tags(content)

    @property
    def pixels(self) -> Pixels:
        """Its reduced pixels [h, w, 3]."""
        return self._shown[0]

    @property
    def taken(self) -> datetime | None:
        """Date and time of the exposure; None where it is not known. The file's date does not count, nor that of an edit."""
        with suppress(ValueError):
            return datetime.strptime(self._shown[2].get(TAKEN, ""), "%Y:%m:%d %H:%M:%S")
        return None

    @property
    def fraction(self) -> str:
        """Digits of the fraction of its second; empty where they are not known."""
        return self._shown[2].get(FRACTION, "")

    @property
    def camera(self) -> str:
        """Make, model and serial number, as far as known; empty where none is."""
        return " ".join(self._shown[2][tag] for tag in CAMERA if self._shown[2].get(tag))

    @cached_property
    def features(self) -> Features:
        """The local features by which pairs are verified."""
        return local_features(self.read(DECODED_SIDE))

    @cached_property
    def close_features(self) -> Features:
        """Its local features as it is compared; not needed where a pair's features were verified before."""
        return detect_features(self._shown[1])

    @cached_property
    def thumbnail(self) -> Float32s:
        """Details [THUMBNAIL, THUMBNAIL] of the whole frame; all 0 where there are none."""
        grey = cv2.cvtColor(self.pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)
        small = cv2.resize(grey, (THUMBNAIL, THUMBNAIL), interpolation=cv2.INTER_AREA)
        return np.round(small - cv2.GaussianBlur(small, (0, 0), THUMBNAIL / 8), 1).astype(np.float32)

    @cached_property
    def contents(self) -> Contents:
        """What its file holds."""
        return read_contents(self.file)


def _read_tags(content: bytes) -> dict[int, str]:
    """Read when and by which camera a picture was taken, as texts by tag; nothing is known of damaged ones."""
    try:
        with open_picture(content, content) as image:
            exif = image.getexif()
            tags = ChainMap(exif.get_ifd(ExifTags.IFD.Exif), exif)
    except ImageError:
        return {}
    # without the zero bytes that some cameras leave
    return {
        tag: str(tags[tag]).replace("\0", "").strip() for tag in (*CAMERA, TAKEN, FRACTION) if tag in tags
    }


def tell_shots_apart(first: Picture, second: Picture) -> str:
    """Return why two pictures are two shots, in words; empty where nothing says so."""
    if not first.camera or not second.camera:
        return ""
    if first.camera != second.camera:
        return f"taken with two cameras, {first.camera} and {second.camera}"
    if first.taken is None or second.taken is None:
        return ""
    apart = abs(first.taken - second.taken)
    same_fraction = (
        not first.fraction
        or not second.fraction
        or first.fraction.rstrip("0") == second.fraction.rstrip("0")
    )
    if not apart % CLOCK_STEP and same_fraction:
        return ""
    return f"taken {apart or 'less than a second'} apart with one camera"
