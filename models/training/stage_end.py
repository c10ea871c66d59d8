"""What a stage leaves: its rows of the curve, its checkpoint, and a report that warns where it went wrong."""

import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from lightning_fabric import Fabric

from image_copies.data.errors import UserError
from image_copies.data.files import whole_file

from ..network.checkpoint import load_descriptor, save_descriptor
from ..network.descriptor import Descriptor
from .collapse import COSINE, RANK, RANK_BOUND, REMEDY, find_collapse
from .curve import CLASSIFIER, EpochRow, read_rows, stage_checkpoint
from .settings import StageSettings

# µAP on the synthetic queries, and on those whose edits are left out of training
Scores = tuple[float | None, float | None]
# what a checkpoint notes of its stage's last epoch; reads it from the curve
NOTES: dict[str, Callable[[str], object]] = {
    "stage": int,
    "classes": int,
    "loss": float,
    "ended_by": str,
    "validation": float,
}


def start_row(scores: Scores, image_size: int, warning: str = "") -> EpochRow:
    """The curve's row of the weights that training starts from."""
    return EpochRow(
        stage=0,
        epoch=0,
        step=0,
        classes=0,
        intensity=0.0,
        image_size=image_size,
        loss=math.nan,
        learning_rate=0.0,
        images_per_second=0.0,
        seconds=0.0,
        validation=scores[0],
        left_out=scores[1],
        ended_by="start",
        warning=warning,
    )


def write_checkpoint(folder: Path, last: EpochRow, descriptor: Descriptor, image_size: int) -> None:
    """Write the weights, with what the stage's last epoch says of them."""
    notes = {name: getattr(last, name) for name in NOTES}
    save_descriptor(stage_checkpoint(folder, last.stage), descriptor, image_size, notes)


def restore_checkpoint(
    folder: Path, descriptor: Descriptor, stages: Sequence[StageSettings], fabric: Fabric
) -> None:
    """Write the last checkpoint of a finished training again where a power cut has left none that can be read.

    Raises:
        UserError: The disk is full.
    """
    path = stage_checkpoint(folder, len(stages))
    if fabric.global_rank == 0:
        try:
            load_descriptor(path)
        except UserError:
            fabric.print(
                f"  {path} cannot be read: it is written again from the training's state", flush=True
            )
            ends = [row for row in read_rows(folder) if row.get("ended_by")]
            last = ends[-1] if ends else {}
            notes = {name: read(last[name]) for name, read in NOTES.items() if last.get(name)}
            save_descriptor(path, descriptor, stages[-1].image_size, notes)
    fabric.barrier()


def describe_end(last: EpochRow, model: str) -> str:
    """Describe in a line how a stage of a model ended."""
    scored = "" if last.validation is None else f", µAP on synthetic queries {last.validation:.3f}"
    if last.left_out is not None:
        scored += f" ({last.left_out:.3f} where edits are left out)"
    if RANK in last.logs:
        scored += f", mean cosine {last.logs[COSINE]:.2f}, effective rank {last.logs[RANK]:.1f} of {last.logs[RANK_BOUND]:g}"
    return f"  {model} stage {last.stage}: {last.classes} classes, loss {last.loss:.2f}, ended by {last.ended_by}{scored}"


def find_troubles(last: EpochRow, rows: list[dict[str, str]]) -> list[str]:
    """Describe what a stage's end should warn of: vectors that collapse, and a stage that ends below one before it."""
    troubles = []
    if collapse := find_collapse(last.logs):
        troubles.append(f"vectors collapse in stage {last.stage} ({collapse}): {REMEDY}.")
    score, judged_by = last.left_out, "left_out"
    if score is None:
        score, judged_by = last.validation, "validation"
    before = [row for row in rows if int(row["stage"]) < last.stage and row.get(judged_by)]
    best = max(before, key=lambda row: float(row[judged_by]), default=None)
    if best is not None and score is not None and score < float(best[judged_by]):
        named = "the start" if best["stage"] == "0" else f"stage {best['stage']}"
        troubles.append(
            f"stage {last.stage} ends at a µAP of {score:.3f}, below the {float(best[judged_by]):.3f} of {named}: "
            "its class rows and edits were not learnt in its time, or what was known is lost. Give it more epochs, fewer "
            "classes, a lower intensity, or a learning rate that falls (last_learning_rate_factor)."
        )
    return troubles


def keep_best(folder: Path, model: str, stages: int, fabric: Fabric) -> None:
    """Let the last checkpoint be that of the stage with the best µAP where edits are left out, if it is known.

    Of stages of the last one's image size: the same weights score .776 at 128 px and .757 at 160, where they find more copies.
    Where a classifier goes with the last weights, these stay.

    Raises:
        UserError: The disk is full.
    """
    if fabric.global_rank == 0 and not (folder / CLASSIFIER).is_file():
        rows = read_rows(folder)
        size = rows[-1]["image_size"] if rows else ""
        scored = [row for row in rows if row.get("left_out") and row["image_size"] == size]
        there = [row for row in scored if stage_checkpoint(folder, int(row["stage"])).is_file()]
        best = max(there, key=lambda row: (float(row["left_out"]), int(row["stage"])), default=None)
        if best is not None and int(best["stage"]) != stages:
            with whole_file(stage_checkpoint(folder, stages)) as temporary:
                shutil.copyfile(stage_checkpoint(folder, int(best["stage"])), temporary)
            told = f"  {model}: the weights of stage {best['stage']} are kept, which is best where edits are left out"
            fabric.print(told, flush=True)
    fabric.barrier()
