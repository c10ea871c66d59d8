"""Small JPEG copies of images for the report."""

from pathlib import Path

from PIL import Image

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.images import ImageSet

THUMBNAIL_SIDE = 200  # pixels of the longer side


class Thumbnails:
    """Writes a thumbnail of each image once, with a prefix and a number as name, so that ids may contain any character.

    The folder is created with the first thumbnail.
    """

    def __init__(self, folder: Path, images: ImageSet, prefix: str) -> None:
        self._folder, self._prefix = folder, prefix
        self._paths = dict(zip(images.ids, images.paths, strict=True))
        self._made: dict[str, str | None] = {}

    def __call__(self, image_id: str | None) -> str | None:
        """Return the thumbnail's path relative to the page; None where the image is missing or cannot be decoded."""
        if image_id is None or image_id not in self._paths:
            return None
        if image_id not in self._made:
            self._made[image_id] = self._write(image_id)
        return self._made[image_id]

    def _write(self, image_id: str) -> str | None:
        target = self._folder / f"{self._prefix}{len(self._made):05d}.jpg"
        return f"{self._folder.name}/{target.name}" if write_thumbnail(self._paths[image_id], target) else None


def write_thumbnail(source: Path | bytes, target: Path) -> bool:
    """Write a small copy of an image, given by its path or its bytes; returns whether it can be decoded."""
    try:
        picture = Image.fromarray(decode_rgb(source, short_side=THUMBNAIL_SIDE))
    except ImageError:
        return False
    picture.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    target.parent.mkdir(parents=True, exist_ok=True)
    picture.save(target, quality=80)
    return True
