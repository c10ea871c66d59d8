"""`06_score.py --index`: the run's references in any Faiss index, and what it loses against exact search."""

import time

from pipeline.stage import Run, require
from submissions.approximate import build_index, measure_recall, save_index
from submissions.vectors import read_vectors


def print_index_recall(run: Run, factory: str) -> None:
    """Train the index on the run's training vectors, add its references, keep it in the run, print its recall and speed."""
    training = read_vectors(require(run.folder / "ensemble" / "training.h5", "03_ensemble", run)).readable()
    references = read_vectors(run.folder / "ensemble" / "reference.h5").readable()
    queries = read_vectors(require(run.folder / "normalized" / "query.h5", "04_normalize", run)).readable()
    index = build_index(factory, training, references)
    path = run.folder / "reference.index"
    save_index(path, index)
    began = time.perf_counter()
    index.search(queries, 10)
    seconds = time.perf_counter() - began
    recall = measure_recall(index, queries, references)
    print(
        f"{factory}: recall at 1 {recall.at_1:.3f}, at 10 {recall.at_10:.3f} against exact search on {recall.queries} queries; "
        f"{len(queries) / seconds:.0f} queries/s; kept in {path}"
    )
