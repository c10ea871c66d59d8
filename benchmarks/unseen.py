"""µAP on synthetic queries of families of edits that nothing was chosen by: to be run once for weights, after all choices.

    python benchmarks/unseen.py RUN [--checkpoint FILE …] [--families weather paper …]

The families are those that models of the run's recipe leave out (`without_edits`), less those that choices looked at
(`queries.left_out`). Copies of the run's held-out images get an edit of one of these families, each in turn, and those of
`queries.augmentation` in addition; as many edited images copy nothing. Every descriptor is scored on the same queries.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import get_args

from page_tables import make_table
from quality import score_queries

from image_copies.augmentations.settings import EditFamily
from image_copies.data.images import find_images
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.run.cli import report_errors
from image_copies.pipeline.run.recipe import Recipe
from image_copies.pipeline.run.run import assign_training_roles, open_existing_run
from image_copies.pipeline.steps.augment import make_queries, synthetic_truths
from image_copies.submissions.vectors.files import Vectors


def list_unseen(recipe: Recipe) -> list[EditFamily]:
    """The families that a model leaves out and no choice looks at, in the order of their definition."""
    left_out = {family for model in recipe.trained_models.values() for family in model.without_edits or ()}
    return [family for family in get_args(EditFamily) if family in left_out - set(recipe.queries.left_out or ())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--checkpoint", type=Path, nargs="+", default=[SHIPPED], metavar="FILE", help="default: what ships")
    parser.add_argument("--families", nargs="+", choices=get_args(EditFamily))
    options = parser.parse_args()
    with report_errors(), tempfile.TemporaryDirectory() as folder:
        run = open_existing_run(options.run, None)
        families = tuple(options.families or list_unseen(run.recipe))
        queries = run.recipe.queries.model_copy(update={"left_out": families})
        asking = replace(run, folder=Path(folder), recipe=run.recipe.model_copy(update={"queries": queries}))
        make_queries(asking, asking.paths.queries, asking.recipe.queries.count)
        truth = synthetic_truths(asking.paths, families)[1]
        assert truth is not None
        images = find_images(asking.paths.query_images).select(truth.query_ids)
        for checkpoint in options.checkpoint:
            extractor = checkpoint_extractor(checkpoint)
            raw, references = extractor.extract_all(images), extractor.extract_all(assign_training_roles(run).references)
            moved = Vectors(raw.ids, extractor.normalize(raw.vectors), raw.unreadable)
            variants = {"raw": raw} | ({"normalised": moved} if extractor.normalizer else {})
            found = {name: score_queries(name, vectors, references, truth) for name, vectors in variants.items()}
            rows = [[name, *(f"{figure:.3f}" for figure in figures.values())] for name, figures in found.items()]
            heads = [key.removeprefix("raw ") for key in found["raw"]]
            print(f"{checkpoint}: {len(images)} queries of {', '.join(families)}\n" + make_table(["vectors", *heads], rows))


if __name__ == "__main__":
    main()
