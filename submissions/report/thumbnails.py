"""Small JPEG copies of images for the report."""

from pathlib import Path

from PIL import Image

from data.decode import decode_rgb
from data.errors import ImageError
from data.images import ImageSet

THUMBNAIL_SIDE = 200


class Thumbnails:
    """Writes each image once into `folder`; a file's name never comes from an id, so that ids may hold anything."""

    def __init__(self, folder: Path, images: ImageSet, prefix: str) -> None:
        self._folder, self._prefix = folder, prefix
        self._paths = dict(zip(images.ids, images.paths, strict=True))
        self._made: dict[str, str | None] = {}

    def __call__(self, image_id: str | None) -> str | None:
        """The thumbnail's path inside the page's folder; None where the image is missing or cannot be read."""
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
