"""Pack images to learn from into a tar that travels to a GPU with the code: reduced, as WebP, at the quality that fits.

    python benchmarks/gpu_set.py DIR [DIR ...] --output set.tar --megabytes 20     # folders in the ISC2021 layout

All training images of all folders are in it, and for the layout's sake few references and queries of the first one.
"""

import argparse
import io
import sys
import tarfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PIL import Image

from image_copies.data.images import find_images
from image_copies.data.layout import QUERY, REFERENCE, TRAINING
from image_copies.data.process import map_on_cores

QUALITIES = (80, 70, 60, 50, 40, 30)  # of WebP, tried in this order
SCORED = 50  # references, and queries


def reduce_picture(side: int, quality: int, path: Path) -> bytes:
    """Return a picture, of which the shorter side has at most `side` pixels, as WebP."""
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    scale = min(1.0, side / min(picture.size))
    picture = picture.resize([max(1, round(scale * length)) for length in picture.size], Image.Resampling.LANCZOS)
    written = io.BytesIO()
    picture.save(written, "WEBP", quality=quality, method=6)
    return written.getvalue()


def list_pictures(folders: Sequence[Path]) -> dict[str, Path]:
    """Return the path of each picture by its name in the tar; of several of one name in one folder the first."""
    found = dict[str, Path]()
    for number, folder in enumerate(folders):
        parts = {TRAINING: None} if number else {TRAINING: None, REFERENCE: SCORED, QUERY: SCORED}
        for part, count in parts.items():
            for path in find_images(folder / part).paths[:count]:
                found.setdefault(f"{part}/{path.stem}.webp", path)
    return found


def pack(folders: Sequence[Path], side: int, most: int) -> tuple[bytes, int, int]:
    """Return a tar of at most so many bytes, the quality at which it fits, and how many pictures it holds.

    Raises:
        ValueError: It does not fit at any quality.
    """
    listed = list_pictures(folders)
    for quality in QUALITIES:
        written = io.BytesIO()
        with tarfile.open(fileobj=written, mode="w") as archive:
            reduced = map_on_cores(partial(reduce_picture, side, quality), list(listed.values()))
            for name, content in zip(listed, reduced, strict=True):
                about = tarfile.TarInfo(name)
                about.size = len(content)
                archive.addfile(about, io.BytesIO(content))
        if written.tell() <= most:
            return written.getvalue(), quality, len(listed)
    raise ValueError(f"{len(listed):,} pictures of {side} px take {written.tell() / 2**20:.1f} MiB: fewer pixels, or more MiB.")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--pixels", type=int, default=160, help="of the shorter side, at most (default: 160)")
    parser.add_argument("--megabytes", type=float, default=20, help="MiB, at most (default: 20)")
    options = parser.parse_args(arguments)
    content, quality, count = pack(options.folders, options.pixels, int(options.megabytes * 2**20))
    options.output.write_bytes(content)
    print(f"{options.output}: {count:,} pictures, WebP of quality {quality}, {len(content) / 2**20:.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
