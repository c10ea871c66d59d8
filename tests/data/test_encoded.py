"""Which files a decoder on the device gets, and which are decoded as always."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from image_copies.data import decode, encoded
from image_copies.data.encoded import EncodedImages, JpegFile, find_plain_jpeg, join_encoded
from image_copies.data.errors import ImageError
from image_copies.data.images import ImageSet
from image_copies.data.loader import SquaresOfSizes

Y, X = np.mgrid[0:60, 0:90]
PICTURE = Image.fromarray(np.stack([np.uint8(127 + 100 * np.sin(X / 9)), np.uint8(2 * Y), np.uint8(X + Y)], axis=2))


def encode(picture: Image.Image = PICTURE, form: str = "JPEG", **options: object) -> bytes:
    with io.BytesIO() as file:
        picture.save(file, form, **options)
        return file.getvalue()


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def with_thumbnail() -> bytes:
    """A JPEG that is cut within its pixels and has a whole one in its EXIF data."""
    exif = Image.Exif()
    exif[0x010E] = "\xff\xd9".encode("latin-1")
    return encode(exif=exif)[:-400]


PLAIN = {
    "4:2:0": encode(),
    "4:4:4": encode(subsampling=0, quality=95),
    "4:2:2": encode(subsampling=1),
    "upright": encode(exif=turned(1)),
    "restart markers": encode(restart_marker_rows=1),
    "trailing bytes": encode() + b"\0" * 100,
}
CAREFUL = {
    "orientation": encode(exif=turned(6)),
    "grey": encode(PICTURE.convert("L")),
    "CMYK": encode(PICTURE.convert("CMYK")),
    "RGB in JPEG": encode(keep_rgb=True),
    "progressive": encode(progressive=True),
    "several pictures": encode(form="MPO", save_all=True, append_images=[PICTURE]),
    "cut": encode()[:-300],
    "cut, with a thumbnail's end": with_thumbnail(),
    "small": encode(PICTURE.resize((7, 30))),
    "PNG": encode(form="PNG"),
    "transparent": encode(PICTURE.convert("RGBA"), "PNG"),
    "16 bits": encode(Image.fromarray((300 * X).astype(np.uint16)), "PNG"),
    "GIF": encode(form="GIF"),
    "empty": b"",
    "no image": b"\xff\xd8\xff no image \xff\xd9",
}


@pytest.mark.parametrize("name", [*PLAIN, *CAREFUL])
def test_only_plain_files_are_left_to_the_device(name: str) -> None:
    found = find_plain_jpeg((PLAIN | CAREFUL)[name])
    assert found == (JpegFile(PLAIN[name], 60, 90) if name in PLAIN else None)


def test_large_pictures_are_decoded_at_a_reduced_scale_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded, "MAX_DEVICE_PIXELS", 60 * 90 - 1)
    assert find_plain_jpeg(PLAIN["4:2:0"]) is None


def test_what_decoding_refuses_is_not_left_to_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    scans = encode() + b"\xff\xda" * (decode.MAX_SCANNED_PIXELS // (60 * 90)) + b"\xff\xd9"
    long = encode() + bytes(1000)
    assert find_plain_jpeg(long) is not None
    with pytest.raises(ImageError, match="scans, too many to decode"):
        decode.decode_rgb(scans)
    assert find_plain_jpeg(scans) is None
    for module in (decode, encoded):
        monkeypatch.setattr(module, "MAX_FILE_BYTES", len(long) - 1)
    with pytest.raises(ImageError, match="is larger than"):
        decode.decode_rgb(long)
    assert find_plain_jpeg(long) is None


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_has_files_and_the_squares_of_all_others(tmp_path: Path, workers: int) -> None:
    contents = [content for pair in zip(CAREFUL.values(), [*PLAIN.values()] * 3, strict=False) for content in pair]
    paths = [tmp_path / f"{number:02d}" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    images = ImageSet([path.name for path in paths] + ["gone"], [*paths, tmp_path / "gone"])
    sizes = [16, 40]
    loader = DataLoader(EncodedImages(images, sizes), 7, num_workers=workers, collate_fn=lambda items: join_encoded(items, sizes))
    files, squares, first = dict[int, bytes](), SquaresOfSizes(images, sizes), 0
    for batch in loader:
        files |= {first + row: file.numpy().tobytes() for row, file in zip(batch.rows, batch.files, strict=True)}
        others = sorted(set(range(len(batch))) - set(batch.rows))
        for size in sizes:
            expected = [squares[first + row][size] for row in others]
            assert torch.equal(batch.squares[size][0], torch.stack([pixels for pixels, _ in expected]))
            assert batch.squares[size][1].tolist() == [readable for _, readable in expected]
        first += len(batch)
    assert first == len(images)
    assert files == {row: content for row, content in enumerate(contents) if row % 2}


def test_batches_of_one_kind() -> None:
    file = JpegFile(PLAIN["4:2:0"], 60, 90)
    only_files = join_encoded([file, file], [16])
    assert only_files.squares[16][0].shape == (0, 3, 16, 16) and len(only_files) == 2
    no_files = join_encoded([{16: (torch.zeros(3, 16, 16, dtype=torch.uint8), False)}], [16])
    assert no_files.files == [] and len(no_files) == 1
