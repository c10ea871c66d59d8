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
        name = f"{self._prefix}{len(self._made):05d}.jpg"
        try:
            picture = Image.fromarray(decode_rgb(self._paths[image_id], short_side=THUMBNAIL_SIDE))
        except ImageError:
            return None
        picture.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
        self._folder.mkdir(parents=True, exist_ok=True)
        picture.save(self._folder / name, quality=80)
        return f"{self._folder.name}/{name}"
