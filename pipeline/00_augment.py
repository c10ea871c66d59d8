"""Step 00: edit validation images into a synthetic query set with ground truth, and draw contact sheets of the edits."""

import argparse

from data.images import find_images
from data.layout import TRAINING
from pipeline.run.stage import Run, command_line, run_script, run_step
from pipeline.run.staleness import step_parameters
from pipeline.run.training_roles import training_roles


def augment(run: Run, options: argparse.Namespace) -> None:
    sheets = run.folder / "contact_sheets"
    queries = run.folder / "queries"
    if options.preview is not None:
        _draw_sheets(run, options.preview)
        print(f"contact sheets: {sheets}")
        return
    run_step(
        run,
        "00_augment",
        outputs=[queries / "public_ground_truth.csv", sheets / "edits.jpg"],
        inputs={"training images": find_images(run.data / TRAINING)},
        parameters=step_parameters(run.recipe)["00_augment"],
        work=lambda: _make_queries(run),
        force=options.force,
    )
    print(f"synthetic queries: {queries}, contact sheets: {sheets}")


def _make_queries(run: Run) -> None:
    # imported here: an up-to-date step must return at once
    from augmentations.query_set import make_query_set

    roles, settings = training_roles(run), run.recipe.queries
    make_query_set(
        references=roles.references,
        distractors=roles.distractors,
        overlays=roles.overlays,
        settings=settings.augmentation,
        seed=run.recipe.seed,
        count=settings.count,
        copies=settings.copies,
        folder=run.folder / "queries",
    )
    _draw_sheets(run, 8)


def _draw_sheets(run: Run, images: int) -> None:
    from augmentations.contact_sheet import draw_contact_sheets

    roles = training_roles(run)
    draw_contact_sheets(roles.classes, roles.overlays, images, run.recipe.seed, run.folder / "contact_sheets")


if __name__ == "__main__":
    parser = command_line(__doc__ or "")
    parser.add_argument("--preview", type=int, metavar="N", help="draw the contact sheets of N images and nothing else")
    run_script(parser, augment)
