"""Image sets: ids and paths."""

import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from .errors import UserError, text_of
from .files import describe_no_folder, is_folder
from .formats import IMAGE_ENDINGS
from .sources.walking import walk


@dataclass(frozen=True)
class ImageSet:
    """Images with ids."""

    ids: list[str]  # unique image ids, usually sorted
    paths: list[Path]  # the image files, in the order of `ids`

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, ids: list[str]) -> "ImageSet":
        """Return the images with these ids, in the given order.

        Raises:
            UserError: an id is not in this set.
        """
        where = dict(zip(self.ids, self.paths, strict=True))
        missing = [image_id for image_id in ids if image_id not in where]
        if missing:
            raise UserError(
                f"{len(missing)} image ids are not in this set of {len(self)} images; the first is {missing[0]!r}."
            )
        return ImageSet(list(ids), [where[image_id] for image_id in ids])

    @cached_property
    def state(self) -> str:
        """The digest with times, as it was when it was first asked for: of a million images it takes seconds."""
        return self.digest()

    def digest(self, *, times: bool = True, prefix: str = "") -> str:
        """Return the hexadecimal SHA-256 of `prefix` and of each image's id, file size and, with `times`, modification time."""
        digest = hashlib.sha256(prefix.encode())
        for image_id, path in zip(self.ids, self.paths, strict=True):
            try:
                state = path.stat()
                facts = [image_id, str(state.st_size)] + ([str(state.st_mtime_ns)] if times else [])
            except OSError:
                facts = [image_id, "gone"]  # a broken link, or removed since it was found
            digest.update(("\0".join(facts) + "\n").encode())
        return digest.hexdigest()


def find_images(folder: Path, naming: Literal["stem", "path", "file"] = "stem") -> ImageSet:
    """Find all images below `folder`, sorted by id.

    Args:
        folder: Searched recursively; hidden files are skipped. Broken links and pipes with an image's extension are included,
            as unreadable images. May be on an object store.
        naming: How ids are made: from the file name without extension ("stem", the ISC2021 layout), or from the path relative to
            `folder` without ("path") or with the extension ("file"). Bytes that are not text become escapes.

    Raises:
        UserError: the folder does not exist or contains no image, two files have the same id, or its store cannot be used.
    """
    if not is_folder(folder):
        raise UserError(f"{describe_no_folder(folder)}. Name a folder that holds images.")
    found = dict[str, Path]()
    begins = len(str(folder / "x")) - 1
    for path in walk(folder):
        name = str(path)[begins:]
        stem, ending = os.path.splitext(name)  # noqa: PTH122 - of millions
        own = stem.rpartition("/")[2]
        if ending.lower() not in IMAGE_ENDINGS or own.startswith("."):
            continue
        image_id = text_of({"stem": own, "path": stem, "file": name}[naming])
        if image_id in found:
            raise UserError(
                f"{found[image_id]} and {path} share the id {image_id!r}. Rename or remove one of them."
            )
        found[image_id] = path
    if not found:
        endings = " ".join(sorted(IMAGE_ENDINGS))
        raise UserError(f"{folder} holds no image (looked for {endings}, in subfolders too).")
    ids = sorted(found)
    return ImageSet(ids, [found[image_id] for image_id in ids])
