"""An index of a million vectors that grows: time and memory of adding, opening and searching.

    python benchmarks/index_growth.py [--contents 1000000]

Simulated unit vectors (256-d), one file each; no pictures and no network. Wall and processor seconds of each part, and the
resident memory that is not the mapped file.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from submissions.ensemble.projection import unit_length
from submissions.index.search import nearest, open_search
from submissions.index.store import Content, Store, add_files, open_store, remove_files

DIMENSIONS, BLOCK, QUERIES, ADDED = 256, 10_000, 1000, 1000
CONSOLE = Console(width=120)
T = TypeVar("T")


def add(store: Store, vectors: NDArray[np.float32], first: int) -> None:
    """Add vectors as contents with numbers from `first` on."""
    digests = [(first + row).to_bytes(32, "big") for row in range(len(vectors))]
    files = {Path(f"/pictures/{first + row}.jpg"): digest for row, digest in enumerate(digests)}
    add_files(store, files, [Content(digest, vector) for digest, vector in zip(digests, vectors, strict=True)])


def unmapped_memory() -> float:
    """GiB of resident memory that belongs to no file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 2**20


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contents", type=int, default=1_000_000)
    contents = parser.parse_args().contents
    table = Table("part", "seconds", "processor seconds", "GiB", title=f"{contents:,} × {DIMENSIONS}")

    def timed(name: str, work: Callable[[], T]) -> T:
        wall, processor = time.perf_counter(), time.process_time()
        result = work()
        row = f"{time.perf_counter() - wall:.1f}", f"{time.process_time() - processor:.1f}", f"{unmapped_memory():.2f}"
        table.add_row(name, *row)
        return result

    rng = np.random.default_rng(0)

    def draw(count: int) -> NDArray[np.float32]:
        return unit_length(rng.standard_normal((count, DIMENSIONS), dtype=np.float32))

    with tempfile.TemporaryDirectory() as name, open_store(Path(name), "simulated", DIMENSIONS) as store:

        def fill() -> None:
            for first in range(0, contents, BLOCK):
                add(store, draw(BLOCK), first)

        timed("fill", fill)
        timed("open, making the Faiss file", lambda: open_search(store).ntotal)
        timed("open again", lambda: open_search(store).ntotal)
        timed(f"add {ADDED:,}", lambda: add(store, draw(ADDED), contents))
        timed(f"remove {ADDED:,}", lambda: remove_files(store, [Path(f"/pictures/{7 * row}.jpg") for row in range(ADDED)]))
        index = timed("open with what changed", lambda: open_search(store))
        timed(f"{QUERIES:,} queries, 10 nearest, exact", lambda: nearest(index, draw(QUERIES), 10))
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
