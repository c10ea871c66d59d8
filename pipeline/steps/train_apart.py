"""Step 01 for several models at the same time: each is trained by one process, which has a GPU to itself."""

import os
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

import torch

from image_copies.data.errors import UserError
from image_copies.data.locks import hold_folder
from image_copies.models.training.model_settings import ModelSettings
from image_copies.pipeline.run.cli import report_errors
from image_copies.pipeline.run.run import Run, open_existing_run
from image_copies.pipeline.run.step import is_due
from image_copies.pipeline.run.training_roles import assign_training_roles
from image_copies.pipeline.steps.definitions import TRAIN
from image_copies.pipeline.steps.train import check_models, train


def train_at_once(run: Run, count: int) -> None:
    """Train the models that are not up to date, `count` at a time, in the recipe's order; each takes the next free GPU.

    A model that starts from, or learns from, another model of the run is left to the step, which also records what is finished.

    Raises:
        UserError: when there are fewer GPUs than `count`, or a training fails; the others are finished first.
    """
    gpus = torch.cuda.device_count()
    if count < 1 or 0 < gpus < count:
        raise UserError(f"--at-once {count}: give at least 1, and at most the number of GPUs, of which this machine has {gpus}.")
    check_models(run)
    waiting = [
        product.name for product in TRAIN.products(run) if is_due(run, TRAIN, product) and _stands_alone(run, product.name)
    ]
    running, failed = dict[int, tuple[str, SpawnProcess]](), list[str]()
    with hold_folder(run.folder, f"{TRAIN.name}, {count} models at a time"):
        try:
            while waiting or running:
                for gpu in (gpu for gpu in range(count) if waiting and gpu not in running):
                    name = waiting.pop(0)
                    process = get_context("spawn").Process(target=_train_one, args=(run.folder, run.data, name, gpu))
                    process.start()
                    running[gpu] = name, process
                    print(f"{TRAIN.name} {name}: starting" + (f" on GPU {gpu}" if gpus else ""), flush=True)
                wait([process.sentinel for _, process in running.values()])
                for gpu, (name, process) in list(running.items()):
                    if not process.is_alive():
                        failed += [name] if process.exitcode else []
                        del running[gpu]
        finally:
            for _, process in running.values():
                process.terminate()
                process.join()
    if failed:
        raise UserError(f"the training of {', '.join(failed)} ended with an error, which is above. The same command goes on.")


def _stands_alone(run: Run, name: str) -> bool:
    """Whether a model is trained, and needs no file that another model of the run makes."""
    model, made_here = run.recipe.models[name], run.paths.model(name).parent.resolve()
    if not isinstance(model, ModelSettings):
        return False
    return model.weights_file is None or not model.weights_file.resolve().is_relative_to(made_here)


def _train_one(folder: Path, data: Path, name: str, gpu: int) -> None:
    """Train one model in this process; torch sees one GPU."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[gpu] if visible else str(gpu)
    os.environ["TQDM_DISABLE"] = "1"  # several bars would overwrite each other
    with report_errors():
        run = open_existing_run(folder, data)
        train(run, name, assign_training_roles(run))
