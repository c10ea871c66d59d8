"""The list of images that cannot be read, each with its reason."""

from collections.abc import Iterable
from pathlib import Path

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError, line_of
from image_copies.data.files import write_text

SMALL_SIDE = 64  # pixels: what cannot be read fails at any size


def list_unreadable(target: Path, images: Iterable[Path]) -> None:
    """Write `file<tab>reason`, one line for each image; remove `target` where there are none.

    The images are looked at once more, one after the other: whoever found that they cannot be read did so in many processes.
    """
    lines = [f"{line_of(path)}\t{_read_failure(path)}\n" for path in images]
    if lines:
        write_text(target, "".join(lines))
    else:
        target.unlink(missing_ok=True)


def _read_failure(path: Path) -> str:
    try:
        decode_rgb(path, short_side=SMALL_SIDE)
    except ImageError as error:
        return line_of(error.problem)
    return "can be read now"
