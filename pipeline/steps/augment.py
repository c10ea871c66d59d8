"""Step 00's work: the synthetic query set."""

from collections.abc import Sequence
from pathlib import Path

from image_copies.augmentations.composition import list_edits
from image_copies.augmentations.query_set import make_query_set, read_families
from image_copies.data.errors import UserError
from image_copies.data.ground_truth import GroundTruth, read_ground_truth

from ..run.paths import RunPaths
from ..run.run import Run, assign_training_roles, require_no_tests


def make_queries(run: Run, folder: Path, count: int) -> None:
    """Edit validation images into `count` queries, and write their ground truth and a record of every edit into a folder.

    Raises:
        UserError: when a training image is a query or a reference, there are too few images, two have the same id, or a left-out
            family has no edit.
    """
    roles = assign_training_roles(run)
    settings = run.recipe.queries
    for name, edits in zip(settings.left_out or (), settings.left_out_edits, strict=True):
        if not list_edits(edits):
            raise UserError(
                f"queries.left_out names {name!r}, of which no table has an edit to make queries with: remove it."
            )
    require_no_tests(run, run.training_images, "the synthetic queries")
    make_query_set(
        references=roles.references,
        distractors=roles.distractors,
        overlays=roles.overlays,
        settings=settings.learnt_edits,
        left_out=settings.left_out_edits,
        seed=run.recipe.seed,
        count=count,
        copies=min(settings.copies, count),
        folder=folder,
    )


def synthetic_truths(
    paths: RunPaths, names: Sequence[str] | None
) -> tuple[GroundTruth, GroundTruth | None]:
    """The ground truth of the synthetic queries, and of the half of them whose edits training leaves out.

    None for the latter where no families are left out (`names`, of `queries.left_out`), or either half has no copy: the first is
    then that of all queries.
    """
    truth = read_ground_truth(paths.query_ground_truth)
    if names is None:
        return truth, None
    families = read_families(paths.query_records)
    unlearnt = {query_id for query_id in truth.query_ids if families[query_id] & set(names)}
    halves = [
        GroundTruth(
            [query_id for query_id in truth.query_ids if (query_id in unlearnt) == other],
            frozenset(pair for pair in truth.pairs if (pair[0] in unlearnt) == other),
        )
        for other in (False, True)
    ]
    return (halves[0], halves[1]) if all(half.pairs for half in halves) else (truth, None)
