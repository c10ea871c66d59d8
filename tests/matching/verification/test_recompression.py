"""A compressed picture, or a part of one, follows from its source; whatever else was changed does not."""

import io
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from image_copies.data.procedural import draw_picture
from image_copies.matching.verification.recompression import EXACT, ROWS, follow_by_compression, read_tables
from tests.pictures import decode, encode

Pixels = NDArray[np.uint8]


@pytest.fixture(scope="module")
def source() -> Pixels:
    """A picture that is higher than two strips."""
    rng = np.random.default_rng(5)
    drawn = np.asarray(Image.fromarray(draw_picture(rng, 640)).resize((300, 2 * ROWS + 90)))
    pixels: Pixels = np.clip(drawn + rng.normal(0, 5, drawn.shape), 0, 255).astype(np.uint8)
    return pixels


def compress(pixels: Pixels, quality: int = 70, **options: object) -> bytes:
    return encode(Image.fromarray(pixels), "JPEG", quality=quality, **options)


def show(content: bytes) -> Pixels:
    return np.asarray(decode(content))


def follows(content: bytes, source: Pixels, left: int = 0, top: int = 0) -> bool:
    return follow_by_compression(content, show(content), source, np.array([[1.0, 0, -left], [0, 1, -top], [0, 0, 1]])) is not None


def sharpen(pixels: Pixels) -> Pixels:
    return np.asarray(Image.fromarray(pixels).filter(ImageFilter.UnsharpMask(1, 60)))


def brighten(pixels: Pixels) -> Pixels:
    brighter: Pixels = np.clip(pixels + 3.0, 0, 255).astype(np.uint8)
    return brighter


def mark(row: int) -> Callable[[Pixels], Pixels]:
    """Draw a dot of 10 pixels at a row."""

    def draw_dot(pixels: Pixels) -> Pixels:
        changed = pixels.copy()
        changed[row : row + 10, 100:110] = 255 - changed[row : row + 10, 100:110]
        return changed

    return draw_dot


@pytest.mark.parametrize("quality", [50, 70, 95])
@pytest.mark.parametrize("subsampling", [0, 2])
def test_a_compressed_copy_follows(source: Pixels, quality: int, subsampling: int) -> None:
    assert follows(compress(source, quality, subsampling=subsampling), source)


def test_a_copy_without_colours_follows(source: Pixels) -> None:
    grey = Image.fromarray(source).convert("L")
    assert follows(compress(np.asarray(grey)), source)
    assert follows(compress(np.asarray(grey.convert("RGB"))), source)


def test_a_part_that_reaches_beyond_the_source_does_not_follow(source: Pixels) -> None:
    assert not follows(compress(source), source[:-40])


@pytest.mark.parametrize("edit", [sharpen, brighten, mark(20), mark(ROWS - 5), mark(2 * ROWS), mark(2 * ROWS + 80)])
@pytest.mark.parametrize("quality", [70, 95])
def test_an_edited_copy_does_not_follow(source: Pixels, edit: Callable[[Pixels], Pixels], quality: int) -> None:
    assert not follows(compress(edit(source), quality), source)


def darken(levels: int, width: int, height: int) -> Callable[[Pixels], Pixels]:
    """Draw a bird before a sky, or a spot."""

    def draw_bird(pixels: Pixels) -> Pixels:
        changed = pixels.astype(np.int64)
        changed[200 : 200 + height, 102 : 102 + width] -= levels
        return np.clip(changed, 0, 255).astype(np.uint8)

    return draw_bird


@pytest.mark.parametrize(("kept", "quality"), [(92, 75), (92, 92), (95, 52), (100, 60)])
@pytest.mark.parametrize(("levels", "width", "height"), [(0, 0, 0), (15, 13, 5), (30, 13, 5), (53, 13, 5), (30, 7, 7)])
@pytest.mark.parametrize("side", [1.0, 0.5])
def test_what_is_faint_and_small_does_not_follow_however_coarse_the_files_are(
    source: Pixels, kept: int, quality: int, levels: int, width: int, height: int, side: float
) -> None:
    """A bird of 13 × 5 pixels was lost for good."""
    whole = show(compress(np.asarray(Image.fromarray(source).filter(ImageFilter.GaussianBlur(2))), kept))
    size = round(whole.shape[1] * side), round(whole.shape[0] * side)
    changed = Image.fromarray(darken(levels, width, height)(whole)).resize(size, Image.Resampling.LANCZOS)
    content = compress(np.asarray(changed), quality)
    homography = np.diag([size[0] / whole.shape[1], size[1] / whole.shape[0], 1.0])
    found = follow_by_compression(content, show(content), whole, homography, compress(whole, kept))
    assert (found is None) == (levels > 0)


@pytest.mark.parametrize("quality", [75, 90, 95])
def test_a_copy_scaled_by_a_filter_between_two_that_are_tried_follows(source: Pixels, quality: int) -> None:
    size = round(source.shape[1] * 0.7), round(source.shape[0] * 0.7)
    filters = Image.Resampling.LANCZOS, Image.Resampling.BILINEAR
    scaled = np.mean([np.asarray(Image.fromarray(source).resize(size, each)) for each in filters], axis=0)
    content = compress(scaled.round().astype(np.uint8), quality)
    homography = np.diag([size[0] / source.shape[1], size[1] / source.shape[0], 1.0])
    assert follow_by_compression(content, show(content), source, homography) is not None


def test_files_of_other_formats_follow_only_with_the_same_pixels(source: Pixels) -> None:
    written = encode(Image.fromarray(source))
    assert follows(written, source) and not follows(written, brighten(source))


def test_tables_are_known_by_their_numbers_in_any_order(source: Pixels) -> None:
    content = compress(source, 50)
    first, second = (content.index(b"\xff\xdb\x00\x43" + bytes([number])) for number in (0, 1))
    assert second == first + 69  # the marker and 67 bytes
    swapped = content[:first] + content[second : second + 69] + content[first:second] + content[second + 69 :]
    assert read_tables(swapped) == read_tables(content)
    assert follows(swapped, source)


@pytest.mark.parametrize("form", ["JPEG", "WEBP", "AVIF", "PNG"])
@pytest.mark.parametrize("filter_", [Image.Resampling.LANCZOS, Image.Resampling.BICUBIC, Image.Resampling.BOX])
def test_a_scaled_and_compressed_copy_follows_and_an_edited_one_does_not(
    source: Pixels, form: str, filter_: Image.Resampling
) -> None:
    for edit, following in ((lambda pixels: pixels, True), (sharpen, False), (brighten, False), (mark(300), False)):
        written, scaled = io.BytesIO(), Image.fromarray(edit(source)).resize((210, 421), filter_)
        scaled.save(written, form, quality=70)
        pixels = np.asarray(Image.open(written).convert("RGB"))
        left = follow_by_compression(written.getvalue(), pixels, source, np.diag([0.7, 421 / 602, 1.0]))
        assert (left is not None) == following


def test_what_a_file_was_reduced_from_is_told_from_what_was_enlarged_from_it(source: Pixels) -> None:
    content = compress(np.asarray(Image.fromarray(source).resize((150, 301))), 60, subsampling=0)
    enlarged = np.asarray(decode(content).resize((300, 602), Image.Resampling.NEAREST))
    for whole, made in ((source, True), (enlarged, False)):
        found = follow_by_compression(content, show(content), whole, np.diag([0.5, 0.5, 1.0]))
        assert found is not None and found[0] < EXACT and found[1] == made


def test_what_is_coarser_than_changes_of_a_digit_does_not_follow(source: Pixels) -> None:
    assert follows(compress(source, 50), source) and not follows(compress(source, 40), source)


@pytest.mark.parametrize("form", ["WEBP", "AVIF"])
def test_metadata_do_not_count_as_coded_picture(source: Pixels, form: str) -> None:
    """The quality of a WebP or AVIF file is found by its size."""
    content = encode(Image.fromarray(source), form, quality=60, icc_profile=bytes(90_000))
    assert follows(content, source)


def test_what_differs_without_compression_was_changed(source: Pixels) -> None:
    """One pixel, or the last bits; a palette may have been chosen for a file."""
    changed = source.copy()
    changed[40, 50] += 10
    kept, last_bits = encode(Image.fromarray(source)), source ^ np.uint8(1)
    for pixels, form, following in (
        (source, "PNG", True),
        (source, "BMP", True),
        (changed, "PNG", False),
        (last_bits, "TIFF", False),
    ):
        content = encode(Image.fromarray(pixels), form)
        assert (follow_by_compression(content, pixels, source, np.eye(3), kept) is not None) == following
