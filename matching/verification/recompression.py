"""Whether a picture is what another one of the same scale gives when it is compressed, and so holds nothing that that one lacks.

The other picture is compressed with the picture's own JPEG tables. What is left is then small everywhere. It is not where the
other one was sharpened, smoothed, given grain, reduced and enlarged, or changed in a small part, whatever its quality.
"""

import io
import itertools

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from image_copies.matching.verification.alignment import Homography, invert, map_points
from image_copies.matching.verification.blocks import Grey, to_grey
from image_copies.matching.verification.quantisation import Tables, read_tables

Pixels = NDArray[np.uint8]
WINDOW = 8  # pixels of the windows in which differences are measured
MAX_SHARE = 0.5  # of what compressing changes, and MAX_REST grey levels, that may be left over the whole picture
MAX_REST = 0.7
MAX_LOCAL_SHARE, MAX_LOCAL_REST = 2.0, 6.0  # the same in any window
SHIFTS = tuple(itertools.product((0, -1, 1), repeat=2))  # pixels by which a part may lie elsewhere than it was found
FOUND_SIDE = 512  # pixels of the part in the middle in which the shift is found
MAX_ALIKE = 1.05  # ratio of what two shifts leave there, up to which the whole decides
ROWS, AROUND = 256, 16  # of a strip, and of those around it that its blocks and windows may reach: whole blocks of JPEG


def follows_by_compression(content: bytes, pixels: Pixels, source: Pixels, homography: Homography) -> bool:
    """Whether a picture, or a part of it, compressed as a file is, gives that file's pixels.

    Args:
        content: The file's bytes.
        pixels: Its pixels [h, w, 3].
        source: The pixels of the picture that it may have been made of [H, W, 3].
        homography: From that picture's pixels to the file's [3, 3].
    """
    part = _find_part(pixels, source, homography)
    if part is None:
        return False
    tables, colourless = read_tables(content), _has_no_colours(pixels)
    left_over = changed = 0.0
    for top in range(0, len(pixels), ROWS):
        first = max(0, top - AROUND)
        own, theirs = (each[first : top + ROWS + AROUND] for each in (pixels, part))
        if colourless:
            theirs = cv2.cvtColor(cv2.cvtColor(theirs, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB).astype(np.uint8)
        compressed = _compress_like(tables, theirs)
        local, usual = (_mean(_square(one, other)) for one, other in ((own, compressed), (theirs, compressed)))
        if (np.sqrt(local) > MAX_LOCAL_SHARE * np.sqrt(usual) + MAX_LOCAL_REST)[top - first :][:ROWS].any():
            return False
        greys = [np.square(to_grey(each) - to_grey(compressed))[top - first :][:ROWS].sum() for each in (own, theirs)]
        left_over, changed = left_over + float(greys[0]), changed + float(greys[1])
    count = pixels.shape[0] * pixels.shape[1]
    return bool(np.sqrt(left_over / count) <= MAX_SHARE * np.sqrt(changed / count) + MAX_REST)


def _find_part(pixels: Pixels, source: Pixels, homography: Homography) -> Pixels | None:
    """Return the part [h, w, 3] of a picture that a file shows, to the pixel; None where it reaches beyond that picture."""
    height, width = pixels.shape[:2]
    left, top = np.rint(map_points(invert(homography), np.zeros((1, 2)))[0]).astype(int)
    middle = tuple(slice(max(0, (side - FOUND_SIDE) // 2), (side + FOUND_SIDE) // 2) for side in (height, width))
    parts = [
        source[row : row + height, column : column + width]
        for row, column in ((top + down, left + across) for down, across in SHIFTS)
        if 0 <= row <= source.shape[0] - height and 0 <= column <= source.shape[1] - width
    ]
    if not parts:
        return None
    differences = [float(cv2.absdiff(part[middle], pixels[middle]).mean()) for part in parts]
    if sum(difference <= MAX_ALIKE * min(differences) for difference in differences) > 1:  # as in the plain middle of a page
        differences = [float(cv2.absdiff(part, pixels).mean()) for part in parts]
    return parts[int(np.argmin(differences))]


def _has_no_colours(pixels: Pixels) -> bool:
    return all((rows == rows[..., :1]).all() for rows in (pixels[top : top + ROWS] for top in range(0, len(pixels), ROWS)))


def _compress_like(tables: Tables | None, pixels: Pixels) -> Pixels:
    """Return pixels after compression with the tables of a JPEG file; as they are for files of other formats."""
    if tables is None:
        return pixels
    written, colours = io.BytesIO(), tables.mode == "RGB"
    how = {"qtables": tables.steps, "subsampling": max(tables.sampling, 0)} if colours else {"qtables": tables.steps[:1]}
    Image.fromarray(pixels).convert("L" if tables.mode == "L" else "RGB").save(written, "JPEG", **how)
    return np.asarray(Image.open(written).convert("RGB"))


def _square(one: Pixels, other: Pixels) -> Grey:
    """Return the squared differences of two pictures [h, w, 3] in the channel that differs most [h, w]."""
    return np.asarray(np.square(one.astype(np.float32) - other).max(axis=2), np.float32)


def _mean(values: Grey) -> Grey:
    return np.asarray(cv2.blur(values, (WINDOW, WINDOW)), np.float32)
