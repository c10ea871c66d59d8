"""What is removed of an album that holds look-alikes, and what is found of edited copies, next to other tools.

    python benchmarks/lookalikes.py [DATA]      DATA: else the folder that COPYSETS names; joins lookalikes.json
    python benchmarks/lookalikes.py --docs      writes the tables of matching.md

`look-alikes`: DATA/lookalikes.zip, photographs of the same places, no copies of each other: every pair and every removed file
is wrong. `album`: some of them and photographs of DATA/photos, with eight edited copies of each (`made_up_pairs.py`); a copy is
found if it is a pair with its original, and removed for the wrong one if what is kept instead has another original, or if it is
the original itself. `formats`: photographs as they are and as HEIC (if pillow-heif is installed), AVIF, WebP, PNG and TIFF made
of them, and pictures as PNG and as AVIF.
`queries`: those of `photos` with ground truth against references. The second table shows what match.py finds of each edit, and
of harder ones, among the references of `photos`. Made-up pairs of the same scene: `same_scene.py`.

Other tools are measured where they are installed (pip install pdqhash imagehash imagededup), at the distances that their own
documentation uses; what they would remove is all but the first file of each connected group.
"""

import argparse
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from made_up_pairs import EDITS, HARD_EDITS, edit_picture
from measurements import Figures, Measurements
from numpy.typing import NDArray
from page_tables import make_table, parse_options
from PIL import Image

from image_copies.data.decode import decode_rgb
from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import find_images
from image_copies.data.layout import GROUND_TRUTH
from image_copies.matching.files.plan import read_plan
from image_copies.matching.matches import read_matches_csv
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.match import main as run_match

RESULTS = Path(__file__).with_name("lookalikes.json")
COMMAND = "benchmarks/lookalikes.py --docs"
LOOKALIKES, ALBUM, FORMATS, QUERIES, EDITED = "look-alikes", "album", "formats", "queries", "edited copies"
CODED_AS = {".heic": 90, ".avif": 92, ".webp": 97, ".png": None, ".tif": None}  # qualities of what is made of a JPEG
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


def match(queries: Path, references: Path | None) -> Result:
    """match.py with what ships, as it is by default."""
    with tempfile.TemporaryDirectory() as output:
        against = ["--references", str(references)] if references else []
        run_match(["--queries", str(queries), *against, "--checkpoint", str(SHIPPED), "--output", output, "--quiet"])
        found = read_matches_csv(Path(output) / "matches.csv")
        plan = read_plan(Path(output) / "plan.csv")
    sure = [pair for pair in found if pair.judgement and pair.judgement.kind in ("same file", "certain")]
    pairs, certain = ({frozenset((pair.query, pair.reference)) for pair in chosen} for chosen in (found, sure))
    return Result(pairs, certain, {row.file: row.kept for row in plan if row.action == "remove"})


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


THIS = "`match`"
OTHERS: dict[str, tuple[str, Tool]] = {
    f"PDQ, at most {PDQ_DISTANCE} bits": ("pdqhash", compare_hashes(hash_pdq, PDQ_DISTANCE)),
    f"imagehash phash, at most {PHASH_DISTANCE}": ("imagehash", compare_hashes(hash_phash, PHASH_DISTANCE)),
    f"imagededup PHash, at most {DEDUP_DISTANCE}": ("imagededup", compare_hashes(hash_dedup, DEDUP_DISTANCE)),
}


def make_album(lookalikes: Sequence[Path], photos: Sequence[Path], folder: Path) -> dict[Path, Path]:
    """Write originals and eight edited copies of each into a folder; return the original of each file."""
    rng = np.random.default_rng(0)
    made = {}
    for source in [*spread(lookalikes, ALBUM_LOOKALIKES), *spread(photos, ALBUM_PICTURES)]:
        pixels, original = decode_rgb(source), folder / f"{source.stem}.png"
        Image.fromarray(pixels).save(original)
        made[original] = original
        for edit in EDITS:
            copy = folder / f"{source.stem} {edit}.png"
            edit_picture(pixels, edit, rng).save(copy)
            made[copy] = original
    return made


def make_formats(photos: Sequence[Path], folder: Path) -> dict[Path, Path]:
    """Write originals and files of other formats made of each into a folder; return the original of each file."""
    made = {}
    if find_spec("pillow_heif"):  # the one that ships only decodes
        import_module("pillow_heif").register_heif_opener()
    codings = {ending: quality for ending, quality in CODED_AS.items() if Image.registered_extensions().get(ending) in Image.SAVE}
    for number, source in enumerate(spread(photos, ALBUM_PICTURES)):
        picture, original = Image.open(source).convert("RGB"), folder / source.name
        if number % 4:
            original.write_bytes(source.read_bytes())
        else:
            picture, original = picture.reduce(2), original.with_suffix(".png")
            picture.save(original)
        made[original] = original
        for ending, quality in (codings if number % 4 else {".avif": 96 + number % 5}).items():
            picture.save(original.with_suffix(ending), quality=quality)
            made[original.with_suffix(ending)] = original
    return made


def spread(paths: Sequence[Path], count: int) -> Sequence[Path]:
    """Return so many of some files, evenly spread."""
    return paths[:: max(1, len(paths) // count)][:count]


def measure_edits(photos: Path, folder: Path, _seed: int) -> Figures:
    """Return how many edited copies of references match.py finds, and how many are certain, by edit."""
    rng = np.random.default_rng(2)
    folder.mkdir(exist_ok=True)
    figures = {"copies": float(EDITED_PICTURES)}
    made = []
    for source in spread(find_images(photos / "reference_images").paths, EDITED_PICTURES):
        for edit in EDITS | HARD_EDITS:
            made.append((folder / f"{source.stem} {edit}.png", source, edit))
            edit_picture(decode_rgb(source), edit, rng).save(made[-1][0])
    result = match(folder, photos / "reference_images")
    for edit in EDITS | HARD_EDITS:
        pairs = [frozenset((copy, source)) for copy, source, name in made if name == edit]
        figures[f"{edit}: found"] = float(sum(pair in result.pairs for pair in pairs))
        figures[f"{edit}: certain"] = float(sum(pair in result.certain for pair in pairs))
    return figures


def measure_lookalikes(tool: Tool, lookalikes: Path, _seed: int) -> Figures:
    """Return what a tool says of pictures of which none is a copy."""
    wrong = tool(lookalikes, None)
    return {"pairs": float(len(wrong.pairs)), "certain": float(len(wrong.certain)), "removed": float(len(wrong.removed))}


def measure_album(tool: Tool, album: Path, originals: dict[Path, Path], _seed: int) -> Figures:
    """Return how many copies a tool finds in an album, and what it removes."""
    found = tool(album, None)
    pairs = [frozenset((path, original)) for path, original in originals.items() if path != original]
    mistaken = sum(path == originals[path] or originals[path] != originals[kept] for path, kept in found.removed.items())
    counts = {
        "copies": len(pairs),
        "found": sum(pair in found.pairs for pair in pairs),
        "certain": sum(pair in found.certain for pair in pairs),
        "removed": len(found.removed),
        "removed for the wrong one": mistaken,
    }
    return {name: float(count) for name, count in counts.items()}


def measure_queries(tool: Tool, photos: Path, _seed: int) -> Figures:
    """Return how many copies a tool finds among queries with ground truth, and how many other pairs."""
    right = {frozenset(pair) for pair in read_ground_truth(photos / GROUND_TRUTH).pairs}
    searched = tool(photos / "query_images", photos / "reference_images")
    figures = {"copies": float(len(right))}
    for name, pairs in (("found", searched.pairs), ("certain", searched.certain)):
        named = {frozenset(path.stem for path in pair) for pair in pairs}
        figures |= {name: float(len(named & right)), f"wrongly {name}": float(len(named - right))}
    return figures


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the tables of matching.md: what each tool finds and removes; what is found of edits of which one is missed."""
    found: dict[tuple[str, str], Figures] = {
        (entry["name"], entry["about"]["of"]): entry["figures"] for entry in store.measurements
    }
    tools = [name for name in (THIS, *OTHERS) if (name, ALBUM) in found]
    copies = {of: found[THIS, of]["copies"] for of in (ALBUM, QUERIES)}
    rows = []
    for name in tools:
        alike, album, queries = (
            {figure: f"{value:.0f}" for figure, value in found[name, of].items()} for of in (LOOKALIKES, ALBUM, QUERIES)
        )
        rows.append(
            [
                name,
                f"{alike['pairs']}, {alike['certain']}, {alike['removed']}",
                f"{album['found']}, {album['certain']}",
                f"{album['removed for the wrong one']} of {album['removed']}",
                f"{queries['found']} ({queries['wrongly found']}), {queries['certain']} ({queries['wrongly certain']})",
            ]
        )
    heads = ["tool", "look-alikes: pairs, certain, removed", f"album: found, certain of {copies[ALBUM]:.0f}"]
    heads += ["removed for the wrong one", f"queries: found, certain of {copies[QUERIES]:.0f} (wrong)"]
    by_edit = [
        [edit, *(f"{found[THIS, EDITED][f'{edit}: {figure}']:.0f}" for figure in ("found", "certain"))]
        for edit in EDITS | HARD_EDITS
        if found[THIS, EDITED][f"{edit}: certain"] < EDITED_PICTURES
    ]
    second = make_table([f"{THIS}: of {EDITED_PICTURES}", "found", "certain"], by_edit)
    coded = found[THIS, FORMATS]
    third = make_table([f"{THIS}: in other formats", *coded], [["files", *(f"{count:.0f}" for count in coded.values())]])
    return {"matching.md": "\n\n".join([make_table(heads, rows), second, third])}


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options, store = parse_options(parser, RESULTS, make_tables, COMMAND)
    cv2.setNumThreads(1)
    photos = Path(options.data) / "photos"
    tools: dict[str, Tool] = {THIS: match} | {name: tool for name, (package, tool) in OTHERS.items() if find_spec(package)}
    with tempfile.TemporaryDirectory() as place:
        lookalikes, album = (Path(place) / name for name in ("lookalikes", "album"))
        with zipfile.ZipFile(Path(options.data) / "lookalikes.zip") as archive:
            archive.extractall(lookalikes, [name for name in archive.namelist() if name.endswith(".jpg")])
        album.mkdir()
        originals = make_album(find_images(lookalikes).paths, find_images(photos / "reference_images").paths, album)
        (Path(place) / FORMATS).mkdir()
        coded = make_formats(find_images(photos / "training_images").paths, Path(place) / FORMATS)
        store.measure(THIS, {"of": FORMATS}, [0], partial(measure_album, match, Path(place) / FORMATS, coded))
        for name, tool in tools.items():
            store.measure(name, {"of": LOOKALIKES}, [0], partial(measure_lookalikes, tool, lookalikes))
            store.measure(name, {"of": ALBUM}, [0], partial(measure_album, tool, album, originals))
            store.measure(name, {"of": QUERIES}, [0], partial(measure_queries, tool, photos))
        store.measure(THIS, {"of": EDITED}, [0], partial(measure_edits, photos, Path(place) / "edited"))
    print(*make_tables(store).values())
    missing = [package for package, _ in OTHERS.values() if not find_spec(package)]
    if missing:
        print(f"not measured, because they are not installed: {', '.join(missing)}")


if __name__ == "__main__":
    main()
