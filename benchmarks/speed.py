"""What things take: a search, an installation, an answer of the service, an index that grows. Figures join speed.json.

    python benchmarks/speed.py search [DATA] [--pictures N …] [--large N …]
    python benchmarks/speed.py installed [PACKAGE …]         of image-copies (this checkout), pdqhash, imagededup
    python benchmarks/speed.py service INDEX PICTURES
    python benchmarks/speed.py index [--contents 1000000]
    python benchmarks/speed.py PART --docs                   measures nothing, writes the tables of the documents

search: DATA, else the folder that COPYSETS names. Processor seconds (user and system) of the whole command with everything on, of
the references of DATA/photos and of the same unchanged; or of N photographs of DATA, those of at most 320 pixels enlarged to it,
and of N enlarged to 12 megapixels; every tenth is an edited copy of another. Other tools where they are installed.
installed: megabytes of the files of a package and all that it needs, in a fresh folder, without compiled byte code.
service: INDEX was made with what ships (`match.py add`), of pictures that are there; 200 of PICTURES are asked for, two a second.
index: made-up vectors.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import Request, urlopen

import cv2
import lookalikes
import numpy as np
from lookalikes import DEDUP_DISTANCE, OTHERS, PDQ_DISTANCE, THIS
from made_up_pairs import EDITS, Pixels, edit_picture
from made_up_vectors import DIMENSIONS, Population, add_contents, watch_memory
from measurements import Figures, Measurements
from page_tables import make_table, write_tables

from image_copies.data.decode import decode_rgb
from image_copies.data.images import find_images
from image_copies.data.sources.archives import read_bytes
from image_copies.data.sources.discovery import discover
from image_copies.matching.files.plan import read_plan
from image_copies.matching.index.search import open_search
from image_copies.matching.index.store import open_store
from image_copies.matching.matches import read_matches_csv
from image_copies.models.shipped import SHIPPED

TOP = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("speed.json")
T = TypeVar("T")

PHOTOGRAPHS, AGAIN = "300 photographs", "300 photographs, again"
PHASH, PDQ = f"imagededup PHash, at most {DEDUP_DISTANCE}", f"PDQ, at most {PDQ_DISTANCE} bits"
# of README.md's table: a tool, its package, and its name in the results
TOOLS = ("`image-copies`", "image-copies", THIS), ("imagededup, perceptual hash", "imagededup", PHASH), ("PDQ", "pdqhash", PDQ)
FOUND, WRONG = ("found", "copies"), ("wrongly removed", "removed")
LONG_SIDE, LARGE, COPIES = 320, 12_000_000, 10  # pixels of a small and of a large picture; one picture of so many is a copy

PACKAGES = {
    "image-copies": [str(TOP)],
    "pdqhash": ["pdqhash", "numpy", "opencv-python"],  # which its own example takes
    "imagededup": ["imagededup"],
}

JUDGED, CONNECTIONS = "pictures judged", 4
RATE, ASKED, WARM_UP = 2.0, 200, 20  # pictures a second, and their number

GROWTH, COMPARED, NEAREST = "growth", 500, 10  # COMPARED queries are searched
FILL, OPEN, EXACTLY = "fill", "open", "search exactly"


@dataclass(frozen=True)
class Cost:
    """What a command took: processor seconds, seconds, most resident memory in MB; and what a search found and would remove."""

    processor: float
    wall: float
    memory: int
    found: tuple[int, int] | None = None
    removed: tuple[int, int] | None = None

    @property
    def figures(self) -> Figures:
        """The figures for the results file."""
        shown: Figures = {"processor s": round(self.processor, 1), "s": round(self.wall, 1), "MB": self.memory}
        for names, counts in ((FOUND, self.found), (WRONG[::-1], self.removed)):
            shown |= dict(zip(names, counts or (), strict=False))
        return shown


def search(folder: Path, output: Path, original: Callable[[Path], str] | None = None) -> Cost:
    """Search a folder with everything on; `original` names what a picture shows."""
    command = [sys.executable, str(TOP / "pipeline" / "match.py"), str(folder), "--checkpoint", str(SHIPPED)]
    command += ["--output", str(output), "--quiet", "--verify", "--views"]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    cost = Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - started, usage.ru_maxrss // 1024)
    if original is None:
        return cost
    pairs = {frozenset((match.query, match.reference)) for match in read_matches_csv(output / "matches.csv")}
    paths = find_images(folder, naming="file").paths
    longest_first = sorted(paths, key=lambda path: len(path.name), reverse=True)
    originals = {original(path): path for path in longest_first}  # an original's name has no edit
    copies = [frozenset((path, originals[original(path)])) for path in paths if originals[original(path)] != path]
    removed = [row for row in read_plan(output / "plan.csv") if row.action == "remove"]
    wrong = sum(original(row.file) != original(row.kept) for row in removed)
    found = sum(pair in pairs for pair in copies), len(copies)
    return Cost(cost.processor, cost.wall, cost.memory, found, (len(removed), wrong))


def make_collection(sources: Sequence[Path], count: int, folder: Path, finish: Callable[[Pixels, int], Pixels]) -> None:
    """Write so many pictures, every tenth an edited copy of the one before."""
    rng, edits = np.random.default_rng(0), list(EDITS)
    folder.mkdir()
    originals = count - count // COPIES
    if len(sources) < originals:
        raise SystemExit(f"there are {len(sources)} pictures; {originals} are needed")
    for number, source in enumerate(sources[:originals]):
        pixels = decode_rgb(read_bytes(source))
        versions = {"": pixels}
        place = number // (COPIES - 1)
        if number % (COPIES - 1) == 0 and place < count // COPIES:
            edit = edits[place % len(edits)]
            versions[f" {edit}"] = np.asarray(edit_picture(pixels, edit, rng))
        for name, made in versions.items():
            shown = np.ascontiguousarray(finish(made, number)[..., ::-1])
            cv2.imwrite(str(folder / f"{number:06d}{name}.jpg"), shown, [cv2.IMWRITE_JPEG_QUALITY, 90])


def enlarge_small(pixels: Pixels, number: int) -> Pixels:
    """Return a picture with a long side of LONG_SIDE pixels."""
    scale = LONG_SIDE / max(pixels.shape[:2])
    size = max(1, round(pixels.shape[1] * scale)), max(1, round(pixels.shape[0] * scale))
    return cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC).astype(np.uint8)


def enlarge_with_grain(pixels: Pixels, number: int) -> Pixels:
    """Return a picture with LARGE pixels and grain, so that its file is as large as a camera's."""
    scale = (LARGE / (pixels.shape[0] * pixels.shape[1])) ** 0.5
    height, width = (min(round(side * scale), 30_000) for side in pixels.shape[:2])
    large = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_LINEAR)
    grain = np.random.default_rng(number).integers(0, 17, (500, 500), np.uint8)
    tiled = np.tile(grain, (height // 500 + 1, width // 500 + 1))[:height, :width]
    return cv2.add(large, cv2.merge([tiled] * 3)).astype(np.uint8)


def measure_searches(store: Measurements, options: argparse.Namespace) -> None:
    """Measure what the options ask for, one after the other, and keep each figure at once."""

    def keep(what: str, by: str, cost: Cost) -> None:
        store.replace(what, {"by": by}, cost.figures)
        print(what, by, cost.figures, flush=True)

    data = options.data
    photographs = data / "photos" / "reference_images"
    archives = [data / f"{name}.zip" for name in ("training-photos", "training-photos-2", "tiny")]
    collections = [(f"{count} pictures", count, enlarge_small) for count in options.pictures]
    collections += [(f"{count} of 12 megapixels", count, enlarge_with_grain) for count in options.large]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for what, count, finish in collections:
            sources = discover([photographs, data / "photos" / "training_images", *archives]).paths
            make_collection(sources, count, place / what, finish)
            keep(what, THIS, search(place / what, place / f"{what}, found", lambda path: path.stem.split(" ")[0]))
        if collections:
            return
        keep(PHOTOGRAPHS, THIS, search(photographs, place / "photographs"))
        keep(AGAIN, THIS, search(photographs, place / "photographs"))
    for tool, (package, compare) in OTHERS.items():
        if find_spec(package):
            started, before = time.perf_counter(), time.process_time()
            compare(photographs, None)
            keep(PHOTOGRAPHS, tool, Cost(time.process_time() - before, time.perf_counter() - started, 0))


def make_search_tables(store: Measurements) -> dict[str, str]:
    """Return the table of README.md, what a tool needs on disk and in time, finds and removes, and that of matching.md."""
    judged = Measurements.open(lookalikes.RESULTS)
    rows = []
    for name, package, tool in TOOLS:
        alike, album = (judged.find(tool, {"of": of})[0]["figures"] for of in (lookalikes.LOOKALIKES, lookalikes.ALBUM))
        size = store.find(package, {})[0]["figures"]["MB"]
        seconds = f"{store.find(PHOTOGRAPHS, {'by': tool})[0]['figures']['processor s']:.1f} s"
        if again := store.find(AGAIN, {"by": tool}):
            seconds += f", again {again[0]['figures']['processor s']:.1f} s"
        counts = [f"{figure:.0f}" for figure in (album["found"], album["removed for the wrong one"], alike["removed"])]
        rows.append([name, f"{size:,.0f} MB", seconds, *counts])
    copies = judged.find(THIS, {"of": lookalikes.ALBUM})[0]["figures"]["copies"]
    heads = ["", "installed", PHOTOGRAPHS, f"found, of {copies:.0f}", "removed for the wrong one", "look-alikes removed"]
    return {"../README.md": make_table(heads, rows), "matching.md": make_costs(store)}


def make_costs(store: Measurements) -> str:
    """Return the table of matching.md: what a search of a collection took, and what it found and would remove."""
    rows = list[tuple[float, list[str]]]()
    for entry in store.measurements:
        figures = entry["figures"]
        if entry["about"].get("by") == THIS and "copies" in figures:
            counts = [f"{figures[part]:,.0f} of {figures[whole]:,.0f}" for part, whole in (FOUND, WRONG)]
            cells = [entry["name"], f"{figures['processor s']:,.0f}", f"{figures['MB']:,.0f}", *counts]
            rows.append((figures["processor s"], cells))
    heads = ["with everything on", "processor s", "MB", "copies found", "removed wrongly"]
    return make_table(heads, [cells for _, cells in sorted(rows)])


def measure_installed(store: Measurements, options: argparse.Namespace) -> None:
    """Install each package with all that it needs into a fresh folder; keep its megabytes and the number of packages."""
    for package in options.packages:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "packages"
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-compile", "--target", str(folder)]
            subprocess.run([*command, *PACKAGES[package]], check=True)
            size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
            figures = {"MB": round(size / 1e6, 1), "packages": len(list(folder.glob("*.dist-info")))}
        store.replace(package, {}, figures)
        print(package, figures, flush=True)


@contextmanager
def run_service(index: Path) -> Iterator[tuple[int, int]]:
    """Start the search service as a person does; yield its process and its port."""
    command = [sys.executable, str(TOP / "pipeline" / "explore.py"), "--serve", "--index", str(index), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield process.pid, int(line.split("http://127.0.0.1:")[1].split()[0])
        finally:
            process.terminate()


def ask(port: int, questions: Sequence[bytes]) -> list[float]:
    """Ask at RATE, up to CONNECTIONS at once; return the seconds of each answer from its question's appointed time."""
    start = time.perf_counter()

    def post(number: int) -> float:
        appointed = start + number / RATE
        time.sleep(max(0.0, appointed - time.perf_counter()))
        kind = {"Content-Type": "application/octet-stream"}
        with urlopen(Request(f"http://127.0.0.1:{port}/api/matches", questions[number], kind)) as answer:
            answer.read()
        return time.perf_counter() - appointed

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        return list(threads.map(post, range(len(questions))))


def measure_service(store: Measurements, options: argparse.Namespace) -> None:
    """Ask for pictures; keep the seconds until they are answered, and the processor's for each."""
    paths = find_images(options.pictures, naming="file").paths
    chosen = [paths[row] for row in np.random.default_rng(0).permutation(len(paths))[: ASKED + WARM_UP]]
    questions = [path.read_bytes() for path in chosen]

    def count_processor_seconds(process: int) -> float:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    with run_service(options.index) as (process, port):
        ask(port, questions[:WARM_UP])
        before = count_processor_seconds(process)
        times = ask(port, questions[WARM_UP:])
        spent = (count_processor_seconds(process) - before) / len(times)
        memory = int(Path(f"/proc/{process}/status").read_text().split("RssAnon:")[1].split()[0]) / 1024
        with urlopen(f"http://127.0.0.1:{port}/api/about") as answer:
            references = json.load(answer)["references"]
    median, late = np.percentile(times, [50, 95])
    figures = {"references": references, "median s": median, "95 % s": late, "processor s": spent, "MiB": memory}
    store.replace(JUDGED, {}, {name: round(float(figure), 3) for name, figure in figures.items()})


def make_service_tables(store: Measurements) -> dict[str, str]:
    """Return the table of matching.md: seconds until a picture is answered and judged."""
    figures = store.find(JUDGED, {})[0]["figures"]
    seconds = [f"{figures[name]:.2f} s" for name in ("median s", "95 % s", "processor s")]
    row = [f"{figures['references']:,.0f}", f"{RATE:g}", *seconds, f"{figures['MiB']:,.0f} MiB"]
    heads = ["references", "pictures a second", "median", "95 % within", "processor, a picture", "memory"]
    return {"matching.md": make_table(heads, [row])}


def measure_growth(contents: int, _seed: int) -> Figures:
    """Fill an index and search it; return what each part takes."""
    figures: Figures = {}

    def time_part(name: str, work: Callable[[], T]) -> T:
        with watch_memory() as memory:
            before = time.process_time()
            result = work()
            figures[f"{name}: processor s"] = time.process_time() - before
        figures[f"{name}: GiB"] = memory[0]
        print(f"{name}: {figures[f'{name}: processor s']:.1f} s of processors, {memory[0]:.2f} GiB", flush=True)
        return result

    population = Population(contents, 0)
    with tempfile.TemporaryDirectory() as name, open_store(Path(name), "simulated", DIMENSIONS) as store:

        def fill() -> None:
            first = 0
            for vectors in population.draw_blocks(contents):
                add_contents(store, vectors, first)
                first += len(vectors)

        time_part(FILL, fill)
        index = time_part(OPEN, lambda: open_search(store))
        time_part(EXACTLY, lambda: index.nearest(population.draw(COMPARED), NEAREST))
    return figures


def measure_index(store: Measurements, options: argparse.Namespace) -> None:
    """Measure an index of so many contents, unless it is in the results."""
    store.measure(GROWTH, {"contents": options.contents}, [0], partial(measure_growth, options.contents))


def make_index_tables(store: Measurements) -> dict[str, str]:
    """Return the table of scale.md: rates by number of contents."""
    grown = [entry for entry in store.measurements if entry["name"] == GROWTH]
    found = sorted((entry["about"]["contents"], entry["figures"]) for entry in grown)
    rows = [
        ["processor seconds: to fill it; to open it"]
        + [f"{each[f'{FILL}: processor s']:.0f}; {each[f'{OPEN}: processor s']:.0f}" for _, each in found],
        ["queries a second of one core", *(f"{COMPARED / each[f'{EXACTLY}: processor s']:,.0f}" for _, each in found)],
    ]
    return {"scale.md": make_table(["made-up vectors", *(f"{count:,}" for count, _ in found)], rows)}


PARTS: dict[str, tuple[Callable[[Measurements, Any], None], Callable[[Measurements], dict[str, str]]]] = {
    "search": (measure_searches, make_search_tables),
    "installed": (measure_installed, lambda store: {}),
    "service": (measure_service, make_service_tables),
    "index": (measure_index, make_index_tables),
}


def main() -> None:
    """Measure a part, or write its tables; print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--docs", action="store_true", help="measure nothing, write the tables of the documents")
    shared.add_argument("--results", type=Path, default=RESULTS, metavar="FILE.json")
    parts = parser.add_subparsers(dest="part", required=True)
    searching, installing, serving, indexing = (parts.add_parser(name, parents=[shared]) for name in PARTS)
    searching.add_argument("data", type=Path, nargs="?", default=Path(os.environ.get("COPYSETS", ".")))
    searching.add_argument("--pictures", type=int, nargs="*", default=[], metavar="N", help="sizes of collections, such as 2500")
    searching.add_argument("--large", type=int, nargs="*", default=[], metavar="N", help="numbers of pictures of 12 megapixels")
    installing.add_argument("packages", nargs="*", choices=PACKAGES, default=list(PACKAGES), metavar="PACKAGE")
    serving.add_argument("index", type=Path, nargs="?")
    serving.add_argument("pictures", type=Path, nargs="?")
    indexing.add_argument("--contents", type=int, default=1_000_000)
    options = parser.parse_args()
    store = Measurements.open(options.results)
    measure, make_tables = PARTS[options.part]
    if options.docs:
        write_tables(make_tables(store), f"benchmarks/speed.py {options.part} --docs")
        return
    measure(store, options)
    if options.results == RESULTS:
        print(*make_tables(store).values())


if __name__ == "__main__":
    main()
