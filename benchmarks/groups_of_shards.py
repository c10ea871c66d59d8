"""Groups of copies from ten million pairs in shards: time and memory on one machine.

    python benchmarks/groups_of_shards.py [--pairs 10000000]

Pairs are simulated: families of 2 to 6 copies that all match each other, each pair found from both sides but for one in ten,
and 2 % of pairs between two families, which the rule has to refuse. `submissions/copies/sharded.py` groups them.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from index_growth import watch_memory

from submissions.copies.sharded import PAIR, group_shards, write_pairs_file

PAIRS_PER_SHARD = 250_000
LARGEST_FAMILY = 6
FROM_BOTH_SIDES, BETWEEN_FAMILIES = 0.9, 0.02  # shares of the pairs


def write_shards(count: int, folder: Path) -> tuple[list[Path], int]:
    """Write about `count` pairs; return the files and the number of contents."""
    rng = np.random.default_rng(0)
    paths: list[Path] = []
    contents = 0
    while count > 0:
        size = min(PAIRS_PER_SHARD, count)
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
        first, second = np.concatenate([pairs, between], axis=1)
        paths.append(folder / f"{len(paths):06d}.npy")
        write_pairs_file(paths[-1], first, second, -rng.random(len(first), dtype=np.float32))
        count -= len(first)
    return paths, contents


def main() -> None:
    """Print what was found, and how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        paths, contents = write_shards(options.pairs, Path(name))
        stored = sum(path.stat().st_size for path in paths)
        print(
            f"{stored // PAIR.itemsize:,} pairs of {contents:,} contents in {len(paths)} files, {stored / 2**20:,.0f} MiB",
            flush=True,
        )
        for mutual in (False, True):
            with watch_memory() as memory:
                wall, processor = time.perf_counter(), time.process_time()
                found = group_shards(paths, contents, mutual)
                took = f"{time.perf_counter() - wall:.0f} s, {time.process_time() - processor:.0f} s of processor"
            sizes = np.diff(found.firsts)
            print(
                f"{'mutual pairs' if mutual else 'all pairs'}: {found.pairs:,} different ones, {len(sizes):,} groups of at most "
                f"{sizes.max()}, {len(found.cuts):,} cuts, {found.dropped} dropped: {took}, {memory[0]:.2f} GiB at most",
                flush=True,
            )


if __name__ == "__main__":
    main()
