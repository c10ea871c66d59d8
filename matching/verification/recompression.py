"""Whether a picture is what another one gives when it is scaled and compressed, and so holds nothing that that one lacks.

The other picture is scaled to the picture's size, and compressed as it was: with its own JPEG tables, or as WebP, AVIF or
JPEG 2000 at the quality that gives a file of its size. What is left is then small everywhere, and no coefficient of a block
differs by more than half a step of each of the two compressions, as where a bird or a digit is missing. It is not where the other
one was sharpened, smoothed, given grain, reduced and enlarged, or changed in a small part, whatever its quality. Below a quality
of 50, compression may hide what was changed.
"""

import io
import re
import warnings
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile, get_sampling

from image_copies.data.arrays import Float32s, UInt8s
from image_copies.data.decode import decode_rgb
from image_copies.data.formats import SIGNATURE_BYTES, detect_format

from .alignment import Grey, Homography, invert, map_points, to_grey

SIDE = 8  # pixels of a side of JPEG's blocks
GREY = np.array([0.299, 0.587, 0.114], np.float32)
# of JPEG's blocks
COSINES = np.asarray(cv2.dct(np.eye(SIDE, dtype=np.float32), flags=cv2.DCT_ROWS).T, np.float32)
# least step that shows in coefficients, and coefficients of which enough is known
MIN_STEP, MIN_PHASES = 3, 1000
MIN_COMB = 0.1  # mean cosine of their phases in what was made of such a file: that of others is about 0
LOW = 3  # frequencies, down and across, whose steps say how coarse a compression is
LOSSLESS = "lossless"
LOSSLESS_FORMS = ("PNG", "BMP", "TIFF", "PPM", "QOI")
# in the first bytes: WebP without loss, and an AVIF or HEIF file that keeps red, green and blue, without loss by other colours
KEPT_EXACTLY = re.compile(rb"RIFF.{4}WEBP.*VP8L|.{4}ftyp.*nclx.{4}\0\0", re.DOTALL)
HEADER_BYTES = 4096


class Tables(NamedTuple):
    """How a JPEG file was compressed.

    Attributes:
        steps: Those of its coefficients, row by row, by table; the first is that of brightness.
        sampling: Pillow's number of its sampling.
        mode: Pillow's.
    """

    steps: list[list[int]]
    sampling: int
    mode: str


def find_coding(content: bytes) -> str:
    """Return the format of a file by its content, LOSSLESS where that keeps pixels as they are."""
    form = detect_format(content[:SIGNATURE_BYTES]) or ""
    return LOSSLESS if form in LOSSLESS_FORMS or KEPT_EXACTLY.match(content[:HEADER_BYTES]) else form


def read_tables(content: bytes) -> Tables | None:
    """Return how a JPEG file was compressed; None for files of other formats and damaged ones."""
    try:
        with warnings.catch_warnings(action="ignore"), JpegImageFile(io.BytesIO(content)) as image:
            # in a file they have any order
            steps = [image.quantization[number] for number in sorted(image.quantization)]
            return Tables(steps, get_sampling(image), image.mode)
    except Exception:  # Pillow raises anything for damaged files
        return None


def read_steps(content: bytes) -> Float32s | None:
    """Return the steps of the coefficients of a file's brightness [8, 8], 1 for none; None where they are not known."""
    if tables := read_tables(content):
        return np.array(tables.steps[0], np.float32).reshape(SIDE, SIDE)
    return np.ones((SIDE, SIDE), np.float32) if find_coding(content) == LOSSLESS else None


def measure_step(content: bytes) -> float | None:
    """Return the geometric mean of the steps of a file's low frequencies, 1 for none; None where they are not known."""
    steps = read_steps(content)
    return None if steps is None else float(np.exp(np.log(steps[:LOW, :LOW]).mean()))


def transform_blocks(grey: Float32s) -> Float32s:
    """Return the coefficients [rows, columns, 8, 8] of the whole blocks of a picture [h, w]."""
    rows, columns = (side // SIDE for side in grey.shape)
    blocks = grey[: rows * SIDE, : columns * SIDE].reshape(rows, SIDE, columns, SIDE).swapaxes(1, 2)
    return np.asarray(COSINES @ blocks @ COSINES.T, np.float32)


def measure_phases(pixels: UInt8s, steps: Float32s) -> float:
    """Return how near coefficients of a picture [h, w, 3] lie to multiples of a file's steps: 1 for all; NaN if few are known."""
    sizes = np.abs(transform_blocks(pixels @ GREY))
    shown = (sizes >= steps / 2) & (steps >= MIN_STEP)
    shown[..., 0, 0] = False
    phases = np.cos(2 * np.pi * sizes / steps)[shown]
    return float(phases.mean()) if phases.size >= MIN_PHASES else np.nan


Pixels = UInt8s
# with which programs and libraries in common use scale: Pillow's filters, but for those that sharpen, and OpenCV's
PILLOW_FILTERS = tuple(map(Image.Resampling, (1, 3, 2, 4, 5, 0)))
OPENCV_FILTERS = cv2.INTER_AREA, cv2.INTER_LINEAR, cv2.INTER_CUBIC, cv2.INTER_NEAREST
WINDOW = 8  # pixels of the windows in which differences are measured
# largest rest over the whole picture: a share of what JPEG or another compression changes, and grey levels
MAX_SHARE = 0.65
MAX_CODED_SHARE = 0.25
MAX_REST = 0.5
MAX_LOCAL_SHARE, MAX_LOCAL_REST = 1.1, 4.0  # the same in any window
# levels of a coefficient that rounding of pixels leaves, and by which half steps are exceeded; tables may be turned
ROUNDED, TOLERANCE = 3.0, 1.05
ALMOST_ALL = 0.999  # share of the coefficients that tells the unknown steps of a compression
# the same of a scaled copy, and the share of a coefficient that filters leave
SCALED_TOLERANCE, FILTERED = 1.25, 0.2
MAX_MEAN_STEP = 60.0  # mean step of brightness in JPEG tables: 57.6 at a quality of 50
MIN_QUALITY = 48  # the lowest of WebP and AVIF, and 34 dB of JPEG 2000
# of pictures that are compressed so
MAX_PIXELS = {"WEBP": 30_000_000, "AVIF": 6_000_000, "JPEG2000": 6_000_000}
# options with which the quality is found roughly
FAST: dict[str, dict[str, int]] = {"WEBP": {"method": 2}, "AVIF": {"speed": 9}}
REACH = 3  # steps of quality around it in which the nearest pixels are found
METADATA = "exif", "icc_profile", "xmp"  # that do not count as coded picture
EXACT = 0.2  # grey levels that are left of what is compressed in the same way as the file
SAME_SCALE = 0.004  # share by which sides may be misjudged
# of a strip, and of those around it that its blocks and windows may reach: whole blocks of JPEG
ROWS, AROUND = 256, 16
SAMPLED_ROWS = 1024  # from twice as many on, a part of the strips tells how a picture was scaled
PALETTE = b"PLTE"  # of a PNG


def follow_by_compression(
    content: bytes, pixels: Pixels, source: Pixels, homography: Homography, kept: bytes = b""
) -> tuple[float, bool] | None:
    """Return how far a picture, scaled and compressed as a file is, is from that file's pixels.

    Args:
        content: The file's bytes.
        pixels: Its pixels [h, w, 3].
        source: The pixels of the picture that it may have been made of [H, W, 3].
        homography: From that picture's pixels to the file's [3, 3].
        kept: The bytes of that picture's file, whose compression the file need not share.

    Returns:
        Grey levels, over the whole picture, and whether the picture was scaled and surely not enlarged from the file, as it shows
        nothing of its steps; None where they differ by more than compression of some encoder does.
    """
    tables, coding = read_tables(content), find_coding(content)
    if tables is not None and np.mean(tables.steps[0]) > MAX_MEAN_STEP:
        return None
    scaled = pixels.shape != source.shape
    parts = _scale(pixels, source, homography) if scaled else iter([source])
    if parts is None or pixels[..., 0].size > MAX_PIXELS.get(coding, np.inf):
        return None
    if all((row == row[:, :1]).all() for row in pixels):  # the first row of most pictures tells
        parts = (
            cv2.cvtColor(cv2.cvtColor(part, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB).astype(np.uint8)
            for part in parts
        )
    if coding in MAX_PIXELS:
        part, whole = _compress_as(coding, content, pixels, list(parts))
    else:
        some = np.arange(len(pixels)) // ROWS % max(1, len(pixels) // SAMPLED_ROWS) == 0

        def leave(part: Pixels) -> float:
            return _compare(_compress_like(tables, part[some]), pixels[some])

        part = whole = min(parts, key=leave) if scaled else next(parts)
    if whole is None:
        return None
    if not scaled and coding == find_coding(kept) == LOSSLESS and PALETTE not in content[:HEADER_BYTES]:
        # what differs without compression was changed
        return (0.0, False) if np.array_equal(part, pixels) else None
    tolerance = SCALED_TOLERANCE if scaled else TOLERANCE
    limits = np.full((SIDE, SIDE), ROUNDED, np.float32)
    for steps in (read_steps(content), read_steps(kept)):
        if steps is not None:
            limits += np.maximum(steps, steps.T) / 2 * tolerance
    if coding in MAX_PIXELS:
        changes = np.abs(transform_blocks(to_grey(part) - to_grey(whole)))
        limits += np.quantile(changes, ALMOST_ALL, axis=(0, 1)).astype(np.float32)
    sums = np.zeros(2)
    for top in range(0, len(pixels), ROWS):
        first = max(0, top - AROUND)
        own, theirs, compressed = (each[first : top + ROWS + AROUND] for each in (pixels, part, whole))
        compressed = _compress_like(tables, compressed)
        local, usual = (_measure_windows(each, compressed) for each in (own, theirs))
        if (local > MAX_LOCAL_SHARE * usual + MAX_LOCAL_REST)[top - first :][:ROWS].any():
            return None
        if _exceeds_steps(own, theirs, compressed, limits, FILTERED if scaled else 0.0):
            return None
        sums += [
            np.square(to_grey(each) - to_grey(compressed))[top - first :][:ROWS].sum()
            for each in (own, theirs)
        ]
    left, changed = np.sqrt(sums / pixels[..., 0].size).tolist()
    share = MAX_CODED_SHARE if coding in MAX_PIXELS else MAX_SHARE
    if left > share * changed + MAX_REST:
        return None
    steps = read_steps(content)
    made = scaled and left < EXACT and steps is not None and measure_phases(part, steps) < MIN_COMB
    return left, made


def _exceeds_steps(own: Pixels, theirs: Pixels, compressed: Pixels, limits: Grey, filtered: float) -> bool:
    """Whether a block differs from its source, and from what compression makes of that, by more than rounding to steps does.

    Args:
        own: A strip of a picture [h, w, 3].
        theirs: The same of its source.
        compressed: The same after compression.
        limits: By how much coefficients may differ [8, 8].
        filtered: Share of a coefficient that the choice of a filter leaves, for what was scaled.
    """
    blocks = [transform_blocks(to_grey(each)) for each in (own, theirs, compressed)]
    allowed = limits + filtered * np.abs(blocks[1])
    from_source, from_compressed = (np.abs(blocks[0] - each) > allowed for each in blocks[1:])
    return bool((from_source.any(axis=(2, 3)) & from_compressed.any(axis=(2, 3))).any())


def _scale(pixels: Pixels, source: Pixels, homography: Homography) -> Iterator[Pixels] | None:
    """Return a picture scaled to a file's size in all ways; None if it is smaller, or the file shows a part of it."""
    size = pixels.shape[1], pixels.shape[0]
    whole = np.array(source.shape[1::-1])
    corners = map_points(invert(homography), np.array([(-0.5, -0.5), np.subtract(size, 0.5)])) + 0.5
    apart = np.abs(corners - [(0, 0), whole])
    if (apart > np.maximum(2, SAME_SCALE * whole)).any() or (whole < size).any():
        return None
    image = Image.fromarray(source)
    return chain(
        (np.asarray(image.resize(size, each)) for each in PILLOW_FILTERS),
        (np.asarray(cv2.resize(source, size, interpolation=each), np.uint8) for each in OPENCV_FILTERS),
    )


def _compress_like(tables: Tables | None, pixels: Pixels) -> Pixels:
    """Return pixels after compression with the tables of a JPEG file; as they are for files of other formats."""
    if tables is None:
        return pixels
    written, colours = io.BytesIO(), tables.mode == "RGB"
    how = (
        {"qtables": tables.steps, "subsampling": max(tables.sampling, 0)}
        if colours
        else {"qtables": tables.steps[:1]}
    )
    image = Image.fromarray(pixels)
    (image.convert("L") if tables.mode == "L" else image).save(written, "JPEG", **how)
    return decode_rgb(written.getvalue())


def _compress_as(
    form: str, content: bytes, wanted: Pixels, parts: list[Pixels]
) -> tuple[Pixels, Pixels | None]:
    """Return the part of which a format makes a file of its size, and what it makes that is nearest; None for a coarse file."""

    @cache
    def compress(quality: int, number: int, **options: int) -> tuple[int, Pixels]:
        written = io.BytesIO()
        decibels = {"quality_mode": "dB", "quality_layers": [20 + 0.3 * quality]}
        how = decibels if form == "JPEG2000" else options | {"quality": quality}
        Image.fromarray(parts[number]).save(written, form, **how)
        return len(written.getvalue()), np.asarray(Image.open(written).convert("RGB"))

    with Image.open(io.BytesIO(content)) as image:
        size = len(content) - sum(len(image.info.get(name) or b"") for name in METADATA)
    tried = range(MIN_QUALITY - 1, 101)
    fast = FAST.get(form, {})
    best = 0
    for _ in range(2):  # the size at a quality is that of the best part
        place = bisect_left(tried, size, key=lambda each: compress(each, best, **fast)[0])
        quality = tried[min(place, len(tried) - 1)]
        best = min(
            range(len(parts)), key=lambda number: _compare(compress(quality, number, **fast)[1], wanted)
        )
    near = [each for each in tried if abs(each - quality) <= REACH]
    quality = min(near, key=lambda each: _compare(compress(each, best)[1], wanted))
    return parts[best], compress(quality, best)[1] if quality >= MIN_QUALITY else None


def _compare(one: Pixels, other: Pixels) -> float:
    return cv2.norm(one, other, cv2.NORM_L1) / one.size


def _measure_windows(one: Pixels, other: Pixels) -> Grey:
    """Return how far two pictures [h, w, 3] differ in each window [h, w], root mean square of the channel that differs most."""
    largest = np.maximum.reduce(cv2.split(cv2.absdiff(one, other))).astype(np.float32)
    return np.asarray(np.sqrt(cv2.blur(largest * largest, (WINDOW, WINDOW))), np.float32)
