"""Step 01: train every model of the recipe through its drip stages; a stopped training goes on where it was.

Under torchrun the images of a batch and the class matrix are shared out over processes:
torchrun --nproc-per-node 4 -- pipeline/01_train.py --run DIR
"""

import argparse
import hashlib
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.settings import is_local
from pipeline.run.stage import Run, clear_errors, command_line, open_run, require, run_step
from pipeline.run.staleness import step_parameters, tell_stale
from pipeline.run.training_roles import training_roles


def train(run: Run, options: argparse.Namespace) -> None:
    queries = require(run.folder / "queries" / "public_ground_truth.csv", "00_augment", run)
    tell_stale(run, "01_train")
    roles = training_roles(run)
    for name, settings in run.recipe.models.items():
        folder = run.folder / "models" / name
        run_step(
            run,
            "01_train",
            name=name,
            outputs=[folder / f"stage-{len(settings.stages)}.safetensors"],
            inputs={
                "classes": roles.classes,
                "labels": _digest(roles.labels),
                "overlays": roles.overlays,
                "synthetic queries": queries,
                "weights": Path(weights) if is_local(weights := settings.descriptor.weights) else None,
            },
            parameters=step_parameters(run.recipe)[f"01_train {name}"],
            work=partial(_train_one, run, name),
            force=options.force,
            anew=[folder],
        )


def _digest(labels: NDArray[np.int64] | None) -> str | None:
    return None if labels is None else hashlib.sha256(labels.tobytes()).hexdigest()


def _train_one(run: Run, name: str) -> None:
    # imported here: an up-to-date step must return at once
    from models.network.descriptor import check_backbone
    from models.training.trainer import train_model
    from pipeline.steps.validate import synthetic_score

    for model in run.recipe.models.values():
        check_backbone(model.descriptor.backbone)  # a misspelt one must not wait until the others have trained
    roles, settings = training_roles(run), run.recipe.models[name]
    train_model(
        settings,
        roles.classes,
        roles.overlays,
        labels=roles.labels,
        folder=run.folder / "models" / name,
        cache=run.folder / "cache",
        seed=run.recipe.seed,
        validate=lambda descriptor, size: synthetic_score(
            run, roles, descriptor, size, settings.embedding or run.recipe.embedding
        ),
    )


def plan(run: Run, processes: int) -> None:
    """Print what each stage will need, and whether this machine has it."""
    # imported here: training must not wait for it
    from pipeline.steps.plan import print_plan

    print_plan(run, training_roles(run), processes)


if __name__ == "__main__":
    parser = command_line(__doc__ or "")
    parser.add_argument("--plan", action="store_true", help="print memory, time and disk of every stage, and train nothing")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="with --plan: how many would share the work")
    arguments = parser.parse_args()
    with clear_errors():
        opened = open_run(arguments)
        if arguments.plan:
            plan(opened, arguments.processes)
        else:
            train(opened, arguments)
