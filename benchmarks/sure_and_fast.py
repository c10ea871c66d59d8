"""Processor seconds of match.py with everything on, next to an older checkout and to other tools, one after the other in one run.

    python benchmarks/sure_and_fast.py [DATA] [--before CHECKOUT] [--pictures N …] [--large N …]   replaces rows of its JSON
    python benchmarks/sure_and_fast.py --docs                      writes the tables of README.md and matching.md

DATA: else the folder that COPYSETS names. `photographs`: the references of DATA/photos; `again`: the same, unchanged. `N
pictures`: photographs of DATA, those of at most 320 pixels enlarged to it, filled up from DATA/tiny.zip, enlarged, too; every
tenth is an edited copy of another (`made_up_pairs.py`). `12 megapixels`: photographs enlarged as in `large_pictures.py`, a tenth
of them copies. An album and look-alikes: `lookalikes.py`. Seconds are those of the processor, user and system, of the whole
command: they depend little on what else the machine does, but are a third more where both threads of a core are busy. The table
of README.md also has what `installed.py` and `lookalikes.py` measured.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import cv2
import installed as installing
import lookalikes
import numpy as np
from large_pictures import enlarge
from lookalikes import DEDUP_DISTANCE, OTHERS, PDQ_DISTANCE, THIS, Tool
from made_up_pairs import EDITS, edit_picture
from measurements import Measurements
from numpy.typing import NDArray
from page_tables import make_table, parse_options
from rich.console import Console
from rich.table import Table

from image_copies.data.decode import as_uint8, decode_rgb
from image_copies.data.images import find_images
from image_copies.data.sources.archives import read_bytes
from image_copies.data.sources.discovery import discover
from image_copies.matching.files.plan import read_plan
from image_copies.matching.matches import read_matches_csv
from image_copies.models.shipped import SHIPPED

TOP = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("sure_and_fast.json")
COMMAND = "benchmarks/sure_and_fast.py --docs"
PHOTOGRAPHS = "300 photographs"
PHASH, PDQ = f"imagededup PHash, at most {DEDUP_DISTANCE}", f"PDQ, at most {PDQ_DISTANCE} bits"
# of README.md's table: a tool, its package, and its name in the results
TOOLS = ("`image-copies`", "image-copies", THIS), ("imagededup, perceptual hash", "imagededup", PHASH), ("PDQ", "pdqhash", PDQ)
FOUND, WRONG = ("found", "copies"), ("wrongly removed", "removed")
LONG_SIDE, COPIES = 320, 10  # pixels; one picture of so many is a copy


@dataclass(frozen=True)
class Cost:
    """What a command took.

    Attributes:
        what: What was done, on how many pictures.
        by: The tool.
        processor: Processor seconds.
        wall: Seconds.
        memory: Most resident memory, MB.
        found: Copies found, of how many there are.
        removed: Files planned for removal, of them those that are no copies of what stays.
    """

    what: str
    by: str
    processor: float
    wall: float
    memory: int
    found: tuple[int, int] | None = None
    removed: tuple[int, int] | None = None

    @property
    def figures(self) -> dict[str, float]:
        """The figures for the results file."""
        shown: dict[str, float] = {"processor s": round(self.processor, 1), "s": round(self.wall, 1), "MB": self.memory}
        for names, counts in ((FOUND, self.found), (WRONG[::-1], self.removed)):
            shown |= dict(zip(names, counts or (), strict=False))
        return shown


def measure_command(command: Sequence[str], top: Path) -> tuple[float, float, int]:
    """Run a command from a checkout; return processor seconds, seconds and megabytes."""
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": str(top)}
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - started, usage.ru_maxrss // 1024


def search(what: str, folder: Path, output: Path, top: Path, original: Callable[[Path], str] | None = None) -> Cost:
    """Search a folder with everything on; `original` names what a picture shows."""
    command = [sys.executable, str(top / "pipeline" / "match.py"), str(folder), "--checkpoint", str(SHIPPED)]
    cost = measure_command([*command, "--output", str(output), "--quiet", "--verify", "--views"], top)
    name = THIS if top == TOP else "before"
    if original is None:
        return Cost(what, name, *cost)
    pairs = {frozenset((match.query, match.reference)) for match in read_matches_csv(output / "matches.csv")}
    paths = find_images(folder, naming="file").paths
    originals = {
        original(path): path for path in sorted(paths, key=lambda path: len(path.name), reverse=True)
    }  # it has no edit's name
    copies = [frozenset((path, originals[original(path)])) for path in paths if originals[original(path)] != path]
    removed = [row for row in read_plan(output / "plan.csv") if row.action == "remove"]
    wrong = sum(original(row.file) != original(row.kept) for row in removed)
    found = (sum(pair in pairs for pair in copies), len(copies)) if copies else None
    return Cost(what, name, *cost, found, (len(removed), wrong))


def measure_other(what: str, folder: Path, name: str, tool: Tool) -> Cost:
    """Let another tool compare the pictures of a folder, on one core."""
    started, before = time.perf_counter(), time.process_time()
    tool(folder, None)
    return Cost(what, name, time.process_time() - before, time.perf_counter() - started, 0)


def name_by_first_word(path: Path) -> str:
    """Return the name of the original of a picture whose name begins with it."""
    return path.stem.split(" ")[0]


def make_collection(
    sources: Sequence[Path], count: int, folder: Path, finish: Callable[[NDArray[np.uint8], int], NDArray[np.uint8]]
) -> None:
    """Write so many pictures, every tenth an edited copy of the one before."""
    rng, edits = np.random.default_rng(0), list(EDITS)
    folder.mkdir()
    originals = count - count // COPIES
    if len(sources) < originals:
        raise SystemExit(f"there are {len(sources)} pictures; {originals} are needed")
    for number, source in enumerate(sources[:originals]):
        pixels = decode_rgb(read_bytes(source))
        copied = number % (COPIES - 1) == 0 and number // (COPIES - 1) < count // COPIES
        edit = edits[number // (COPIES - 1) % len(edits)]
        versions = {"": pixels} | ({f" {edit}": np.asarray(edit_picture(pixels, edit, rng))} if copied else {})
        for name, made in versions.items():
            cv2.imwrite(str(folder / f"{number:06d}{name}.jpg"), finish(made, number), [cv2.IMWRITE_JPEG_QUALITY, 90])


def enlarge_small(pixels: NDArray[np.uint8], number: int) -> NDArray[np.uint8]:
    """Return a picture as BGR with a long side of LONG_SIDE pixels."""
    scale = LONG_SIDE / max(pixels.shape[:2])
    size = max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale))
    resized = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC)
    return np.ascontiguousarray(resized[..., ::-1])


def enlarge_with_grain(pixels: NDArray[np.uint8], number: int) -> NDArray[np.uint8]:
    """Return a picture as BGR with 12 megapixels."""
    return as_uint8(enlarge(pixels, number))


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the table of README.md, what a tool needs on disk and in time, finds and removes, and that of matching.md."""
    installed, judged = Measurements.open(installing.RESULTS), Measurements.open(lookalikes.RESULTS)
    rows = []
    for name, package, tool in TOOLS:
        alike, album = (judged.find(tool, {"of": of})[0]["figures"] for of in (lookalikes.LOOKALIKES, lookalikes.ALBUM))
        size = installed.find(package, {})[0]["figures"]["MB"]
        spent = store.find(PHOTOGRAPHS, {"by": tool})[0]["figures"]["processor s"]
        again = store.find(f"{PHOTOGRAPHS}, again", {"by": tool})
        seconds = f"{spent:.1f} s" + (f", again {again[0]['figures']['processor s']:.1f} s" if again else "")
        counts = [f"{figure:.0f}" for figure in (album["found"], album["removed for the wrong one"], alike["removed"])]
        rows.append([name, f"{size:,.0f} MB", seconds, *counts])
    copies = judged.find(TOOLS[0][2], {"of": lookalikes.ALBUM})[0]["figures"]["copies"]
    found = f"found, of {copies:.0f}"
    heads = ["", "installed", PHOTOGRAPHS, found, "removed for the wrong one", "look-alikes removed"]
    return {"../README.md": make_table(heads, rows), "matching.md": make_costs(store)}


def make_costs(store: Measurements) -> str:
    """Return the table of matching.md: what a search of a collection took, and what it found and would remove."""
    rows = list[list[str]]()
    for entry in sorted(store.measurements, key=lambda entry: float(entry["figures"]["processor s"])):
        figures = entry["figures"]
        if entry["about"]["by"] == THIS and "copies" in figures:
            counts = [f"{figures[part]:,.0f} of {figures[whole]:,.0f}" for part, whole in (FOUND, WRONG)]
            rows.append([entry["name"], f"{figures['processor s']:,.0f}", f"{figures['MB']:,.0f}", *counts])
    return make_table(["with everything on", "processor s", "MB", "copies found", "removed wrongly"], rows)


def measure(options: argparse.Namespace, place: Path) -> Iterator[Cost]:
    """Measure what the options ask for, one after the other."""
    data = Path(options.data)
    tops = [top.absolute() for top in (options.before, TOP) if top]
    photographs = data / "photos" / "reference_images"
    for number, top in enumerate(tops):
        yield search(PHOTOGRAPHS, photographs, place / f"photographs {number}", top)
    yield search(f"{PHOTOGRAPHS}, again", photographs, place / f"photographs {len(tops) - 1}", TOP)
    for name, (package, tool) in OTHERS.items():
        if find_spec(package):
            yield measure_other(PHOTOGRAPHS, photographs, name, tool)
    archives = [data / f"{name}.zip" for name in ("training-photos", "training-photos-2", "tiny")]
    collections = [(f"{count} pictures", count, enlarge_small) for count in options.pictures]
    collections += [(f"{count} of 12 megapixels", count, enlarge_with_grain) for count in options.large]
    sources = discover([photographs, data / "photos" / "training_images", *archives]).paths if collections else ()
    for what, count, finish in collections:
        make_collection(sources, count, place / what, finish)
        for top in tops:
            yield search(what, place / what, place / f"{what} {top.name}", top, name_by_first_word)


def main() -> None:
    """Keep each figure as soon as it is measured, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="an older checkout to measure, too")
    parser.add_argument("--pictures", type=int, nargs="*", default=[], metavar="N", help="sizes of collections, such as 10000")
    parser.add_argument("--large", type=int, nargs="*", default=[], metavar="N", help="numbers of pictures of 12 megapixels")
    options, store = parse_options(parser, RESULTS, make_tables, COMMAND)
    table = Table("", "by", "processor s", "s", "MB", "found, of", "removed, wrongly")
    with tempfile.TemporaryDirectory() as folder:
        for cost in measure(options, Path(folder)):
            store.replace(cost.what, {"by": cost.by}, cost.figures)
            counts = [", ".join(map(str, pair or ())) for pair in (cost.found, cost.removed)]
            table.add_row(cost.what, cost.by, f"{cost.processor:.1f}", f"{cost.wall:.1f}", str(cost.memory or ""), *counts)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
