"""How often two photographs of one scene are called the same file or certain copies, and how many true copies still are.

    python benchmarks/same_scene.py [DATA] [--photographs 400] [--pairs 10]      joins same_scene.json
    python benchmarks/same_scene.py --docs                                       writes the table of reliability.md

DATA: else the folder that COPYSETS names. From each of so many photographs of DATA/photos, at 480 pixels, second photographs of
its scene are made up (`made_up_pairs.py`): layers or a ground with things on it are displaced by 2 to 32 pixels of 480, a thing
of 2 to 30 % of the side is moved, removed or replaced; half of them held by hand, half of another exposure, all with noise and
as JPEG. `exposure` differs in nothing else, and is not counted in the sum: its pixels are those of a copy with other tones and
noise. Copies of what the camera recorded are the control. The rule was tuned on the other half of the
photographs. Each of eight parts of the photographs joins the results by itself.

Limits are Wilson's, 95 %, of the number of pairs over the design effect of pairs from one photograph.
"""

import argparse
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from made_up_pairs import EDITS, Pixels, edit_picture, save_jpeg, shoot_once, shoot_twice
from measurements import Figures, Measurements
from page_tables import make_table, parse_options
from PIL import Image
from threadpoolctl import threadpool_limits

from image_copies.data.decode import decode_rgb
from image_copies.data.images import find_images
from image_copies.matching.matches import Match
from image_copies.matching.pairs import PairJudge

RESULTS = Path(__file__).with_name("same_scene.json")
COMMAND = "benchmarks/same_scene.py --docs"
NAME = "pairs called certain"
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
NEXT = 7  # a photograph's things come from the one so many places on
PARTS = 8  # of the photographs, each of which is measured by itself
SCENES, COPIES = "all of the same scene", "copies of what the camera recorded"
SMALL, SMALL_SHARE = "thing, 0.02 to 0.05", 0.05  # of the longer side
ROWS = SCENES, "layers", "depth", SMALL, "thing moved", "thing removed", "thing replaced", "exposure", COPIES


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
        return PairJudge().judge(Match(*files)).is_certain


def list_rows(judged: Judged) -> list[str]:
    """Return the rows of the table that a pair is counted in."""
    if judged.kind.startswith("copy"):
        return [COPIES]
    if judged.kind == "exposure":
        return [judged.kind]
    small = [SMALL] if judged.kind.startswith("thing") and judged.amount < SMALL_SHARE else []
    return [SCENES, *small, judged.kind]


def count(judged: Sequence[Judged]) -> Figures:
    """Return for each row how many pairs there are and how many are certain, and sums of both's products over the photographs."""
    pairs, certain = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    for one in judged:
        for row in list_rows(one):
            pairs[row, one.photograph] += 1
            certain[row, one.photograph] += one.certain
    found: dict[str, float] = defaultdict(float)
    for (row, photograph), of in pairs.items():
        yes = certain[row, photograph]
        for name, value in (
            ("pairs", of),
            ("certain", yes),
            ("pairs²", of**2),
            ("certain × pairs", yes * of),
            ("certain²", yes**2),
        ):
            found[f"{row}: {name}"] += value
    return found


def describe(pairs: float, certain: float, spread: float) -> list[str]:
    """Return how many of the pairs are certain, their share and the limits of its interval.

    Args:
        pairs: How many there are.
        certain: How many of them are certain.
        spread: Sum over the photographs of the squared difference of those that are and those expected to be.
    """
    share = certain / pairs
    effective = pairs / max(1.0, spread / (pairs * share * (1 - share))) if 0 < share < 1 else pairs
    z2 = 1.96**2
    centre, half = (share + z2 / (2 * effective)), np.sqrt(z2 * (share * (1 - share) / effective + z2 / (4 * effective**2)))
    low, high = (max(0.0, (centre + sign * half) / (1 + z2 / effective)) for sign in (-1, 1))
    return [f"{certain:.0f} of {pairs:.0f}", f"{share:.4f}", f"{low:.4f} to {high:.4f}"]


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the table of reliability.md: of the pairs of each kind, how many are certain."""
    summed: dict[str, float] = defaultdict(float)
    for entry in store.measurements:
        for name, value in entry["figures"].items():
            summed[name] += value
    rows = []
    for row in (row for row in ROWS if f"{row}: pairs" in summed):
        pairs, certain = summed[f"{row}: pairs"], summed[f"{row}: certain"]
        share = certain / pairs
        spread = summed[f"{row}: certain²"] - 2 * share * summed[f"{row}: certain × pairs"] + share**2 * summed[f"{row}: pairs²"]
        rows.append([row, *describe(pairs, certain, spread)])
    return {"reliability.md": make_table(["pairs", "called certain", "share", "95 %"], rows)}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=int, default=400, metavar="N", help="at most 400 of each half (default: 400)")
    parser.add_argument("--pairs", type=int, default=10, metavar="N", help="pairs of each photograph (default: 10)")
    options, store = parse_options(parser, RESULTS, make_tables, COMMAND)
    photos = Path(options.data) / "photos"
    paths = [path for name in ("reference_images", "training_images") for path in find_images(photos / name).paths]
    rows = np.arange(1, len(paths), 2)
    rows = rows[np.linspace(0, len(rows) - 1, min(options.photographs, len(rows))).astype(int)]

    def measure(part: int) -> Figures:
        return count([one for row in rows[part::PARTS].tolist() for one in judge_photograph(paths, options.pairs, row)])

    about = {"photographs": len(rows), "pairs of each": options.pairs}
    store.measure(NAME, about, range(PARTS), measure)
    print(*make_tables(store).values())


if __name__ == "__main__":
    main()
