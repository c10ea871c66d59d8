"""Recall and speed of a Faiss index of a run's references, against exact search of them.

    python benchmarks/index_recall.py IVF1024,PQ32 --run runs/isc [--nprobe 32]

The index is trained on the run's training vectors and built in memory; the references themselves stay on the disk. A thousand of
the normalised queries are searched. Recall is that of the neighbours that the index finds, and that of the nearest among 50
candidates for each by exact distances.
"""

import argparse
import math
import time
from pathlib import Path

import faiss
import numpy as np
from index_growth import compute_recall

from image_copies.pipeline.run.paths import RunPaths
from image_copies.submissions.search.exact import rank_exactly
from image_copies.submissions.search.nearest import search_nearest
from image_copies.submissions.vectors.concatenated import open_concatenated
from image_copies.submissions.vectors.rows import ROWS_PER_BLOCK, take_rows
from image_copies.submissions.vectors.stored import open_vectors

QUERIES, NEAREST, CANDIDATES = 1000, 10, 50  # candidates for each neighbour asked for
CODEBOOK_VECTORS, VECTORS_PER_LIST = 65_536, 64  # that a product quantiser and each inverted list are trained on, at most


def main() -> None:
    """Print recall at 1 and at 10, and queries a second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("factory", help="string of Faiss's index factory")
    parser.add_argument("--run", type=Path, required=True, metavar="DIR", help="a run, finished up to step 04")
    parser.add_argument("--nprobe", type=int, metavar="N", help="inverted lists to search; √lists if not given")
    options = parser.parse_args()
    paths = RunPaths(options.run)
    queries, training = open_concatenated([paths.normalized_queries]), open_concatenated([paths.projected("training")])
    asked, references = queries.sample(QUERIES), open_vectors(paths.projected("reference")).readable()
    index = faiss.index_factory(queries.dimensions, options.factory)
    lists = faiss.try_extract_index_ivf(index)
    index.train(training.sample(max(CODEBOOK_VECTORS, VECTORS_PER_LIST * (lists.nlist if lists is not None else 0))))
    for shard in references.divide(ROWS_PER_BLOCK):
        index.add(shard.load())
    if lists is not None:
        lists.nprobe = options.nprobe or math.isqrt(lists.nlist)
    _, true = search_nearest(asked, references, NEAREST, "distance")
    began = time.perf_counter()
    _, found = index.search(asked, NEAREST)
    rate = len(asked) / (time.perf_counter() - began)
    _, candidates = index.search(asked, min(CANDIDATES * NEAREST, len(references)))
    numbers = np.unique(candidates[candidates >= 0])
    vectors = take_rows(references, numbers)
    _, compared = rank_exactly(lambda wanted: vectors[np.searchsorted(numbers, wanted)], asked, candidates, NEAREST)
    print(f"{options.factory}: {len(references):,} references, {len(asked):,} queries, {rate:,.0f} queries/s")
    for name, nearest in (("by the index alone", found), (f"exact distances of {CANDIDATES} candidates each", compared)):
        at_1, at_10 = compute_recall(nearest[:, :1], true[:, :1]), compute_recall(nearest, true)
        print(f"  {name}: recall at 1 {at_1:.4f}, at {NEAREST} {at_10:.4f}")


if __name__ == "__main__":
    main()
