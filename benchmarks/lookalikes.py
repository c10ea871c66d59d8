"""What is removed of an album that holds look-alikes, and what is found of edited copies, next to other tools.

    python benchmarks/lookalikes.py [DATA]      DATA: else the folder that COPYSETS names

`look-alikes`: DATA/lookalikes.zip, photographs of the same places, no copies of each other: every pair and every removed file
is wrong. `album`: some of them and photographs of DATA/photos, with eight edited copies of each (`made_up_pairs.py`); a copy is
found if it is a pair with its original, and removed for the wrong one if what is kept instead has another original, or if it is
the original itself.
`photos`: queries with ground truth against references. The second table shows what match.py finds of each edit, and of harder
ones, among the references of `photos`. Last, how many of the pairs that are listed of the look-alikes are called certain; of
made-up pairs of the same scene: `same_scene.py`.

Other tools are measured where they are installed (pip install pdqhash imagehash imagededup), at the distances that their own
documentation uses; what they would remove is all but the first file of each connected group.
"""

import argparse
import os
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from made_up_pairs import EDITS, HARD_EDITS, edit_picture
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from rich.table import Table
from scipy.stats import binomtest

from image_copies.data.decode import decode_rgb
from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import find_images
from image_copies.matching.files.plan import read_plan
from image_copies.matching.matches import read_matches_csv
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.match import main as run_match

ALBUM_PICTURES, ALBUM_LOOKALIKES = 60, 34  # originals in the album
EDITED_PICTURES = 27  # references of which each edit is made
PDQ_DISTANCE, PHASH_DISTANCE, DEDUP_DISTANCE = 31, 8, 10  # of 256, 64 and 64 bits


@dataclass
class Result:
    """What a tool says of a folder: pairs of copies, those it is sure of, and files to remove with what stays instead."""

    pairs: set[frozenset[Path]]
    certain: set[frozenset[Path]]
    removed: dict[Path, Path] = field(default_factory=dict)


Tool = Callable[[Path, Path | None], Result]


def match(*options: str) -> Tool:
    """Return match.py with further options as a tool."""

    def search(queries: Path, references: Path | None) -> Result:
        with tempfile.TemporaryDirectory() as output:
            against = ["--references", str(references)] if references else []
            run_match(
                ["--queries", str(queries), *against, "--checkpoint", str(SHIPPED), "--output", output, "--quiet", *options]
            )
            found = read_matches_csv(Path(output) / "matches.csv")
            plan = read_plan(Path(output) / "plan.csv")
        sure = [match for match in found if match.judgement and match.judgement.kind in ("same file", "certain")]
        pairs, certain = ({frozenset((match.query, match.reference)) for match in chosen} for chosen in (found, sure))
        return Result(pairs, certain, {row.file: row.kept for row in plan if row.action == "remove"})

    return search


def compare_hashes(hash_file: Callable[[Path], NDArray[np.bool_]], most: int) -> Tool:
    """Return a perceptual hash as a tool: pairs of files whose bits differ in at most `most`."""

    def search(queries: Path, references: Path | None) -> Result:
        paths = find_images(queries).paths
        others = find_images(references).paths if references else paths
        one, other = (np.stack([hash_file(path) for path in files]).astype(np.float32) for files in (paths, others))
        distance = one.sum(1)[:, None] + other.sum(1) - 2 * one @ other.T
        near = [(paths[row], others[column]) for row, column in np.argwhere(distance <= most).tolist()]
        pairs = {frozenset(pair) for pair in near if pair[0] != pair[1]}
        return Result(pairs, pairs, {} if references else keep_first(pairs))

    return search


def keep_first(pairs: set[frozenset[Path]]) -> dict[Path, Path]:
    """Return all but the first file of each connected group, with the first one."""
    first: dict[Path, Path] = {}

    def find(path: Path) -> Path:
        while path in first:
            path = first[path]
        return path

    for pair in sorted(sorted(pair) for pair in pairs):
        one, other = sorted(map(find, pair))
        if one != other:
            first[other] = one
    return {path: find(path) for path in first}


def hash_pdq(path: Path) -> NDArray[np.bool_]:
    """PDQ's 256 bits."""
    pdqhash: Any = import_module("pdqhash")
    bits: NDArray[np.bool_] = pdqhash.compute(decode_rgb(path))[0].astype(bool)
    return bits


def hash_phash(path: Path) -> NDArray[np.bool_]:
    """The 64 bits of imagehash's phash."""
    imagehash: Any = import_module("imagehash")
    bits: NDArray[np.bool_] = imagehash.phash(Image.fromarray(decode_rgb(path))).hash.ravel()
    return bits


def hash_dedup(path: Path) -> NDArray[np.bool_]:
    """The 64 bits of imagededup's PHash; its CNN needs weights from the network."""
    methods: Any = import_module("imagededup.methods")
    digits = methods.PHash(verbose=False).encode_image(image_array=decode_rgb(path))
    return np.unpackbits(np.frombuffer(bytes.fromhex(digits), np.uint8)).astype(bool)


OTHERS: dict[str, tuple[str, Tool]] = {
    f"PDQ, at most {PDQ_DISTANCE} bits": ("pdqhash", compare_hashes(hash_pdq, PDQ_DISTANCE)),
    f"imagehash phash, at most {PHASH_DISTANCE}": ("imagehash", compare_hashes(hash_phash, PHASH_DISTANCE)),
    f"imagededup PHash, at most {DEDUP_DISTANCE}": ("imagededup", compare_hashes(hash_dedup, DEDUP_DISTANCE)),
}


def make_album(lookalikes: Sequence[Path], photos: Sequence[Path], folder: Path) -> dict[Path, str]:
    """Write originals and eight edited copies of each into a folder; return the name of the original of each file."""
    rng = np.random.default_rng(0)
    made = {}
    for source in [*spread(lookalikes, ALBUM_LOOKALIKES), *spread(photos, ALBUM_PICTURES)]:
        pixels, name = decode_rgb(source), source.stem
        original = folder / f"{name}.png"
        Image.fromarray(pixels).save(original)
        made[original] = name
        for edit in EDITS:
            copy = folder / f"{name} {edit}.png"
            edit_picture(pixels, edit, rng).save(copy)
            made[copy] = name
    return made


def spread(paths: Sequence[Path], count: int) -> Sequence[Path]:
    """Return so many of some files, evenly spread."""
    return paths[:: max(1, len(paths) // count)][:count]


def measure_edits(tools: dict[str, Tool], photos: Path, folder: Path) -> Table:
    """Return how many edited copies of references each tool finds, and how many are certain, by edit."""
    rng = np.random.default_rng(2)
    made = []
    for source in spread(find_images(photos / "reference_images").paths, EDITED_PICTURES):
        for edit in EDITS | HARD_EDITS:
            made.append((folder / f"{source.stem} {edit}.png", source, edit))
            edit_picture(decode_rgb(source), edit, rng).save(made[-1][0])
    table = Table("found, certain", *(EDITS | HARD_EDITS))
    for name, tool in tools.items():
        result = tool(folder, photos / "reference_images")
        counts: Counter[tuple[str, bool]] = Counter()
        for copy, source, edit in made:
            counts[edit, False] += frozenset((copy, source)) in result.pairs
            counts[edit, True] += frozenset((copy, source)) in result.certain
        table.add_row(name, *(f"{counts[edit, False]}, {counts[edit, True]}" for edit in EDITS | HARD_EDITS))
    return table


def measure(tool: Tool, lookalikes: Path, album: Path, originals: dict[Path, str], photos: Path) -> list[str]:
    """Return a tool's cells of the table."""
    wrong = tool(lookalikes, None)
    found = tool(album, None)
    pairs = [frozenset((album / f"{name}.png", path)) for path, name in originals.items() if path.stem != name]
    mistaken = sum(path.stem == originals[path] or originals[path] != originals[kept] for path, kept in found.removed.items())
    truth = read_ground_truth(photos / "public_ground_truth.csv").pairs
    searched = tool(photos / "query_images", photos / "reference_images")
    named = [{frozenset(path.stem for path in pair) for pair in part} for part in (searched.pairs, searched.certain)]
    right = {frozenset(pair) for pair in truth}
    return [
        str(len(wrong.pairs)),
        str(len(wrong.certain)),
        str(len(wrong.removed)),
        f"{sum(pair in found.pairs for pair in pairs)} of {len(pairs)}",
        str(sum(pair in found.certain for pair in pairs)),
        f"{len(found.removed)}, {mistaken}",
        f"{len(named[0] & right)} of {len(right)}, {len(named[0] - right)}",
        f"{len(named[1] & right)}, {len(named[1] - right)}",
    ]


def describe_share(found: int, of: int) -> str:
    """Return a share in words, with its 95 % interval (Clopper and Pearson)."""
    interval = binomtest(found, of).proportion_ci()
    return f"{1000 * found / of:.0f} ({1000 * interval.low:.0f} to {1000 * interval.high:.0f})"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=os.environ.get("COPYSETS"))
    options = parser.parse_args()
    if options.data is None:
        parser.error("name DATA, or set COPYSETS")
    cv2.setNumThreads(1)
    console = Console(width=150)
    photos = Path(options.data) / "photos"
    ours = {"match.py --no-verify": match("--no-verify"), "match.py": match()}
    with tempfile.TemporaryDirectory() as place:
        lookalikes, album, edited = (Path(place) / name for name in ("lookalikes", "album", "edited"))
        with zipfile.ZipFile(Path(options.data) / "lookalikes.zip") as archive:
            archive.extractall(lookalikes, [name for name in archive.namelist() if name.endswith(".jpg")])
        album.mkdir()
        edited.mkdir()
        references = find_images(photos / "reference_images").paths
        originals = make_album(find_images(lookalikes).paths, references, album)
        table = Table("tool", "look-alikes: pairs", "certain", "removed", "album: found", "certain", "removed, for the wrong one")
        table.add_column("photos: found, wrong")
        table.add_column("certain, wrong")
        for name, tool in (ours | {name: tool for name, (package, tool) in OTHERS.items() if find_spec(package)}).items():
            table.add_row(name, *measure(tool, lookalikes, album, originals, photos))
        console.print(table)
        missing = [package for package, _ in OTHERS.values() if not find_spec(package)]
        if missing:
            console.print(f"not measured, because they are not installed: {', '.join(missing)}")
        console.print(measure_edits(ours, photos, edited))
        listed = ours["match.py"](lookalikes, None)
    certain, pairs = len(listed.certain), len(listed.pairs)
    console.print(
        f"of 1,000 listed pairs of look-alikes, {describe_share(certain, pairs)} are called certain: {certain} of {pairs}"
    )


if __name__ == "__main__":
    main()
