"""Pictures that were sent: decoded once, kept in memory only, the least recently used forgotten."""

import base64
import hashlib
import io
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from augmentations.edits.registry import TUNED_SIDE
from data.decode import decode_rgb
from data.errors import ImageError, UserError
from data.loader import shrink

KEPT = 32
KEPT_SIDE = 2 * TUNED_SIDE
SHOWN_SIDE = 240
NO_PICTURE = "Send the image again: the explorer keeps only the last ones."


@dataclass(frozen=True)
class Pictures:
    """The last pictures that were sent, in memory only. Names are digests of the bytes: what the sender calls a file is ignored.

    Attributes:
        kept: Name → pixels [h, w, 3], the most recently used last.
    """

    kept: OrderedDict[str, NDArray[np.uint8]] = field(default_factory=OrderedDict)
    changing: threading.Lock = field(default_factory=threading.Lock)

    def add(self, content: bytes) -> str:
        """Decode and keep; returns the name. UserError says what is wrong with the bytes."""
        name = hashlib.sha256(content).hexdigest()
        with self.changing:
            picture = self.kept.get(name)
        if picture is None:
            try:
                picture = shrink(decode_rgb(content, short_side=TUNED_SIDE), KEPT_SIDE)
            except ImageError as error:
                raise UserError(f"The file {error.problem}.") from error
        with self.changing:
            self.kept[name] = picture
            self.kept.move_to_end(name)
            while len(self.kept) > KEPT:
                self.kept.popitem(last=False)
        return name

    def get(self, name: str) -> NDArray[np.uint8]:
        """The picture [h, w, 3]. UserError when it is not kept."""
        with self.changing:
            if name not in self.kept:
                raise UserError(NO_PICTURE)
            self.kept.move_to_end(name)
            return self.kept[name]


def jpeg(pixels: NDArray[np.uint8], long_side: int = SHOWN_SIDE) -> bytes:
    """The picture [h, w, 3] as a JPEG, its long side at most `long_side`."""
    target = io.BytesIO()
    Image.fromarray(shrink(pixels, long_side)).save(target, "JPEG", quality=85)
    return target.getvalue()


def data_url(pixels: NDArray[np.uint8], long_side: int = TUNED_SIDE) -> str:
    """The picture as text that an <img> shows."""
    return "data:image/jpeg;base64," + base64.b64encode(jpeg(pixels, long_side)).decode()
