"""What image-copies dedup finds, compares and takes, beside exact search and k-means clusters.

    python benchmarks/dedup.py vectors --output DIR [--count 1000000]     made-up vectors of empty files, a tenth of them copies;
                                                                          joins dedup.json
    python benchmarks/dedup.py pairs [--count 10000000]                   made-up pairs, of which 2 % connect two families
    python benchmarks/dedup.py judging --source PICTURES                  pictures made small, and re-encoded; joins dedup.json
    python benchmarks/dedup.py --docs                                     writes the tables of scale.md

Recall is that of exact search: of the pairs under the threshold that `SAMPLE` pictures drawn at random are in. The clusters are
compared as NeMo Curator does: each vector with those of its own list only. Memory is the driver's, without mapped files.
"""

import argparse
import hashlib
import importlib
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
from faiss import pairwise_distances
from made_up_vectors import MATCH_DISTANCE, Population, watch_memory
from measurements import Figures, Measurements
from numpy.typing import NDArray
from page_tables import make_table, write_tables
from PIL import Image, ImageOps
from threadpoolctl import threadpool_limits

from image_copies.data.images import find_images
from image_copies.data.sources.containers import Container
from image_copies.matching.dedup.blocks import Lists, Packed, find_pairs, load_array
from image_copies.matching.dedup.deciding import UNSEEN, Verdict, decide, find_candidates, make_knowledge, plan_pair
from image_copies.matching.dedup.deduplication import write_lists
from image_copies.matching.dedup.inputs import list_containers
from image_copies.matching.dedup.vectors import (
    Collection,
    Embedding,
    Row,
    embed_containers,
    make_collection,
    write_container,
)
from image_copies.matching.groups.groups import Pairs, group_components, pack_pairs
from image_copies.matching.output import Output

RESULTS = Path(__file__).with_name("dedup.json")
COMMAND = "benchmarks/dedup.py --docs"
SAMPLE, FILES_PER_FOLDER = 4000, 1000
SIDES, JUDGED = (64, 96, 128), 200  # pixels of the long side of small pictures, and how many are judged
PAIRS_PER_BLOCK, LARGEST_FAMILY = 250_000, 6
FROM_BOTH_SIDES, BETWEEN_FAMILIES = 0.9, 0.02  # shares of the pairs
KINDS = "vectors", "blocks", "pairs"  # folders of files of vectors, of blocks, and of pairs
OPENED = Counter[str]()
T = TypeVar("T")


def open_nothing() -> Any:
    """Return an extractor of made-up vectors, which are compared as they are."""
    return SimpleNamespace(normalize=lambda vectors: vectors)


def make_up(folder: Path, source: str, count: int) -> None:
    """Write empty files into a folder, and vectors of them as an earlier run would have left."""
    embedding = Embedding(open_nothing, "made up", folder / "out")
    for first in range(0, count, FILES_PER_FOLDER):
        own = folder / source / f"{first:09d}"
        own.mkdir(parents=True)
        for number in range(first, min(first + FILES_PER_FOLDER, count)):
            os.mknod(f"{own}/{number:09d}.jpg")
    rows = chain.from_iterable(Population(count, count).draw_blocks(count))
    for container in list_containers([folder / source], embedding.folder):
        write_container(embedding, container, draw_rows(container, rows), [])


def draw_rows(container: Container, vectors: Iterator[NDArray[np.float32]]) -> Iterator[tuple[Row, NDArray[np.float32]]]:
    """Yield what is known of each of a container's empty files, with its vector [d]."""
    for name in container.names:
        row: Row = dict.fromkeys(("place", "bytes", "width", "height"), 0) | {"flat": False, "error": None}
        row |= {"id": name, "source": container.source, "sha256": hashlib.sha256(os.fsencode(name)).digest()}
        yield row, next(vectors)


def count_opened(event: str, arguments: tuple[Any, ...]) -> None:
    """Count the files that this process opens to read or write, by what they are: an audit hook."""
    if event == "open" and arguments[1] is not None:  # a mode: not to flush it
        OPENED.update(kind for kind in KINDS if f"/{kind}" in str(arguments[0]))


def take(name: str, work: Callable[[], T], figures: Figures | None = None) -> T:
    """Do a work; print and note its time, the processor seconds of this process and those below it, and the highest memory."""
    importlib.import_module("ray")  # brings psutil, too
    own = importlib.import_module("psutil").Process()

    def count_processor_seconds() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in (own, *own.children(recursive=True)))

    with watch_memory() as memory:
        began, before = time.perf_counter(), count_processor_seconds()
        result = work()
        wall, processor = time.perf_counter() - began, count_processor_seconds() - before
    if figures is not None:
        figures |= {f"{name}: processor s": processor, f"{name}: GiB": memory[0]}
    print(f"{name}: {wall:.1f} s, {processor:.1f} s of processors, {memory[0]:.3f} GiB at most", flush=True)
    return result


def list_parts(embedding: Embedding, sources: Sequence[Path]) -> Collection:
    """Return the pictures of sources, which are embedded."""
    return make_collection(embedding, embed_containers(embedding, (), list_containers(sources, embedding.folder), Output()), [])


def measure(embedding: Embedding, source: Path, limit: float) -> Figures:
    """Print and return what each step takes of a run whose pictures are embedded, and what it finds."""
    figures: Figures = {}
    collection = take("list and open", lambda: list_parts(embedding, [source]), figures)
    lists = Lists(embedding, collection, limit)
    OPENED.clear()
    pairs = take("find pairs", lambda: find_pairs(lists), figures)
    figures |= {f"opened: {kind}": OPENED[kind] for kind in KINDS}
    candidates = take("join and group", lambda: find_candidates(collection, pairs), figures)
    decided = decide(candidates, [UNSEEN] * len(candidates), ())
    take("write lists", lambda: write_lists(embedding.folder, collection, *decided, []), figures)
    print(f"{len(collection):,} pictures, {lists.count:,} lists, {len(pairs):,} pairs; {figures}")
    return figures | compare_exactly(collection, lists, set(map(tuple, pairs[["first", "second"]].tolist())))


def compare_exactly(collection: Collection, lists: Lists, found: set[tuple[int, int]]) -> Figures:
    """Print and return recall and share of pairs compared of the lists, and of clusters with the same centroids."""
    limit, extractor = lists.limit, lists.embedding.open()
    chosen = np.sort(np.random.default_rng(0).choice(len(collection), min(SAMPLE, len(collection)), replace=False))
    blocks = list[tuple[NDArray[np.float32], NDArray[np.int64]]]()  # vectors and numbers of pictures that show something
    for file, first in enumerate(collection.starts[:-1]):
        vectors, readable, flat, _ = collection.read_vectors(file)
        shown = np.flatnonzero(readable & ~flat)
        blocks.append((vectors[shown], shown + first))
    chosen = chosen[np.isin(chosen, np.concatenate([own for _, own in blocks]))]
    sample = np.concatenate([vectors[np.isin(own, chosen)] for vectors, own in blocks])
    queries, centroids, labels = extractor.normalize(sample), load_array("centroids", lists.centroids), dict[int, int]()
    pairs = set[tuple[int, int]]()
    for vectors, own in blocks:
        far = pairwise_distances(queries, vectors)
        if queries is not sample:
            far = np.minimum(far, pairwise_distances(sample, extractor.normalize(vectors)))
        near = np.stack(np.nonzero((far <= limit) & (chosen[:, None] != own)))
        pairs |= {(min(pair), max(pair)) for pair in zip(chosen[near[0]].tolist(), own[near[1]].tolist(), strict=True)}
        wanted = np.unique(np.append(near[1], np.flatnonzero(np.isin(own, chosen))))
        labels |= zip(own[wanted].tolist(), pairwise_distances(vectors[wanted], centroids).argmin(axis=1).tolist(), strict=True)
    sizes = np.sum([np.diff(Packed.read(path).starts) for path in (lists.folder / "blocks").iterdir()], axis=0)
    compared = (sizes * (sizes - 1)).sum() / len(collection) / (len(collection) - 1)
    drawn = np.unique([labels[number] for number in chosen.tolist()], return_counts=True)[1]
    clustered = (drawn * (drawn - 1)).sum() / len(chosen) / (len(chosen) - 1)
    together = sum(labels[one] == labels[other] for one, other in pairs)
    print(f"{len(pairs):,} pairs within {limit:.3f} by exact comparison of {len(chosen):,} pictures with all")
    print(f"lists: recall {len(pairs & found) / len(pairs):.4f}, {compared:.4%} of all pairs compared")
    print(f"clusters: recall {together / len(pairs):.4f}, {clustered:.4%} of all pairs compared")
    figures = {"lists: recall": len(pairs & found) / len(pairs), "lists: compared": float(compared)}
    return figures | {"clusters: recall": together / len(pairs), "clusters: compared": float(clustered)}


def draw_pairs(count: int) -> Iterator[Pairs]:
    """Yield about `count` pairs in blocks, always the same ones; their contents are numbered from 0."""
    rng = np.random.default_rng(0)
    contents = 0
    while count > 0:
        size = min(PAIRS_PER_BLOCK, count)
        families = rng.integers(2, LARGEST_FAMILY + 1, size // 12)  # of 12 pairs on average, counted from both sides
        begins = contents + np.cumsum(families) - families
        sides = [
            np.stack([begins[families > max(one, other)] + place for place in (one, other)])
            for one in range(LARGEST_FAMILY)
            for other in range(LARGEST_FAMILY)
            if one != other
        ]
        contents += int(families.sum())
        pairs = np.concatenate(sides, axis=1)
        pairs = pairs[:, (pairs[0] < pairs[1]) | (rng.random(pairs.shape[1]) < FROM_BOTH_SIDES)]
        between = rng.integers(0, contents, (2, int(BETWEEN_FAMILIES * pairs.shape[1])))
        first, second = np.concatenate([pairs, between[:, between[0] != between[1]]], axis=1)
        yield pack_pairs(first, second, -rng.random(len(first)))
        count -= len(first)


def group(count: int) -> None:
    """Group about so many made-up pairs."""
    pairs = np.concatenate(list(draw_pairs(count)))
    contents = 1 + int(max(pairs["first"].max(), pairs["second"].max()))
    found = take(f"{len(pairs):,} pairs of {contents:,} contents", lambda: list(group_components(pairs, contents)))
    print(f"{sum(len(part.groups) for part in found):,} groups, {sum(part.dropped for part in found):,} dropped")


def measure_made_up(folder: Path, count: int, _seed: int) -> Figures:
    """Return what so many made-up vectors take in this process, and what is found of them; then what a hundredth more takes."""
    sys.addaudithook(count_opened)
    with ProcessPoolExecutor(1) as pool:
        pool.submit(make_up, folder, "in", count).result()
    embedding = Embedding(open_nothing, "made up", folder / "out")
    figures = measure(embedding, folder / "in", MATCH_DISTANCE)
    with ProcessPoolExecutor(1) as pool:
        pool.submit(make_up, folder, "more", count // 100).result()
    collection = list_parts(embedding, [folder / "in", folder / "more"])
    take("find pairs of 1 % more", lambda: find_pairs(Lists(embedding, collection, MATCH_DISTANCE)), figures)
    return figures


def measure_judging(source: Path, side: int, _seed: int) -> Figures:
    """Return what judging a small PNG and its JPEG of quality 75 takes, and how often they are certainly copies."""
    paths = find_images(source).paths
    files, verdicts = list[tuple[Path, Path]](), list[Verdict]()
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        for path in paths[:: max(1, len(paths) // JUDGED)][:JUDGED]:
            with Image.open(path) as image:
                small = ImageOps.contain(image.convert("RGB"), (side, side))
            files.append((Path(folder, f"{path.stem}.jpeg"), Path(folder, f"{path.stem}.png")))
            for file in files[-1]:
                small.save(file, quality=75)
        began = time.process_time()
        for pair in files:
            knowledge = make_knowledge({path: hashlib.sha256(path.read_bytes()).digest() for path in pair})
            verdicts.append(plan_pair(knowledge, *pair, leaked=False))
        spent = time.process_time() - began
    certain = sum(judgement.kind == "certain" for judgement, _ in verdicts)
    return {"pairs": len(verdicts), "certain": certain, "seconds a pair": spent / len(verdicts)}


def find_figures(store: Measurements, name: str, about: str) -> list[tuple[int, Figures]]:
    """Return the figures of all measurements of a name, by what one setting was, ascending."""
    return sorted((entry["about"][about], entry["figures"]) for entry in store.measurements if entry["name"] == name)


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the tables of scale.md: what made-up vectors take and how many pairs are found, and what judging takes."""
    found = find_figures(store, "vectors", "vectors")
    rows = [
        [f"{name}: recall; pairs compared", *(f"{each[f'{of}: recall']:.3f}; {each[f'{of}: compared']:.2%}" for _, each in found)]
        for name, of in (("lists", "lists"), ("k-means clusters with these centroids", "clusters"))
    ]
    steps = "list and open", "find pairs", "join and group", "write lists"
    spent = ["; ".join(f"{each[f'{step}: processor s']:.1f}" for step in steps) for _, each in found]
    rows.append([f"processor seconds: {'; '.join(steps)}", *spent])
    opened = ["; ".join(f"{each[f'opened: {kind}']:,.0f}" for kind in KINDS) for _, each in found]
    rows.append(["files opened to find pairs: of vectors; of blocks; of pairs", *opened])
    more = [f"{each['find pairs of 1 % more: processor s']:.1f}" for _, each in found]
    rows.append(["processor seconds to find pairs once 1 % more are there", *more])
    rows.append(
        ["GiB of memory at most, in one process", *(f"{max(each[f'{step}: GiB'] for step in steps):.2f}" for _, each in found)]
    )
    judged = [
        [f"{side}", f"{each['certain']:.0f} of {each['pairs']:.0f}", f"{1e3 * each['seconds a pair']:.0f} ms"]
        for side, each in find_figures(store, "judging", "side")
    ]
    vectors = make_table(["made-up vectors", *(f"{count:,}" for count, _ in found)], rows)
    heads = ["pixels of a re-encoded picture's long side", "certain copies", "processor, a pair"]
    return {"scale.md": f"{vectors}\n\n{make_table(heads, judged)}"}


def main() -> None:
    """Measure one of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("vectors", "pairs", "judging"))
    parser.add_argument("--count", type=int, help="of vectors (default 1,000,000) or pairs (10,000,000)")
    parser.add_argument("--source", type=Path, help="folder of pictures")
    parser.add_argument("--output", type=Path, help="folder of the results")
    parser.add_argument("--docs", action="store_true", help="measure nothing, write the tables of scale.md")
    options = parser.parse_args()
    store = Measurements.open(RESULTS)
    if options.docs:
        write_tables(make_tables(store), COMMAND)
    elif options.part == "pairs":
        group(options.count or 10_000_000)
    elif options.part == "vectors":
        count = options.count or 1_000_000
        store.measure("vectors", {"vectors": count}, [0], partial(measure_made_up, options.output, count))
        print(*make_tables(store).values())
    else:
        for side in SIDES:
            store.measure("judging", {"side": side}, [0], partial(measure_judging, options.source, side))
        print(*make_tables(store).values())


if __name__ == "__main__":
    main()
