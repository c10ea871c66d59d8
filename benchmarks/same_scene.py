"""How often two photographs of one scene are called the same file or certain copies, and how many true copies still are.

    python benchmarks/same_scene.py [DATA] [--photographs 400] [--pairs 10] [--half report] [--jobs 2]

DATA: else the folder that COPYSETS names. From each of so many photographs of DATA/photos, at 480 pixels, second photographs of
its scene are made up (`made_up_pairs.py`): layers or a ground with things on it are displaced by 2 to 32 pixels of 480, a thing
of 2 to 30 % of the side is moved, removed or replaced; half of them held by hand, half of another exposure, all with noise and
as JPEG. `exposure` differs in nothing else, and is not counted in the sum: its pixels are those of a copy with other tones and
noise. Copies of what the camera recorded are the control. The rule was tuned on half of the photographs, `--half tune`.

Limits are Wilson's, 95 %, of the number of pairs over the design effect of pairs from one photograph.
"""

import argparse
import itertools
import os
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from made_up_pairs import EDITS, Pixels, edit_picture, save_jpeg, shoot_once, shoot_twice
from PIL import Image
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from image_copies.data.decode import decode_rgb
from image_copies.data.images import find_images
from image_copies.matching.verification.pairs import KnownPair, PairJudge

TURNS = (
    "layers",
    "thing moved",
    "depth",
    "thing removed",
    "layers",
    "thing moved",
    "depth",
    "thing replaced",
    "exposure",
    "copy",
)
BINS = {"layers": (2, 4, 8, 16, 32), "depth": (2, 4, 8, 16, 32), "thing": (0.02, 0.05, 0.1, 0.2, 0.3)}
NEXT = 7  # a photograph's things come from the one so many places on


@dataclass(frozen=True)
class Judged:
    """A pair: its photograph, its kind, by how much the two differ, and whether it is certain."""

    photograph: int
    kind: str
    amount: float
    certain: bool


def judge_photograph(paths: Sequence[Path], pairs: int, row: int) -> list[Judged]:
    """Judge so many pairs that are made of a photograph, whose kinds follow one another in TURNS."""
    cv2.setNumThreads(1)
    rng = np.random.default_rng(row)
    with threadpool_limits(1):
        photo, other = decode_rgb(paths[row]), decode_rgb(paths[(row + NEXT) % len(paths)])
        found = []
        for turn in range(row // 2 * pairs, (row // 2 + 1) * pairs):
            kind = TURNS[turn % len(TURNS)]
            if kind == "copy":
                edit, taken = (*EDITS, "two")[turn // len(TURNS) % (len(EDITS) + 1)], shoot_once(photo, rng)
                found.append(Judged(row, f"copy: {edit}", 0.0, is_certain(make_copy(taken, edit, rng), taken)))
            else:
                shots = shoot_twice(photo, other, kind, rng)
                found.append(Judged(row, kind, shots.amount, is_certain(shots.first, shots.second)))
    return found


def make_copy(pixels: Pixels, kind: str, rng: np.random.Generator) -> Pixels:
    """Return an edited copy; `two`: resized, cropped or captioned, and with other colours."""
    if kind != "two":
        return np.asarray(edit_picture(pixels, kind, rng))
    first = EDITS[str(rng.choice(["resize", "crop", "caption"]))](Image.fromarray(pixels), rng)
    return np.asarray(save_jpeg(EDITS["colour"](first, rng), int(rng.integers(60, 93))))


def is_certain(first: Pixels, second: Pixels) -> bool:
    """Whether a pair of pictures [h, w, 3] is called the same file or a certain copy."""
    with tempfile.TemporaryDirectory() as place:
        files = Path(place) / "one.png", Path(place) / "other.png"
        for file, pixels in zip(files, (first, second), strict=True):
            Image.fromarray(pixels).save(file, compress_level=1)
        return PairJudge().judge(KnownPair(*files)).is_certain


def describe(judged: Sequence[Judged]) -> tuple[str, str, str, str]:
    """Return how many pairs are certain, of how many, their share and the limits of its interval."""
    certain, pairs = sum(one.certain for one in judged), len(judged)
    share = certain / max(1, pairs)
    by_photograph = defaultdict(list)
    for one in judged:
        by_photograph[one.photograph].append(one.certain - share)
    spread = sum(sum(values) ** 2 for values in by_photograph.values())
    effective = pairs / max(1.0, spread / (pairs * share * (1 - share))) if 0 < share < 1 else max(1, pairs)
    z2 = 1.96**2
    centre, half = (share + z2 / (2 * effective)), np.sqrt(z2 * (share * (1 - share) / effective + z2 / (4 * effective**2)))
    low, high = (max(0.0, (centre + sign * half) / (1 + z2 / effective)) for sign in (-1, 1))
    return str(certain), str(pairs), f"{share:.4f}", f"{low:.4f} to {high:.4f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=os.environ.get("COPYSETS"))
    parser.add_argument("--photographs", type=int, default=400, metavar="N", help="at most 400 of each half (default: 400)")
    parser.add_argument("--pairs", type=int, default=10, metavar="N", help="pairs of each photograph (default: 10)")
    parser.add_argument("--half", choices=("tune", "report"), default="report", help="of the photographs (default: report)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default: 2)")
    options = parser.parse_args()
    if options.data is None:
        parser.error("name DATA, or set COPYSETS")
    photos = Path(options.data) / "photos"
    paths = [path for name in ("reference_images", "training_images") for path in find_images(photos / name).paths]
    rows = np.arange(options.half == "report", len(paths), 2)
    rows = rows[np.linspace(0, len(rows) - 1, min(options.photographs, len(rows))).astype(int)]
    with ProcessPoolExecutor(options.jobs) as pool:
        judged = [one for found in pool.map(partial(judge_photograph, paths, options.pairs), rows.tolist()) for one in found]
    table = Table("pairs", "certain", "of", "share", "95 %")
    scenes = [one for one in judged if not one.kind.startswith(("copy", "exposure"))]
    table.add_row(f"same scene, {len(rows)} photographs", *describe(scenes), end_section=True)
    for name, limits in BINS.items():
        for low, high in itertools.pairwise(limits):
            part = [one for one in scenes if one.kind.startswith(name) and low <= one.amount < high]
            table.add_row(f"{name}, {low:g} to {high:g}", *describe(part), end_section=high == limits[-1])
    for kind in sorted({one.kind for one in judged} - {"layers", "depth"}):
        table.add_row(kind, *describe([one for one in judged if one.kind == kind]))
    table.add_row("copies", *describe([one for one in judged if one.kind.startswith("copy")]))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
