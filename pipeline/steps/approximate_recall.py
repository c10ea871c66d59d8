"""`06_score.py --index`: the run's references in any Faiss index, and what it loses against exact search."""

import faiss

from data.files import whole_folder
from pipeline.run.stage import Run, require, run_step
from pipeline.run.staleness import tell_stale
from submissions.ensemble.concatenated import join_files
from submissions.search.approximate import INDEX, build_index, measure_recall, open_index


def print_index_recall(run: Run, factory: str, probes: int | None, force: bool) -> None:
    """Build the index where training vectors, references or factory string have changed; print its recall and speed."""
    training, references = (
        require(run.folder / "ensemble" / f"{name}.h5", "03_ensemble", run) for name in ("training", "reference")
    )
    queries = require(run.folder / "normalized" / "query.h5", "04_normalize", run)
    tell_stale(run, "06_score")
    folder, searched = run.folder / "index", join_files([references])

    def build() -> None:
        with whole_folder(folder) as temporary:
            build_index(factory, join_files([training]), searched, temporary, run.recipe.seed)

    run_step(
        run,
        "06_score",
        name="index",
        outputs=[folder / INDEX],
        inputs={"training": training, "reference": references},
        parameters={"factory": factory, "seed": run.recipe.seed},
        work=build,
        force=force,
    )
    index = open_index(folder, probes)
    recall = measure_recall(index, join_files([queries]), searched, seed=run.recipe.seed)
    lists = faiss.try_extract_index_ivf(index)
    looked = f", {lists.nprobe} of {lists.nlist} lists looked into" if lists is not None else ""
    print(
        f"{factory}{looked}: recall at 1 {recall.at_1:.3f}, at 10 {recall.at_10:.3f} against exact search of {recall.queries} "
        f"queries among {index.ntotal:,} references; {recall.queries / recall.seconds:.0f} queries/s; kept in {folder}"
    )
