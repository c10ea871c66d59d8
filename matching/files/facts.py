"""Facts of a picture file that matter when choosing which copy to keep: size, format, date, sharpness, whether it is whole."""

import os
import re
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import ExifTags

from image_copies.data.arrays import UInt8s
from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError, StorageError, UserError, text_of
from image_copies.data.files import is_link, is_there
from image_copies.data.formats import SIGNATURE_BYTES, detect_format
from image_copies.data.sources.archives import find_archive, read_bytes

from ..verification.contents import open_picture
from .companions import find_companions

STDERR = 2  # file descriptor
# libjpeg's warnings
BROKEN_SCAN = re.compile(rb"premature end|bad Huffman|instead of RST|bad arithmetic", re.IGNORECASE)
_redirecting = threading.Lock()

MEASURED_SIDE = 256  # pixels of the long side at which sharpness and flatness are measured
# how the dates begin that clocks show when they have been reset: those of Macintosh, Unix, here and in America, FAT and cameras
RESET_CLOCKS = "1904-01-01", "1969-12-31", "1970-01-01", "1980-01-01", "2000-01-01 00:00:00"
# grey levels: standard deviation around a plane below which a picture counts as flat
MAX_FLAT_DEVIATION = 2.0


@dataclass(frozen=True)
class Facts:
    """One picture file.

    Attributes:
        path: Absolute path; a member of an archive is prefixed with the archive's path.
        width: Width in pixels; 0 if the picture cannot be decoded.
        height: Height in pixels; 0 if the picture cannot be decoded.
        size: Size of the file in bytes.
        modified: Modification time in nanoseconds since 1970.
        taken: Date of the exposure in the EXIF data, `YYYY-MM-DD HH:MM:SS`; empty if there is none, or a reset clock's.
        form: Format by its content, such as JPEG.
        sharpness: Variance of the Laplacian at a long side of 256 pixels; higher is sharper.
        flat: Whether the picture has no content: a single colour or a plain gradient.
        linked: Whether the path is a symbolic link.
        archived: Whether the path is inside an archive.
        frames: Number of frames of an animation, or of pages.
        companions: Names of the files next to it that belong to it (`companions.py`).
    """

    path: Path
    width: int = 0
    height: int = 0
    size: int = 0
    modified: int = 0
    taken: str = ""
    form: str = ""
    sharpness: float = 0.0
    flat: bool = False
    linked: bool = False
    archived: bool = False
    frames: int = 1
    companions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the file, to be shown."""
        return text_of(self.path.name)

    @property
    def date(self) -> str:
        """Date taken or, where EXIF has none, the file date, as text that sorts by time."""
        return self.taken or str(datetime.fromtimestamp(self.modified // 10**9))

    @property
    def described_date(self) -> str:
        """That date, and which of the two it is."""
        return f"{self.date} ({'taken' if self.taken else 'file date'})"


def picture_facts(path: Path, read: Callable[[Path], dict[str, Any]] | None = None) -> Facts:
    """Read what there is to know of a picture; of one that cannot be read, its size and date only.

    `read` returns what `read_content_facts` does, of a file whose contents may be known already.
    """
    archive = find_archive(path) if not is_there(path) else None
    try:
        state = (archive or path).stat()
        known = (read or read_content_facts)(path)
    except StorageError:
        raise
    except (OSError, UserError):
        return Facts(path, linked=is_link(path), archived=archive is not None)
    return Facts(
        path=path,
        modified=state.st_mtime_ns,
        linked=archive is None and is_link(path),
        archived=archive is not None,
        companions=find_companions(path),
        **known,
    )


def read_content_facts(path: Path) -> dict[str, Any]:
    """Read those of the facts of a picture that depend on its contents alone, by their names.

    Raises:
        OSError: It cannot be read.
        UserError: Its archive or object store cannot be.
    """
    content = read_bytes(path)
    try:
        sharpness, flat = measure_picture(decode_rgb(content, short_side=MEASURED_SIDE))
    except ImageError:
        sharpness, flat = 0.0, False
    form = detect_format(content[:SIGNATURE_BYTES]) or ""
    return {"size": len(content), "form": form, "sharpness": sharpness, "flat": flat} | _read_header(
        content
    )


def is_flat(pixels: UInt8s) -> bool:
    """Whether a picture [h, w, 3] shows nothing: every channel lies within about two grey levels of a plane."""
    height, width = pixels.shape[:2]
    rows, columns = np.mgrid[0:height, 0:width]
    plane = np.stack([np.ones(rows.size), rows.ravel() / height, columns.ravel() / width], axis=1)
    values = pixels.reshape(-1, 3).astype(np.float64)
    fitted, *_ = np.linalg.lstsq(plane, values, rcond=None)
    return bool((values - plane @ fitted).std(axis=0).max() < MAX_FLAT_DEVIATION)


def _read_header(content: bytes) -> dict[str, Any]:
    """Return width and height as shown, date, and number of frames; {} if damaged."""
    try:
        with open_picture(content) as image:
            exif = image.getexif()
            turned = exif.get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
            width, height = image.size[::-1] if turned else image.size
            # not the date of the last change
            stamp = exif.get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.DateTimeOriginal)
            frames = getattr(image, "n_frames", 1)
    except ImageError:
        return {}
    return {"width": width, "height": height, "taken": _parse_date(str(stamp)), "frames": frames}


def _parse_date(stamp: str) -> str:
    try:
        date = str(datetime.strptime(stamp.strip("\0 "), "%Y:%m:%d %H:%M:%S"))
    except ValueError:
        return ""
    return "" if date.startswith(RESET_CLOCKS) else date


def measure_picture(pixels: UInt8s) -> tuple[float, bool]:
    """Return the sharpness of a picture [h, w, 3], at least MEASURED_SIDE if its file is, and whether it shows nothing."""
    scale = MEASURED_SIDE / max(pixels.shape[:2])
    if scale < 1:
        size = max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale))
        pixels = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA))
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    return float(cv2.Laplacian(grey, cv2.CV_64F).var()), is_flat(pixels)


def is_intact(path: Path, readable: bool) -> bool:
    """Whether a picture is decoded whole. The rest of a broken scan of a JPEG is made up, and only a warning says so.

    `readable` says that it was decoded before; False where that is not known.
    """
    try:
        content = read_bytes(path)
        if not readable:
            decode_rgb(content, short_side=1)
    except (OSError, UserError, ImageError):
        return False
    return detect_format(content[:SIGNATURE_BYTES]) != "JPEG" or not BROKEN_SCAN.search(
        _read_warnings(content)
    )


def _read_warnings(content: bytes) -> bytes:
    """Return what libjpeg, as OpenCV contains it, writes to standard error while it decodes; Pillow's says nothing."""
    with _redirecting, tempfile.TemporaryFile() as said:
        before = os.dup(STDERR)
        try:
            os.dup2(said.fileno(), STDERR)
            cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_REDUCED_GRAYSCALE_8)
        finally:
            os.dup2(before, STDERR)
            os.close(before)
        said.seek(0)
        return said.read()
