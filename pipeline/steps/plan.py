"""`01_train.py --plan`: the memory, disk space and time that a run's training needs."""

from rich.console import Console
from rich.table import Table

from image_copies.data.errors import UserError
from image_copies.data.process import describe_seconds
from image_copies.models.training.plan import StagePlan, describe_machine, plan_model
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.run.training_roles import assign_training_roles
from image_copies.pipeline.steps.train import check_models

GIB = 2**30  # bytes
CONSOLE_WIDTH = 140  # characters


def print_plan(run: Run, processes: int) -> None:
    """Print a row for each model and stage, and whether this machine has enough memory and disk space for so many processes.

    Raises:
        UserError: when `processes` is below 1, as for `check_models`, or when a model cannot be trained at a stage's image size.
    """
    if processes < 1:
        raise UserError(f"--processes {processes}: give at least 1.")
    check_models(run)
    roles = assign_training_roles(run)
    machine, console = describe_machine(run.folder, processes), Console(width=CONSOLE_WIDTH)
    table = Table(
        title=f"{run.folder}: {len(roles.classes):,} training images, {machine.device}, {processes} process(es), memory in GiB"
    )
    for name in ("model", "stage", "classes", "pixels", "batch", "matrix", "optimiser", "network", "activations", "memory"):
        table.add_column(name, justify="left" if name == "model" else "right")
    table.add_column("edits", justify="right")
    table.add_column("an epoch", justify="right")
    table.add_column("at most", justify="right")
    table.add_column("fits")
    plans: list[StagePlan] = []
    disk: dict[tuple[int, str], int] = {}
    for name, model in run.recipe.trained_models.items():
        with console.status(f"measuring {name}"):
            for plan in plan_model(model, len(roles.classes), processes, roles.labels):
                plans.append(plan)
                disk[plan.image_size, model.cache] = plan.disk
                table.add_row(*_format_cells(name, plan), "yes" if plan.memory < machine.memory else "no")
    console.print(table)
    if not plans:
        console.print("all models are handmade: there is nothing to train")
        return
    most, cache = max(plan.memory for plan in plans), sum(disk.values())
    state = max(plan.state for plan in plans) + sum(
        plan.network // 2 for plan in plans
    )  # state of one training at a time, checkpoints of all
    hours = sum(plan.most_seconds for plan in plans) / 3600
    enough = "fits" if most < machine.memory else "does not fit: lower batch_size or image_size, or use more processes (torchrun)"
    console.print(f"memory: {_format_gib(most)} of {_format_gib(machine.memory)} GiB free in each process, {enough}")
    remedy = "does not fit: cache: jpeg takes a tenth of pixels, or move the run folder"
    enough = "fits" if cache + state < machine.disk else remedy
    console.print(
        f"disk: {_format_gib(cache)} GiB of resized images and {_format_gib(state)} GiB of training states and checkpoints, of "
        f"{_format_gib(machine.disk)} GiB free, {enough}"
    )
    bound = "hours at most for network, classes, optimisers and edits"
    console.print(f"time: {hours:.1f} {bound}; a stage ends earlier once it reaches its target loss")
    if processes > 1:
        alone = {
            name: list(plan_model(model, len(roles.classes), 1, roles.labels))
            for name, model in run.recipe.trained_models.items()
        }
        apart = bound_at_once(list(alone.values()), processes)
        together = sum(plan.most_seconds for plan in plans)
        better = "--at-once" if apart < together else "torchrun"
        times = f"{describe_seconds(together)} by torchrun, {describe_seconds(apart)} with --at-once {processes}"
        console.print(f"with {processes} GPUs: {times}; {better} is faster")


def bound_at_once(models: list[list[StagePlan]], processes: int) -> float:
    """Return the seconds at most of models of which each is trained by one of so many processes, the next when one is free.

    They share the cores: all edits together take as long as one after the other.
    """
    ends = [0.0] * processes
    for stages in models:
        free = min(range(processes), key=ends.__getitem__)
        ends[free] += sum(stage.most_seconds for stage in stages)
    edits = sum(stage.most_seconds * stage.edit_seconds / stage.epoch_seconds for stages in models for stage in stages)
    return max(*ends, edits)


def _format_cells(name: str, plan: StagePlan) -> list[str]:
    numbers = [f"{plan.stage}", f"{plan.classes:,}", f"{plan.image_size}", f"{plan.batch_size}"]
    sizes = [_format_gib(size) for size in (plan.matrix, plan.optimizer, plan.network, plan.activations, plan.memory)]
    return [
        name,
        *numbers,
        *sizes,
        describe_seconds(plan.edit_seconds),
        describe_seconds(plan.epoch_seconds),
        describe_seconds(plan.most_seconds),
    ]


def _format_gib(size: int) -> str:
    return f"{size / GIB:.2f}"
