"""What 1 to 1,000 million images cost, from measured rates and stated assumptions: the table and the plot of docs/scale.md.

    python benchmarks/scale.py [--plot docs/scale.png]

Nothing is measured here. Each rate says which command measured it, on how much. What lies beyond is extrapolated: linear in
images, in pairs of images and in cores.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from image_copies.data.files import whole_file

SIZES = (1e6, 1e7, 1e8, 1e9)  # images
CORES, MEMORY = 16, 64  # of a node: cores, GiB
DIMENSIONS, CODE_BYTES = 256, 136  # of a vector; its code of 4 bits a dimension, with its number
PAIRS_PER_IMAGE = 1.0  # that a search reports, counted from both sides

# per core-second
SMALL_PICTURES = 718 / 2  # images: mobilenetv3_small_100 at 160 px, on two cores (benchmarks/full_size.py --parts embed)
LARGE_PICTURES = 13.7  # images of 12 megapixels, the shipped descriptor, to groups (benchmarks/large_pictures.py)
EXACT_PAIRS = 25_000 * 1e6 / (2 * 72)  # vectors compared: 25,000 × 1,000,000 in 72 s on two cores (benchmarks/full_size.py)
# core-seconds
ENCODE = 25.3 / 1e6  # per vector, training included: match.py's index of 1,000,000 (benchmarks/index_growth.py)
LOOK = 4.7 / (1000 * 1e6)  # per query and vector, 70 % of the lists: 1,000 queries of 1,000,000 (the same)
GROUP = 29 / 1e7  # per pair of 10,000,000 (benchmarks/groups_of_pairs.py)
GROUP_BYTES = 95  # of memory, per pair of 10,000,000 (the same)


@dataclass(frozen=True)
class Step:
    """A step and how it grows.

    Attributes:
        name: What is done.
        core_seconds: Returns the core-seconds for a number of images.
        measured: The largest number of images that it was measured for.
        spread: Whether several nodes share it.
    """

    name: str
    core_seconds: Callable[[float], float]
    measured: float
    spread: bool = True

    def node_hours(self, images: float) -> float:
        """Return the node-hours for a number of images; of a step that is not spread, one core keeps the node."""
        return self.core_seconds(images) / (CORES if self.spread else 1) / 3600


STEPS = (
    Step("embedding, small pictures", lambda n: n / SMALL_PICTURES, 1e5),
    Step("embedding, 12 megapixels", lambda n: n / LARGE_PICTURES, 10_000),
    Step("all against all, exact", lambda n: n * n / EXACT_PAIRS, 25e9**0.5),
    Step("a million queries, exact", lambda n: 1e6 * n / EXACT_PAIRS, 1e6),
    Step("codes of the vectors", lambda n: n * ENCODE, 1e6),
    Step("a million queries by codes", lambda n: 1e6 * n * LOOK, 1e6),
    Step("groups, on one core", lambda n: n * PAIRS_PER_IMAGE * GROUP, 1e7, spread=False),
)


def count_nodes(images: float) -> int:
    """Return the nodes that embed 12-megapixel pictures, encode them and search all against all exactly within a day."""
    return math.ceil(sum(STEPS[number].node_hours(images) for number in (1, 2, 4)) / 24)


def print_table() -> None:
    """Print node-hours, and space, by number of images."""
    heads = [f"{size / 1e6:,.0f} M" for size in SIZES]
    print(f"| node-hours of {CORES} cores | " + " | ".join(heads) + " |")
    print("|---|" + "---|" * len(SIZES))
    for step in STEPS:
        print(f"| {step.name} | " + " | ".join(show(step.node_hours(size)) for size in SIZES) + " |")
    print("| **nodes, to be done within a day** | " + " | ".join(f"{count_nodes(size):,}" for size in SIZES) + " |")
    print(f"\n| space | {' | '.join(heads)} |\n|---|{'---|' * len(SIZES)}")
    for name, of in SPACE:
        print(f"| {name} | " + " | ".join(f"{show(of(size))} GB" for size in SIZES) + " |")


SPACE: Sequence[tuple[str, Callable[[float], float]]] = (
    ("vectors, float32", lambda n: n * DIMENSIONS * 4 / 1e9),
    ("vectors, float16", lambda n: n * DIMENSIONS * 2 / 1e9),
    ("codes", lambda n: n * CODE_BYTES / 1e9),
    ("memory of grouping", lambda n: n * PAIRS_PER_IMAGE * GROUP_BYTES / 1e9),
)


def show(number: float) -> str:
    """Return a number with two digits that count."""
    return f"{float(f'{number:.2g}'):,.3f}".rstrip("0").rstrip(".") if number < 10 else f"{float(f'{number:.2g}'):,.0f}"


def draw(path: Path) -> None:
    """Draw how hours and space grow; dashed beyond what was measured."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.8), constrained_layout=True)
    for number, step in enumerate(STEPS):
        sizes = [10 ** (exponent / 4) for exponent in range(20, 37)]
        known = [*(size for size in sizes if size < step.measured), *([step.measured] if step.measured > sizes[0] else [])]
        beyond = [*known[-1:], *(size for size in sizes if size >= step.measured)]
        colour = f"C{number}"
        left.plot(known, [step.node_hours(size) for size in known], color=colour)
        left.plot(beyond, [step.node_hours(size) for size in beyond], "--", color=colour, label=step.name)
    left.set(
        xscale="log", yscale="log", xlabel="images", ylabel=f"node-hours ({CORES} cores)", title="time: dashed is extrapolated"
    )
    for name, of in SPACE:
        right.plot(SIZES, [of(size) for size in SIZES], marker="o", label=name)
    right.axhline(MEMORY * 1.074, color="grey", linewidth=0.8)
    right.annotate(f"memory of a node, {MEMORY} GiB", (SIZES[0], MEMORY * 1.2), color="grey")
    right.set(xscale="log", yscale="log", xlabel="images", ylabel="GB", title="space")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    with whole_file(path) as temporary:
        figure.savefig(temporary, dpi=110)


def main() -> None:
    """Print the tables, and draw the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="also draw the growth")
    options = parser.parse_args()
    print_table()
    if options.plot is not None:
        draw(options.plot)


if __name__ == "__main__":
    main()
