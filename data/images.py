"""Lists of images: ids beside paths."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from data.errors import UserError
from data.formats import IMAGE_ENDINGS


@dataclass(frozen=True)
class ImageSet:
    """Images with ids.

    Attributes:
        ids: unique, usually sorted.
        paths: of the same images, in the same order.
    """

    ids: list[str]
    paths: list[Path]

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, ids: list[str]) -> "ImageSet":
        """The images named by `ids`, in that order.

        Raises:
            UserError: an id is not in this set; the message names the first.
        """
        where = dict(zip(self.ids, self.paths, strict=True))
        missing = [image_id for image_id in ids if image_id not in where]
        if missing:
            raise UserError(f"{len(missing)} image ids are not in this set of {len(self)}, the first is {missing[0]!r}.")
        return ImageSet(list(ids), [where[image_id] for image_id in ids])

    def digest(self, *, times: bool = True, prefix: str = "") -> str:
        """SHA-256 in hexadecimal of `prefix`, then ids, file sizes and, with `times`, modification times, in their order."""
        digest = hashlib.sha256(prefix.encode())
        for image_id, path in zip(self.ids, self.paths, strict=True):
            try:
                state = path.stat()
                facts = [image_id, str(state.st_size)] + ([str(state.st_mtime_ns)] if times else [])
            except OSError:
                facts = [image_id, "gone"]  # a link that leads nowhere, or removed since it was found
            digest.update(("\0".join(facts) + "\n").encode())
        return digest.hexdigest()


def find_images(folder: Path | str, naming: Literal["stem", "path", "file"] = "stem") -> ImageSet:
    """All images below `folder`, sorted by id.

    Args:
        folder: searched with its subfolders; hidden files are passed over. Links that lead nowhere and pipes count as images
            that cannot be read.
        naming: what makes an id: the file's name without its ending ("stem", the ISC2021 layout), its path below `folder` without
            the ending ("path") or with it ("file").

    Raises:
        UserError: no such folder, no image in it, two files with the same id.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder. Name a folder that holds images.")
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in IMAGE_ENDINGS or path.name.startswith(".") or path.is_dir():
            continue
        below = path.relative_to(folder)
        image_id = {"stem": path.stem, "path": below.with_suffix("").as_posix(), "file": below.as_posix()}[naming]
        if image_id in found:
            raise UserError(f"{found[image_id]} and {path} share the id {image_id!r}. Rename or remove one of them.")
        found[image_id] = path
    if not found:
        endings = " ".join(sorted(IMAGE_ENDINGS))
        raise UserError(f"{folder} holds no image (looked for {endings}, in subfolders too).")
    ids = sorted(found)
    return ImageSet(ids, [found[image_id] for image_id in ids])
