"""Search, scoring, PCA and embedding at growing sizes, within --minutes.

    python benchmarks/full_size.py [--minutes 10] [--ground-truth CSV] [--parts search,score,pca,embed]

Vectors are simulated: unit length, 256 dimensions; a fifth of the queries are noisy copies of references.
search: ours against faiss.contrib.exhaustive_search.range_search_max_results on IndexFlatL2 with the same N, in one run.
score: 500,000 predictions against a ground truth of 25,000 queries. pca: joining 2,432 dimensions, fitting and projecting.
embed: images per second of the loader and network together, against the forward pass alone.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.images import ImageSet, find_images
from image_copies.submissions.ensemble.projection import fit_projection, scale_to_unit_length
from image_copies.submissions.scoring.metrics import average_precision, rank_pairs
from image_copies.submissions.search.exact import ScoredPairs, search_pairs
from image_copies.submissions.vectors.concatenated import open_concatenated
from image_copies.submissions.vectors.files import write_vectors

DIMENSIONS = 256
SEARCH_SIZES = [(500, 20_000), (1000, 50_000), (2000, 100_000), (5000, 200_000), (10_000, 500_000), (25_000, 1_000_000)]
ROUNDS, SECONDS_PER_ROUND = 5, 12
CONSOLE = Console(width=120)


def simulate(queries: int, references: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Draw unit vectors; the first fifth of the queries are noisy copies of the references in the same rows.

    Returns:
        float32 [queries, 256] and [references, 256].
    """
    rng = np.random.default_rng(seed)
    base = scale_to_unit_length(rng.standard_normal((references, DIMENSIONS), dtype=np.float32))
    others = scale_to_unit_length(rng.standard_normal((queries, DIMENSIONS), dtype=np.float32))
    copies = queries // 5
    others[:copies] = scale_to_unit_length(base[:copies] + 0.06 * rng.standard_normal((copies, DIMENSIONS), dtype=np.float32))
    return others, base


def search_with_faiss(queries: NDArray[np.float32], references: NDArray[np.float32], count: int) -> ScoredPairs:
    """Faiss's own range search with a shrinking radius, as the organisers' evaluation used it."""
    import faiss  # imported here: others use `simulate` where there is none
    from faiss.contrib.exhaustive_search import range_search_max_results

    index = faiss.IndexFlatL2(DIMENSIONS)
    index.add(references)

    def batches() -> Iterator[NDArray[np.float32]]:
        for start in range(0, len(queries), 1024):
            yield queries[start : start + 1024]

    _, limits, distances, rows = range_search_max_results(index, batches(), 2.0, max_results=2 * count, min_results=count)
    query_rows = np.repeat(np.arange(len(queries)), np.diff(limits.astype(np.int64)))
    order = np.argsort(distances, kind="stable")[:count]
    return ScoredPairs(query_rows[order], rows[order], distances[order].astype(np.float64))


def measure_search(seconds: float) -> None:
    """Measure size by size, as long as the next one fits into `seconds`."""
    measured: list[tuple[int, int, float, float]] = []  # queries, references, Faiss's seconds and our seconds of each size
    table = Table(
        "queries", "references", "Faiss, s", "ours, s", "ratio", "same pairs", "µAP Faiss", "µAP ours", "extra RSS, MiB"
    )
    began = time.monotonic()
    for n, m in SEARCH_SIZES:
        if measured:
            last = measured[-1]
            expected = 1.2 * (last[2] + last[3]) * (n * m) / (last[0] * last[1])
            if time.monotonic() - began + expected > seconds:
                break
        queries, references = simulate(n, m)
        ids, names = [f"Q{i}" for i in range(n)], [f"R{i}" for i in range(m)]
        truth = GroundTruth(ids, frozenset((f"Q{i}", f"R{i}") for i in range(n // 5)))
        before = measure_peak_mib()
        start = time.perf_counter()
        ours = search_pairs(queries, references, 10 * n)
        own = time.perf_counter() - start
        extra = measure_peak_mib() - before
        start = time.perf_counter()
        theirs = search_with_faiss(queries, references, 10 * n)
        other = time.perf_counter() - start
        shared = len(as_set(ours) & as_set(theirs)) / len(as_set(theirs))
        scores = [average_precision(rank_pairs(pairs, ids, names, truth)) for pairs in (theirs, ours)]
        measured.append((n, m, other, own))
        figures = (f"{n:,}", f"{m:,}", f"{other:.2f}", f"{own:.2f}", f"{own / other:.2f}", f"{shared:.4%}")
        table.add_row(*figures, *(f"{score:.6f}" for score in scores), f"{extra:.0f}")
    CONSOLE.print(table)
    n, m, other, own = measured[-1]
    full = 25_000 * 1_000_000 / (n * m)
    if full > 1:
        print(f"extrapolated to 25,000 × 1,000,000 by the number of pairs: Faiss {other * full:.0f} s, ours {own * full:.0f} s")
    print(f"search ratio at the largest size measured: {own / other:.2f} (wanted: at most 0.70)")


def measure_scoring(path: Path | None) -> None:
    """Print the time from found pairs to µAP, for 500,000 pairs of 25,000 queries."""
    if path is not None:
        truth = read_ground_truth(path)
    else:
        ids = [f"Q{i:05d}" for i in range(25_000)]
        truth = GroundTruth(ids, frozenset((query, f"R{i:06d}") for i, query in enumerate(ids[:4991])))
    rng = np.random.default_rng(0)
    names = [f"R{i:06d}" for i in range(1_000_000)]
    row = {query: number for number, query in enumerate(truth.query_ids)}
    true = [(row[query], int(reference[1:])) for query, reference in truth.pairs]
    false = np.stack(
        [rng.integers(len(row), size=500_000 - len(true)), rng.integers(1_000_000, size=500_000 - len(true))], axis=1
    )
    pairs = np.concatenate([np.array(true), false])
    distances = np.round(rng.random(500_000), 4)  # rounded: ties
    start = time.perf_counter()
    order = np.argsort(distances, kind="stable")
    ranked = rank_pairs(ScoredPairs(pairs[order, 0], pairs[order, 1], distances[order]), truth.query_ids, names, truth)
    score = average_precision(ranked)
    print(f"scoring 500,000 predictions: {time.perf_counter() - start:.2f} s (wanted: under 1.0), µAP {score:.6f}")


def measure_pca(rows: int) -> None:
    """Print time and peak memory of joining, fitting and projecting seven models with 2,432 dimensions together."""
    dimensions = (512, 384, 384, 384, 256, 256, 256)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        ids = [f"T{i:06d}" for i in range(rows)]
        paths = [Path(folder) / f"{number}.h5" for number in range(len(dimensions))]
        for path, width in zip(paths, dimensions, strict=True):
            blocks = (
                scale_to_unit_length(rng.standard_normal((min(16_384, rows - start), width), dtype=np.float32))
                for start in range(0, rows, 16_384)
            )
            write_vectors(path, ids, blocks)
        start = time.perf_counter()
        joined = open_concatenated(paths)
        projection = fit_projection(joined.sample(100_000))
        fitted = time.perf_counter() - start
        write_vectors(Path(folder) / "out.h5", ids, (projection.apply(block, 256, -0.5) for block in joined.blocks()))
        total = time.perf_counter() - start
    print(
        f"PCA of {rows:,} × {sum(dimensions):,}: fitted in {fitted:.1f} s, with projection {total:.1f} s, "
        f"peak memory of this process {measure_peak_mib() / 1024:.2f} GiB (wanted: under 4)"
    )


def measure_embedding(backbones: list[str], images: int) -> None:
    """Print images per second with decoding and loading, and as a share of the forward pass alone."""
    from image_copies.data.procedural import write_pictures

    with tempfile.TemporaryDirectory() as folder:
        list(write_pictures(Path(folder), "T", images, 0))
        found = find_images(folder)
        for name in backbones:
            whole, forward = measure_speeds(name, found)
            print(f"{name}, 160 px: {whole:.0f} images/s, forward alone {forward:.0f}: {whole / forward:.0%} (wanted: 90 %)")


def measure_speeds(backbone: str, found: ImageSet) -> tuple[float, float]:
    """Return median images per second over ROUNDS: from files, and of the forward pass alone."""
    import torch

    from image_copies.models.device import best_device
    from image_copies.models.inference.embed import embed_batch, embed_images
    from image_copies.models.inference.settings import EmbeddingSettings
    from image_copies.models.network.checkpoint import Checkpoint
    from image_copies.models.network.descriptor import Descriptor
    from image_copies.models.network.settings import DescriptorSettings

    descriptor = Descriptor(DescriptorSettings(backbone=backbone, dimensions=256)).eval()
    device = best_device()  # where embed_images moves the descriptor: the batch must be there as well
    descriptor = descriptor.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types lack memory_format
    batch, settings = torch.randn(32, 3, 160, 160, device=device), EmbeddingSettings(batch_size=32)

    def forward(batches: int) -> None:
        for _ in range(batches):
            embed_batch(descriptor, batch)
        if device.type == "cuda":
            torch.cuda.synchronize()  # or the time would be that of queueing the work

    forward(1)
    chosen = choose_images(SECONDS_PER_ROUND, time_work(lambda: forward(1)) / 32, found)
    alone, whole = [], []
    for _ in range(ROUNDS):  # in turns: other users of the machine slow both sides alike
        alone.append(time_work(lambda: forward(len(chosen) // 32)))
        whole.append(time_work(lambda: list(embed_images(Checkpoint(descriptor, 160, {}), chosen, settings))))
    return len(chosen) / float(np.median(whole)), len(chosen) / float(np.median(alone))


def time_work(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def choose_images(seconds: float, each: float, found: ImageSet) -> ImageSet:
    """Return as many whole batches as the forward pass takes `seconds` for, so that starting the workers does not count."""
    count = max(32, min(len(found), int(seconds / each)) // 32 * 32)
    return ImageSet(found.ids[:count], found.paths[:count])


def as_set(pairs: ScoredPairs) -> set[tuple[int, int]]:
    return set(zip(pairs.queries.tolist(), pairs.references.tolist(), strict=True))


def measure_peak_mib() -> float:
    """Return the peak resident memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="for the search (default: 10)")
    parser.add_argument("--ground-truth", type=Path, help="the challenge's CSV, for scoring")
    parser.add_argument("--parts", default="search,score,pca,embed", help="which parts (default: all)")
    parser.add_argument("--pca-rows", type=int, default=1_000_000, help="training vectors of the PCA (default: 1,000,000)")
    parser.add_argument("--images", type=int, default=3200, help="images to draw and embed at most (default: 3200)")
    options = parser.parse_args()
    parts = options.parts.split(",")
    if "search" in parts:
        measure_search(60 * options.minutes)
    if "score" in parts:
        measure_scoring(options.ground_truth)
    if "pca" in parts:
        measure_pca(options.pca_rows)
    if "embed" in parts:
        measure_embedding(["mobilenetv3_small_100", "tf_efficientnetv2_s"], options.images)


if __name__ == "__main__":
    main()
