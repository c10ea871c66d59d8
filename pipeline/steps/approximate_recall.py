"""`06_score.py --index`: the run's references in any Faiss index, and its recall against exact search."""

import hashlib
import json
from dataclasses import replace
from functools import partial

import faiss

from image_copies.data.errors import UserError
from image_copies.data.files import whole_folder
from image_copies.data.remote import is_remote, remove_folder
from image_copies.pipeline.run.manifest import describe_state
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.run.staleness import report_stale
from image_copies.pipeline.run.step import Product, is_due, make_product
from image_copies.pipeline.steps.definitions import SCORE, STEPS
from image_copies.pipeline.steps.shard_files import make_shard_folder
from image_copies.submissions.search.approximate import (
    INDEX_FILE,
    StoredIndex,
    build_index,
    find_damaged_file,
    measure_recall,
    open_index,
)
from image_copies.submissions.search.on_gpu import require_own_gpu
from image_copies.submissions.vectors.concatenated import open_concatenated
from image_copies.submissions.vectors.stored import open_stored_vectors


def print_index_recall(run: Run, factory: str, probes: int | None, force: bool, on_gpu: bool = False) -> None:
    """Build an index unless it is up to date, and print its recall and speed, by its codes and with a second look.

    Args:
        run: The run, finished up to step 04.
        factory: A string of Faiss's index factory.
        probes: Number of inverted lists searched for each query; None for the square root of their number.
        force: Build it even if nothing has changed.
        on_gpu: Whether Faiss clusters and searches on this process's GPU; the index is another one than the CPU's.

    Raises:
        UserError: when an earlier step has not been done, Faiss rejects the string, `probes` does not apply to the index, or
            there is no GPU that is asked for.
    """
    if on_gpu:
        require_own_gpu()
    training, references = (run.require(run.paths.projected(part)) for part in ("training", "reference"))
    queries = run.require(run.paths.normalized_queries)
    report_stale(run, STEPS[: STEPS.index(SCORE)])
    if is_remote(run.folder):
        raise UserError(f"an index is mapped from disk, which {run.folder} is not on. Copy the run to this machine for --index.")
    folder, vectors = run.paths.index, open_stored_vectors([references])
    inputs, parameters = {"training": training, "reference": references}, {"factory": factory, "seed": run.recipe.seed}
    parameters |= {"clustered_on_gpu": True} if on_gpu else {}

    def build() -> None:
        made_from = json.dumps(describe_state(inputs, parameters))
        codes = make_shard_folder(folder, hashlib.sha256(made_from.encode()).hexdigest()[:16])
        with whole_folder(folder) as temporary:
            sample, seed = open_concatenated([training]), run.recipe.seed
            build_index(factory, sample, vectors, temporary, codes, seed, on_gpu=on_gpu, report=partial(print, flush=True))
        for unneeded in codes.parent.glob(f".{folder.stem}-shards-*"):  # also of stopped builds of other indexes
            remove_folder(unneeded)

    product = Product(
        name="index",
        inputs=lambda: inputs,
        outputs=[folder / INDEX_FILE],
        parameters=parameters,
        work=build,
    )
    if not force and not is_due(run, SCORE, product) and (damaged := find_damaged_file(folder)) is not None:
        print(f"{damaged} is damaged: its checksum is another. The index is made again.", flush=True)
        force = True
    make_product(run, SCORE, product, force)
    index = open_index(folder, probes)
    lists = faiss.try_extract_index_ivf(index)
    probed = f", {lists.nprobe} of {lists.nlist} lists searched" if lists is not None else ""
    looked_again = StoredIndex(folder, vectors, probes, on_gpu=on_gpu)
    by_codes = replace(looked_again, candidates=0)
    recalls = measure_recall([by_codes, looked_again], open_concatenated([queries]), seed=run.recipe.seed)
    second_look = f"with exact distances of {looked_again.candidates} candidates per neighbour"
    for name, recall in zip((f"{factory}{probed}{', on the GPU' if on_gpu else ''}", second_look), recalls, strict=True):
        print(
            f"{name}: recall at 1 {recall.at_1:.3f}, at 10 {recall.at_10:.3f} against exact search of {recall.queries} "
            f"queries among {index.ntotal:,} references; {recall.queries / recall.seconds:.0f} queries/s; stored in {folder}"
        )
