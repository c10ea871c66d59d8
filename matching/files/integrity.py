"""Whether a picture can be decoded to its end."""

import os
import re
import tempfile
import threading
from pathlib import Path

import cv2
import numpy as np

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError, UserError
from image_copies.data.formats import SIGNATURE_BYTES, detect_format
from image_copies.data.sources.archives import read_bytes

STDERR = 2  # file descriptor
BROKEN_SCAN = re.compile(rb"premature end|bad Huffman|instead of RST|bad arithmetic", re.IGNORECASE)  # libjpeg's warnings
_redirecting = threading.Lock()


def is_intact(path: Path) -> bool:
    """Whether a picture is decoded whole. The rest of a broken scan of a JPEG is made up, and only a warning says so."""
    try:
        content = read_bytes(path)
        decode_rgb(content, short_side=1)
    except (OSError, UserError, ImageError):
        return False
    return detect_format(content[:SIGNATURE_BYTES]) != "JPEG" or not BROKEN_SCAN.search(_read_warnings(content))


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
