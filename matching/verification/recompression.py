"""Whether a picture is what another one of the same scale gives when it is compressed, and so holds nothing that that one lacks.

The other picture is compressed with the picture's own JPEG tables. What is left is then small everywhere. It is not where the
other one was sharpened, smoothed, given grain, reduced and enlarged, or changed in a small part, whatever its quality.
"""

import io
import itertools
import warnings

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, JpegImagePlugin

from image_copies.matching.verification.alignment import Homography, invert, map_points
from image_copies.matching.verification.blocks import Grey

Pixels = NDArray[np.uint8]
WINDOW = 8  # pixels of the windows in which differences are measured
MAX_SHARE = 0.5  # of what compressing changes, and MAX_REST grey levels, that may be left over the whole picture
MAX_REST = 0.7
MAX_LOCAL_SHARE, MAX_LOCAL_REST = 2.0, 6.0  # the same in any window
SHIFTS = tuple(itertools.product((0, -1, 1), repeat=2))  # pixels by which a part may lie elsewhere than it was found


def follows_by_compression(content: bytes, pixels: Pixels, source: Pixels, homography: Homography) -> bool:
    """Whether a picture, or a part of it, compressed as a file is, gives that file's pixels.

    Args:
        content: The file's bytes.
        pixels: Its pixels [h, w, 3].
        source: The pixels of the picture that it may have been made of [H, W, 3].
        homography: From that picture's pixels to the file's [3, 3].
    """
    height, width = pixels.shape[:2]
    left, top = np.rint(map_points(invert(homography), np.zeros((1, 2)))[0]).astype(int)
    found = []
    for down, across in SHIFTS:
        row, column = top + down, left + across
        if 0 <= row <= source.shape[0] - height and 0 <= column <= source.shape[1] - width:
            part = source[row : row + height, column : column + width]
            found.append((float(cv2.absdiff(part, pixels).mean()), part))
    if not found:
        return False
    part = min(found, key=lambda one: one[0])[1]
    if (pixels == pixels[..., :1]).all():  # a copy without colours
        part = cv2.cvtColor(cv2.cvtColor(part, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB).astype(np.uint8)
    compressed = _compress_like(content, part)
    left_over, changed = (_square(one, other) for one, other in ((pixels, compressed), (part, compressed)))
    whole, usual = (np.sqrt(_square(grey, _to_grey(compressed)).mean()) for grey in (_to_grey(pixels), _to_grey(part)))
    local = np.sqrt(_mean(left_over)) <= MAX_LOCAL_SHARE * np.sqrt(_mean(changed)) + MAX_LOCAL_REST
    return bool(whole <= MAX_SHARE * usual + MAX_REST and local.all())


def _compress_like(content: bytes, pixels: Pixels) -> Pixels:
    """Return pixels after compression with the tables of a JPEG file; as they are for files of other formats."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with JpegImagePlugin.JpegImageFile(io.BytesIO(content)) as image:
                tables, sampling, mode = image.quantization, JpegImagePlugin.get_sampling(image), image.mode
    except Exception:  # no JPEG; damaged files raise anything
        return pixels
    written = io.BytesIO()
    plain = {"qtables": tables, "subsampling": max(sampling, 0)} if mode == "RGB" else {"qtables": [tables[0]]}
    Image.fromarray(pixels).convert("L" if mode == "L" else "RGB").save(written, "JPEG", **plain)
    return np.asarray(Image.open(written).convert("RGB"))


def _square(one: Pixels, other: Pixels) -> Grey:
    """Return the squared differences of two pictures [h, w, 3] in the channel that differs most [h, w]."""
    return np.asarray(np.square(one.astype(np.float32) - other).max(axis=2), np.float32)


def _to_grey(pixels: Pixels) -> Pixels:
    return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)[..., None], np.uint8)


def _mean(values: Grey) -> Grey:
    return np.asarray(cv2.blur(values, (WINDOW, WINDOW)), np.float32)
