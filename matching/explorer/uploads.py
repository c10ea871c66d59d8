"""Uploaded pictures: decoded once and cached in memory only; the least recently used are dropped."""

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from image_copies.augmentations.edits.registry import TUNED_SIDE
from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError, UserError
from image_copies.data.squares import shrink

MAX_PICTURES = 32
CACHED_SIDE = 2 * TUNED_SIDE  # pixels of the long side
NO_PICTURE = "Send the image again: the explorer keeps only the most recent ones."


@dataclass(frozen=True)
class Uploads:
    """The most recently used uploads, in memory only; threads may share it.

    Names are SHA-256 digests of the bytes; the uploaded file's own name is ignored.
    """

    kept: OrderedDict[str, NDArray[np.uint8]] = field(default_factory=OrderedDict)  # [h, w, 3], the most recently used last
    changing: threading.Lock = field(default_factory=threading.Lock)  # guards `kept`

    def add(self, content: bytes) -> str:
        """Decode and cache a picture, and return its name.

        Raises:
            UserError: when the bytes cannot be decoded as a picture.
        """
        name = hashlib.sha256(content).hexdigest()
        with self.changing:
            picture = self.kept.get(name)
        if picture is None:
            try:
                picture = shrink(decode_rgb(content, short_side=TUNED_SIDE), CACHED_SIDE)
            except ImageError as error:
                raise UserError(f"The file {error.problem}.") from error
        with self.changing:
            self.kept[name] = picture
            self.kept.move_to_end(name)
            while len(self.kept) > MAX_PICTURES:
                self.kept.popitem(last=False)
        return name

    def get(self, name: str) -> NDArray[np.uint8]:
        """Return a picture, uint8 [h, w, 3].

        Raises:
            UserError: when it is no longer cached.
        """
        with self.changing:
            if name not in self.kept:
                raise UserError(NO_PICTURE)
            self.kept.move_to_end(name)
            return self.kept[name]
