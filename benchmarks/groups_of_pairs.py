"""Groups of copies from ten million pairs: time and memory on one machine.

    python benchmarks/groups_of_pairs.py [--pairs 10000000]

Pairs are simulated: families of 2 to 6 copies that all match each other, each pair found from both sides but for one in ten,
and 2 % of pairs between two families, which the rule has to refuse. `matching/groups/components.py` groups them.
"""

import argparse
import time
from collections.abc import Iterator

import numpy as np
from index_growth import watch_memory

from image_copies.matching.groups.components import PAIR, Pairs, group_pairs, pack_pairs

PAIRS_PER_BLOCK = 250_000
LARGEST_FAMILY = 6
FROM_BOTH_SIDES, BETWEEN_FAMILIES = 0.9, 0.02  # shares of the pairs


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


def main() -> None:
    """Print what was found, and how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    options = parser.parse_args()
    pairs, count = np.empty(options.pairs + PAIRS_PER_BLOCK, PAIR), 0
    for block in draw_pairs(options.pairs):
        pairs[count : count + len(block)] = block
        count += len(block)
    pairs = pairs[:count]
    contents = 1 + int(max(pairs["first"].max(), pairs["second"].max()))
    print(f"{count:,} pairs of {contents:,} contents, {pairs.nbytes / 2**20:,.0f} MiB", flush=True)
    with watch_memory() as memory:
        wall, processor = time.perf_counter(), time.process_time()
        found = group_pairs(pairs, contents)
        took = f"{time.perf_counter() - wall:.0f} s, {time.process_time() - processor:.0f} s of processor"
    print(
        f"{found.pairs:,} different ones, {len(found.groups):,} groups, {len(found.cuts):,} cuts, {found.dropped:,} dropped: "
        f"{took}, {memory[0]:.2f} GiB at most"
    )


if __name__ == "__main__":
    main()
