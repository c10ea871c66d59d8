"""What 1 to 1,000 million images cost, from measured rates and stated assumptions: the tables of docs/scale.md.

    python benchmarks/scale.py [--docs]      --docs: writes them there

Nothing is measured here. Each rate says which command measured it, on how much; beyond that it is extrapolated, linear in cores.
"""

import argparse
from collections.abc import Callable, Sequence

from dedup import RESULTS, find_figures
from measurements import Measurements
from page_tables import make_table, write_tables

COMMAND = "benchmarks/scale.py --docs"
SIZES = (1e6, 1e7, 1e8, 1e9)  # images
CORES = 16  # of a node
EXACT_PAIRS = (
    25_000 * 1e6 / (2 * 72)
)  # per core-second: 25,000 × 1,000,000 in 72 s on two cores (benchmarks/full_size.py of commit 86c93ead)
STORE = Measurements.open(RESULTS)
COMPARED, LARGEST = find_figures(STORE, "vectors", "vectors")[-1]
TOOK, LISTED = LARGEST["find pairs: processor s"], LARGEST["list and open: processor s"]
JUDGING = {side: each["seconds a pair"] for side, each in find_figures(STORE, "judging", "side")}
# what is done, core-seconds for n images, how they are known, and how many cores of a node work on it
TIMES: Sequence[tuple[str, Callable[[float], float], str, int]] = (
    # the shipped descriptor: dedup of 62,000 pictures of 64 px, on two cores that were busy otherwise, too
    ("embedding, small pictures", lambda n: n / 117, "measured, 62,000", CORES),
    # the shipped descriptor, to groups (benchmarks/large_pictures.py of commit 86c93ead)
    ("embedding, 12 megapixels", lambda n: n / 13.7, "measured, 10,000", CORES),
    # benchmarks/dedup.py vectors
    ("dedup: listing, ids, what is embedded", lambda n: n / COMPARED * LISTED, f"measured, {COMPARED:,}", 1),
    ("dedup: all against all by lists", lambda n: (n / COMPARED) ** 1.75 * TOOK, f"measured, {COMPARED:,}; then N^1.75", CORES),
    # benchmarks/dedup.py judging
    ("dedup: judging a pair for every tenth picture, 64 px", lambda n: n / 10 * JUDGING[64], "measured, 200", CORES),
    ("dedup: judging a pair for every tenth picture, 128 px", lambda n: n / 10 * JUDGING[128], "measured, 200", CORES),
    # benchmarks/dedup.py pairs
    ("dedup, match: joining and grouping", lambda n: n * 29 / 1e7, "measured, 10 M pairs", 1),
    ("all against all, exact", lambda n: n * n / EXACT_PAIRS, "measured, 25,000 × 1 M; then N²", CORES),
    ("a million queries, exact", lambda n: 1e6 * n / EXACT_PAIRS, "measured, 25,000 × 1 M", CORES),
)
# what is held, bytes for n images, how they are known
SPACE: Sequence[tuple[str, Callable[[float], float], str]] = (
    ("disk: match's SQLite", lambda n: n * 1500, "measured, 1 M"),
    # commit 515049ad
    ("disk: dedup's Parquet", lambda n: n * 620, "measured, 1 M"),
    (
        "memory: dedup's driver, but for pairs",
        lambda n: 0.34e9 + n / 790 * 900,
        "measured, 1 M; then 900 bytes a file of vectors",
    ),
    ("memory: joining and grouping", lambda n: n * 95, "measured, 10 M pairs"),
)


def show(number: float) -> str:
    """Return a number with two digits that count."""
    number = float(f"{number:.2g}")
    return f"{number:,.5f}".rstrip("0").rstrip(".") if number < 10 else f"{number:,.0f}"


def make_tables() -> dict[str, str]:
    """Return the two tables of scale.md: node-hours, and what is held on disk and in memory."""
    sizes = [f"{size / 1e6:,.0f} M" for size in SIZES]
    hours = [[name, *(show(spent(size) / cores / 3600) for size in SIZES), basis] for name, spent, basis, cores in TIMES]
    held = [[name, *(show(count(size) / 1e9) for size in SIZES), basis] for name, count, basis in SPACE]
    tables = make_table([f"node-hours of {CORES} cores", *sizes, ""], hours), make_table(["GB", *sizes, ""], held)
    return {"scale.md": "\n\n".join(tables)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="also write the tables of scale.md")
    if parser.parse_args().docs:
        write_tables(make_tables(), COMMAND)
    print(*make_tables().values())
