"""Approximate search in ten million vectors that lie in shards: time and memory of building, recall of 1,000 queries.

    python benchmarks/ten_million.py [--vectors 10000000] [--folder DIR]

There are no pictures and no network: vectors are drawn such that they are as hard to index as real ones (`Population` of
index_growth.py), and stored as float16 in shards of 50,000, as step 02 numbers them. Each shard is encoded once; the codes are
merged into lists on disk; candidates are compared again with the stored vectors. Recall is relative to exact search in the stored
vectors. A build that is stopped continues with `--folder`. Ten million take 5.1 GB for the vectors, 0.7 GB for their codes and as
much again for the merged lists.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import faiss
import numpy as np
from faiss.contrib.exhaustive_search import knn_ground_truth
from index_growth import BLOCK, Population, compute_recall, watch_memory

from image_copies.data.files import write_text
from image_copies.submissions.search.approximate import StoredIndex, build_index, search_stored
from image_copies.submissions.vectors.files import iterate_vectors, write_vectors
from image_copies.submissions.vectors.stored import open_stored_vectors

SHARD, QUERIES, NEAREST = 50_000, 1000, 10
CODES = "PQ64np"  # 64 bytes a vector; without the polysemous training, which takes minutes and is not used
TRAINING_VECTORS_PER_LIST = 64
VECTORS_PER_LIST = 2500  # on average: finer lists take longer to assign to, and save little of what must be probed
PROBED_SHARES = (0.2, 0.35, 0.5, 0.7)  # of the lists
T = TypeVar("T")


def draw_shards(count: int, folder: Path) -> list[Path]:
    """Write the shards that are missing; a stopped drawing begins again."""
    paths = [folder / f"{number:06d}.h5" for number in range(-(-count // SHARD))]
    if paths[-1].is_file():
        return paths
    blocks = Population(count, 0).draw_blocks(count)
    for number, path in enumerate(paths):
        size = min(SHARD, count - number * SHARD)
        drawn = (next(blocks) for _ in range(-(-size // BLOCK)))
        write_vectors(path, [f"{number * SHARD + row:09d}" for row in range(size)], drawn, half=True)
    return paths


def main() -> None:
    """Print a line for each part, as it ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="keep shards and index here; without it they are removed at the end")
    parser.add_argument("--results", type=Path, help="also write the figures to this JSON file")
    options = parser.parse_args()
    results: dict[str, object] = {"vectors": options.vectors, "codes": CODES}

    def time_part(name: str, work: Callable[[], T]) -> T:
        with watch_memory() as memory:
            wall, processor = time.perf_counter(), time.process_time()
            result = work()
            took = {"seconds": time.perf_counter() - wall, "processor_seconds": time.process_time() - processor, "GiB": memory[0]}
        results[name] = took
        shown = f"{took['seconds']:9.1f} s  {took['processor_seconds']:9.1f} s of processor  {took['GiB']:5.2f} GiB"
        print(f"{name:45} {shown}", flush=True)
        return result

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        count: int = options.vectors
        lists = 2 ** round(np.log2(max(16, count / VECTORS_PER_LIST)))
        print(f"{count:,} × 256 in shards of {SHARD:,}; IVF{lists},{CODES}; {faiss.omp_get_max_threads()} threads", flush=True)
        paths = time_part("draw and store", lambda: draw_shards(count, folder))
        stored = open_stored_vectors(paths)
        factory, more = f"IVF{lists},{CODES}", TRAINING_VECTORS_PER_LIST
        time_part("train, encode, merge", lambda: build_index(factory, stored, stored, folder, folder, vectors_per_list=more))
        rng, population = np.random.default_rng(1), Population(count, 0)
        originals = stored.rows(np.sort(rng.choice(count, QUERIES // 2, replace=False)))
        copies, _ = population.draw_copies(originals)
        queries = np.concatenate([copies, population.draw(QUERIES - len(copies))])
        blocks = (block for path in paths for block in iterate_vectors(path))
        true = time_part("search exactly", lambda: knn_ground_truth(queries, blocks, NEAREST))[1]
        for share in PROBED_SHARES:
            index = StoredIndex(folder, stored, probes=max(1, round(share * lists)))
            name = f"{QUERIES:,} queries, {share:.0%} of the lists"
            found = time_part(name, lambda index=index: search_stored(index, queries, NEAREST))[1]  # type: ignore[misc]
            recall = compute_recall(found, true)
            results[f"recall at {share}"] = recall
            print(f"{'':45} recall at {NEAREST}: {recall:.4f}", flush=True)
        taken = sum(path.stat().st_size for path in folder.iterdir())
        results["GB on disk"] = taken / 1e9
        print(f"{taken / 1e9:.1f} GB on disk", flush=True)
    if options.results is not None:
        write_text(options.results, json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
