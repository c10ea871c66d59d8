"""`06_score.py --index`: the run's references in any Faiss index, and its recall against exact search."""

import faiss

from data.errors import UserError
from data.files import whole_folder
from data.remote import is_remote
from pipeline.run.run import Run
from pipeline.run.staleness import report_stale
from pipeline.run.step import Product, make_product
from pipeline.steps.definitions import SCORE, STEPS
from submissions.search.approximate import INDEX_FILE, build_index, measure_recall, open_index
from submissions.vectors.concatenated import open_concatenated


def print_index_recall(run: Run, factory: str, probes: int | None, force: bool) -> None:
    """Build an index unless it is up to date, and print its recall and speed.

    Args:
        run: The run, finished up to step 04.
        factory: A string of Faiss's index factory.
        probes: Number of inverted lists searched for each query; None for the square root of their number.
        force: Build it even if nothing has changed.

    Raises:
        UserError: when an earlier step has not been done, Faiss rejects the string, or `probes` does not apply to the index.
    """
    training, references = (run.require(run.paths.projected(part)) for part in ("training", "reference"))
    queries = run.require(run.paths.normalized_queries)
    report_stale(run, STEPS[: STEPS.index(SCORE)])
    if is_remote(run.folder):
        raise UserError(f"an index is mapped from disk, which {run.folder} is not on. Copy the run to this machine for --index.")
    folder, searched = run.paths.index, open_concatenated([references])

    def build() -> None:
        with whole_folder(folder) as temporary:
            build_index(factory, open_concatenated([training]), searched, temporary, run.recipe.seed)

    product = Product(
        name="index",
        inputs=lambda: {"training": training, "reference": references},
        outputs=[folder / INDEX_FILE],
        parameters={"factory": factory, "seed": run.recipe.seed},
        work=build,
    )
    make_product(run, SCORE, product, force)
    index = open_index(folder, probes)
    recall = measure_recall(index, open_concatenated([queries]), searched, seed=run.recipe.seed)
    lists = faiss.try_extract_index_ivf(index)
    probed = f", {lists.nprobe} of {lists.nlist} lists searched" if lists is not None else ""
    print(
        f"{factory}{probed}: recall at 1 {recall.at_1:.3f}, at 10 {recall.at_10:.3f} against exact search of {recall.queries} "
        f"queries among {index.ntotal:,} references; {recall.queries / recall.seconds:.0f} queries/s; stored in {folder}"
    )
