"""When and by which camera a picture was taken, as its EXIF data say: two shots are no copies, however alike they are."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from PIL import ExifTags

from image_copies.data.errors import ImageError

from .contents import open_picture

# time zones differ by multiples of it, so clocks that were set right later do, too
CLOCK_STEP = timedelta(minutes=15)


@dataclass(frozen=True)
class Shot:
    """When and by which camera a picture was taken.

    Attributes:
        taken: Date and time of the exposure; None where it is not known. The file's date does not count, nor that of an edit.
        fraction: Digits of the fraction of its second; empty where they are not known.
        camera: Make, model and serial number, as far as known; empty where none is.
    """

    taken: datetime | None = None
    fraction: str = ""
    camera: str = ""


def read_shot(content: bytes) -> Shot:
    """Read when and by which camera a picture was taken from the bytes of its file; nothing is known of damaged ones."""
    try:
        with open_picture(content, content) as image:
            outer = image.getexif()
            inner = outer.get_ifd(ExifTags.IFD.Exif)
    except ImageError:
        return Shot()
    names = (
        outer.get(ExifTags.Base.Make),
        outer.get(ExifTags.Base.Model),
        inner.get(ExifTags.Base.BodySerialNumber),
    )
    return Shot(
        _parse_time(inner.get(ExifTags.Base.DateTimeOriginal)),
        _clean(inner.get(ExifTags.Base.SubsecTimeOriginal)),
        " ".join(filter(None, map(_clean, names))),
    )


def tell_shots_apart(first: Shot, second: Shot) -> str:
    """Return why two pictures are two shots, in words; empty where nothing says so."""
    if not first.camera or not second.camera:
        return ""
    if first.camera != second.camera:
        return f"taken with two cameras, {first.camera} and {second.camera}"
    if first.taken is None or second.taken is None:
        return ""
    apart = abs(first.taken - second.taken)
    same_fraction = (
        not first.fraction or not second.fraction or first.fraction.rstrip("0") == second.fraction.rstrip("0")
    )
    if not apart % CLOCK_STEP and same_fraction:
        return ""
    return f"taken {apart or 'less than a second'} apart with one camera"


def _parse_time(value: object) -> datetime | None:
    try:
        return datetime.strptime(_clean(value), "%Y:%m:%d %H:%M:%S")
    except ValueError:
        return None


def _clean(value: object) -> str:
    """Return an entry as text, without the zero bytes that some cameras leave."""
    return "" if value is None else str(value).replace("\0", "").strip()
