"""Whether a picture is what another one gives when it is scaled and compressed, and so holds nothing that that one lacks.

The other picture is scaled to the picture's size, and compressed as it was: with its own JPEG tables, or as WebP or AVIF at the
quality that gives a file of its size. What is left is then small everywhere, and no coefficient of a block differs by more than
half a step of each of the two compressions, as where a bird or a digit is missing. It is not where the other one was sharpened,
smoothed, given grain, reduced and enlarged, or changed in a small part, whatever its quality. Below a quality of 50, compression
may hide what was changed.
"""

import io
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from image_copies.data.formats import SIGNATURE_BYTES, detect_format
from image_copies.matching.verification.alignment import Homography, invert, map_points
from image_copies.matching.verification.blocks import Grey, to_grey
from image_copies.matching.verification.quantisation import SIDE, Tables, read_tables, transform_blocks

Pixels = NDArray[np.uint8]
Scaling = Callable[[Pixels, tuple[int, int]], Pixels]
WINDOW = 8  # pixels of the windows in which differences are measured
MAX_SHARE, MAX_REST = 0.25, 0.5  # largest rest over the whole picture: a share of what compression changes, and grey levels
MAX_EARLIER_SHARE, MAX_SCALED_REST = 0.65, 0.2  # for a scaled copy also a share of its source's changes, and grey levels
MAX_LOCAL_SHARE, MAX_LOCAL_REST = 0.55, 4.0  # largest rest in any window: a share of both changes, and grey levels
ROUNDED, TOLERANCE = 3.0, 1.05  # levels of a coefficient that rounding of pixels leaves, and by which steps are exceeded
ALMOST_ALL = 0.999  # share of the coefficients that tells the unknown steps of a compression
SCALED_TOLERANCE, FILTERED = 1.25, 0.2  # the same of a part or a scaled copy, and the share of a coefficient that filters leave
MAX_MEAN_STEP = 60.0  # mean step of brightness in JPEG tables: 57.6 at a quality of 50
MIN_QUALITY, FIRST_QUALITY = 48, 75  # qualities of WebP and AVIF: the lowest, and the first to be tried
SAME = 0.1  # grey levels by which pixels differ that were compressed in one way
GROWTH = 0.03  # how much the logarithm of a file's size grows per step of quality, about
MAX_PIXELS = {"WEBP": 30_000_000, "AVIF": 6_000_000}  # pixels of pictures that are compressed so, in about 6 s each time
FAST: dict[str, dict[str, int]] = {"WEBP": {"method": 2}, "AVIF": {"speed": 9}}  # options with which the quality is found roughly
LOSSLESS, LOSSLESS_FORMS = "lossless", ("PNG", "BMP", "TIFF")
RGB_CODED, HEADER_BYTES = re.compile(rb"nclx.{4}\0\0", re.DOTALL), 4096  # an AVIF or HEIF file without loss by other colours
CODED = (b"VP8 ", b"mdat")  # parts of WebP and AVIF files that hold the picture
SHIFTS = tuple(itertools.product((0, -1, 1), repeat=2))  # pixels by which a part may lie elsewhere than it was found
FOUND_SIDE = 512  # pixels of the part in the middle in which the shift and the scaling are found
MAX_ALIKE = 1.05  # ratio of what two shifts leave there, up to which the whole decides
SAME_SCALE = 0.004  # share by which sides may be misjudged
ROWS, AROUND = 256, 16  # of a strip, and of those around it that its blocks and windows may reach: whole blocks of JPEG


def _scale_by_pillow(filter_: Image.Resampling) -> Scaling:
    return lambda pixels, size: np.asarray(Image.fromarray(pixels).resize(size, filter_))


def _scale_by_opencv(interpolation: int) -> Scaling:
    return lambda pixels, size: np.asarray(cv2.resize(pixels, size, interpolation=interpolation), np.uint8)


SCALINGS: tuple[Scaling, ...] = (  # those of programs and libraries in common use
    *map(_scale_by_pillow, (Image.Resampling.LANCZOS, Image.Resampling.BICUBIC, Image.Resampling.BILINEAR, Image.Resampling.BOX)),
    _scale_by_pillow(Image.Resampling.HAMMING),
    *map(_scale_by_opencv, (cv2.INTER_LINEAR, cv2.INTER_CUBIC)),
)


def follow_by_compression(
    content: bytes, pixels: Pixels, source: Pixels, homography: Homography, kept: bytes = b""
) -> float | None:
    """Return how far a picture, or a part of it, scaled and compressed as a file is, is from that file's pixels.

    Args:
        content: The file's bytes.
        pixels: Its pixels [h, w, 3].
        source: The pixels of the picture that it may have been made of [H, W, 3].
        homography: From that picture's pixels to the file's [3, 3].
        kept: The bytes of that picture's file, if it is a JPEG whose compression the file need not share.

    Returns:
        Grey levels, over the whole picture; None where they differ by more than compression of some encoder does.
    """
    tables, coding = read_tables(content), find_coding(content)
    if tables is not None and np.mean(tables.steps[0]) > MAX_MEAN_STEP:
        return None
    codec = coding if coding in MAX_PIXELS else ""
    part, scaled = _find_part(pixels, source, homography), False
    if part is None:
        part, scaled = _scale_part(content, codec, pixels, source, homography), True
    if part is None or (codec and part[..., 0].size > MAX_PIXELS[codec]):
        return None
    if _has_no_colours(pixels):
        part = cv2.cvtColor(cv2.cvtColor(part, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB).astype(np.uint8)
    whole = part
    if codec:
        quality, _ = _compress_to_size(codec, content, part, FIRST_QUALITY, FAST[codec])
        found = _compress_to_pixels(codec, content, pixels, part, quality)
        if found is None:
            return None
        whole = found
    known = read_tables(kept)
    earlier = known if scaled else None  # of a source of the same scale, the steps themselves decide
    limits = _find_limits(tables, known, whole_frame=not scaled and part.shape == source.shape)
    if codec:
        limits += _measure_half_steps(part, whole)
    filtered = FILTERED if scaled else 0.0
    left_over = changed = changed_before = 0.0
    for top in range(0, len(pixels), ROWS):
        first = max(0, top - AROUND)
        own, theirs, compressed = (each[first : top + ROWS + AROUND] for each in (pixels, part, whole))
        compressed, before = _compress_like(tables, compressed), _compress_like(earlier, theirs)
        local, *usual = (np.sqrt(_mean(_square(*pair))) for pair in ((own, compressed), (theirs, compressed), (theirs, before)))
        if (local > MAX_LOCAL_SHARE * sum(usual) + MAX_LOCAL_REST)[top - first :][:ROWS].any():
            return None
        if _exceeds_steps(own, theirs, compressed, limits, filtered):
            return None
        sums = [
            float(np.square(to_grey(one) - to_grey(other))[top - first :][:ROWS].sum())
            for one, other in ((own, compressed), (theirs, compressed), (theirs, before))
        ]
        left_over, changed, changed_before = left_over + sums[0], changed + sums[1], changed_before + sums[2]
    left, usual_change, earlier_change = np.sqrt(np.array([left_over, changed, changed_before]) / pixels[..., 0].size)
    rest = MAX_EARLIER_SHARE * earlier_change + MAX_SCALED_REST if scaled else MAX_REST
    return float(left) if left <= MAX_SHARE * usual_change + rest else None


def _find_limits(tables: Tables | None, earlier: Tables | None, whole_frame: bool) -> Grey:
    """Return by how much the coefficients [8, 8] of a picture's blocks may differ from those of its source.

    Args:
        tables: How the picture was compressed; None if not as JPEG.
        earlier: How its source was.
        whole_frame: Whether their blocks lie on each other.
    """
    half_steps = np.zeros((SIDE, SIDE), np.float32)
    for each in filter(None, (tables, earlier)):
        steps = np.array(each.steps[0], np.float32).reshape(SIDE, SIDE)
        half_steps += np.maximum(steps, steps.T) / 2  # it may be shown turned
    return half_steps * (TOLERANCE if whole_frame else SCALED_TOLERANCE) + ROUNDED


def _measure_half_steps(part: Pixels, compressed: Pixels) -> Grey:
    """Return by how much compression of unknown steps changes almost all coefficients [8, 8], in the middle of a picture."""
    height, width = (min(side, FOUND_SIDE) // SIDE * SIDE for side in part.shape[:2])
    top, left = (part.shape[0] - height) // 2, (part.shape[1] - width) // 2
    one, other = (to_grey(each[top : top + height, left : left + width]) for each in (part, compressed))
    return np.asarray(np.quantile(np.abs(transform_blocks(one - other)), ALMOST_ALL, axis=(0, 1)), np.float32)


def _exceeds_steps(own: Pixels, theirs: Pixels, compressed: Pixels, limits: Grey, filtered: float) -> bool:
    """Whether a block differs from its source, and from what compression makes of that, by more than rounding to steps does.

    Args:
        own: A strip of a picture [h, w, 3].
        theirs: The same of its source.
        compressed: The same after compression.
        limits: By how much coefficients may differ [8, 8].
        filtered: Share of a coefficient that the choice of a filter leaves, for what was scaled.
    """
    height, width = (side // SIDE * SIDE for side in own.shape[:2])
    blocks = [transform_blocks(to_grey(each)[:height, :width]) for each in (own, theirs, compressed)]
    allowed = limits + filtered * np.abs(blocks[1])
    from_source, from_compressed = (np.abs(blocks[0] - each) > allowed for each in blocks[1:])
    return bool((from_source.any(axis=(2, 3)) & from_compressed.any(axis=(2, 3))).any())


def _find_part(pixels: Pixels, source: Pixels, homography: Homography) -> Pixels | None:
    """Return the part [h, w, 3] of a picture that a file shows, to the pixel; None where it was scaled or reaches beyond."""
    if pixels.shape == source.shape:
        return source
    height, width = pixels.shape[:2]
    box = _find_box(pixels, source, homography)
    if max(abs((box[2] - box[0]) / width - 1), abs((box[3] - box[1]) / height - 1)) > SAME_SCALE:
        return None
    left, top = np.rint(box[:2]).astype(int)
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


def _find_box(pixels: Pixels, source: Pixels, homography: Homography) -> NDArray[np.float64]:
    """Return the edges of what a file shows in its source's pixels: left, top, right and bottom."""
    height, width = pixels.shape[:2]
    corners = np.array([[-0.5, -0.5], [width - 0.5, height - 0.5]])
    return (map_points(invert(homography), corners) + 0.5).ravel()


def _scale_part(content: bytes, codec: str, pixels: Pixels, source: Pixels, homography: Homography) -> Pixels | None:
    """Return the part of a picture that a file shows, scaled to its size in the way that fits best; None if it is larger."""
    height, width = pixels.shape[:2]
    box = _find_box(pixels, source, homography)
    frame = np.array([0, 0, source.shape[1], source.shape[0]])
    tolerance = np.maximum(2, SAME_SCALE * frame[[2, 3, 2, 3]])
    left, top, right, bottom = np.rint(np.where(np.abs(box - frame) <= tolerance, frame, box)).astype(int)
    if left < 0 or top < 0 or right > frame[2] or bottom > frame[3] or right - left < width or bottom - top < height:
        return None
    shown = source[top:bottom, left:right]
    middle = tuple(slice(max(0, (side - FOUND_SIDE) // 16 * 8), (side + FOUND_SIDE) // 2) for side in (height, width))
    if codec:
        quality, _ = _compress_to_size(codec, content, SCALINGS[0](shown, (width, height)), FIRST_QUALITY, FAST[codec])

    def measure(part: Pixels) -> float:
        compressed = _encode(codec, part, quality, FAST[codec])[1] if codec else _compress_like(read_tables(content), part)
        return float(np.square(to_grey(compressed) - to_grey(pixels[middle])).mean())

    return min((scale(shown, (width, height)) for scale in SCALINGS), key=lambda part: measure(part[middle]))


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


def _compress_to_size(
    form: str, content: bytes, pixels: Pixels, first: int, options: Mapping[str, int] = MappingProxyType({})
) -> tuple[int, Pixels]:
    """Return the quality that gives a file of the size of another one, below MIN_QUALITY if it is coarser, and what it gives.

    Args:
        form: WEBP or AVIF.
        content: The bytes of the other file.
        pixels: What is compressed [h, w, 3].
        first: Quality that is tried first.
        options: Of the encoder.
    """
    wanted, low, high = measure_coded(content), MIN_QUALITY - 1, 101
    quality, best, found = min(max(first, MIN_QUALITY), 100), np.inf, (MIN_QUALITY - 1, pixels)
    while low + 1 < high:
        size, made = _encode(form, pixels, quality, options)
        excess = float(np.log(size / wanted))
        if abs(excess) < best:
            best, found = abs(excess), (quality, made)
        low, high = (quality if excess <= 0 else low), (quality if excess >= 0 else high)
        quality = int(np.clip(quality - round(excess / GROWTH), low + 1, high - 1))
    return found if low >= MIN_QUALITY or best < -np.log(1 - GROWTH) else (MIN_QUALITY - 1, pixels)


def _compress_to_pixels(form: str, content: bytes, wanted: Pixels, pixels: Pixels, first: int) -> Pixels | None:
    """Return what compression to the size of a file gives that is nearest its pixels; None where the file is coarser."""
    quality, made = _compress_to_size(form, content, pixels, first)
    if quality < MIN_QUALITY:
        return None
    least = float(cv2.absdiff(made, wanted).mean())
    for other in (quality + 1, quality - 1, quality + 2, quality - 2):  # sizes need not grow with each step
        if least > SAME and MIN_QUALITY <= other <= 100:
            _, again = _encode(form, pixels, other, {})
            difference = float(cv2.absdiff(again, wanted).mean())
            if difference < least:
                least, made = difference, again
    return made


def _encode(form: str, pixels: Pixels, quality: int, options: Mapping[str, int]) -> tuple[int, Pixels]:
    """Return the size of the coded picture, and the pixels that it gives."""
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, form, quality=quality, **options)
    return measure_coded(written.getvalue()), np.asarray(Image.open(written).convert("RGB"))


def find_coding(content: bytes) -> str:
    """Return the format of a file by its content, LOSSLESS where that keeps pixels as they are."""
    form = detect_format(content[:SIGNATURE_BYTES]) or ""
    lossless = form == "WEBP" and any(kind == b"VP8L" for kind, _ in _list_parts(content))
    untransformed = form in ("AVIF", "HEIF") and RGB_CODED.search(content[:HEADER_BYTES])
    return LOSSLESS if lossless or untransformed or form in LOSSLESS_FORMS else form


def measure_coded(content: bytes) -> int:
    """Return the size of the coded picture in a WebP or AVIF file, without its metadata."""
    return sum(length for kind, length in _list_parts(content) if kind in CODED) or len(content)


def _list_parts(content: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the kinds and lengths of the chunks of a WebP file, or of the boxes of an AVIF file."""
    webp = content[:4] == b"RIFF"
    place = 12 if webp else 0
    while place + 8 <= len(content):
        words = content[place : place + 4], content[place + 4 : place + 8]
        kind, length = (words[0], 8 + int.from_bytes(words[1], "little")) if webp else (words[1], int.from_bytes(words[0], "big"))
        yield kind, length
        place += max(8, length + (length % 2 if webp else 0))


def _square(one: Pixels, other: Pixels) -> Grey:
    """Return the squared differences of two pictures [h, w, 3] in the channel that differs most [h, w]."""
    return np.asarray(np.square(one.astype(np.float32) - other).max(axis=2), np.float32)


def _mean(values: Grey) -> Grey:
    return np.asarray(cv2.blur(values, (WINDOW, WINDOW)), np.float32)
