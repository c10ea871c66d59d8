"""The files of a training's folder, and its learning curve: one row per epoch, as CSV and for TensorBoard; without torch."""

import csv
import shutil
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from image_copies.data.files import whole_file

CURVE = "curve.csv"
CLASSIFIER = "classifier.safetensors"


def stage_checkpoint(folder: Path, stage: int) -> Path:
    """Return the path of the checkpoint of drip stage `stage`, counted from 1; 0 for a handmade model."""
    return folder / f"stage-{stage}.safetensors"


def stage_number(checkpoint: Path) -> int | None:
    """Return the stage in a checkpoint's file name; None for other names."""
    number = checkpoint.stem.removeprefix("stage-")
    return int(number) if number.isdecimal() and checkpoint.stem != number else None


BOARD_FOLDER = "tensorboard"
SCORES = ("validation", "left_out")
CLOSING_COLUMNS = (*SCORES, "ended_by", "warning")
BOARD_COLUMNS = ("loss", "learning_rate", "images_per_second", "classes", *SCORES)


@dataclass(frozen=True)
class EpochRow:
    """One epoch of the curve."""

    stage: int  # stage number, from 1; 0 for the weights that training starts from
    epoch: int  # epoch within the stage, from 1
    step: int  # optimiser steps so far, over all stages
    classes: int
    intensity: float  # intensity of the epoch's edits, 0…1
    image_size: int
    loss: float
    learning_rate: float  # learning rate of the descriptor at the end of the epoch
    images_per_second: float  # throughput of all processes together
    seconds: float  # seconds since the stage began
    logs: dict[str, float] = field(default_factory=dict)  # the objective's own figures, one column each
    # µAP on the synthetic queries, of which some may have edits that are left out of training; None if not measured
    validation: float | None = None
    left_out: float | None = None  # of those alone
    # in the stage's last epoch "loss", "plateau", or "epochs", or "start" in stage 0; otherwise ""
    ended_by: str = ""
    warning: str = ""  # what is wrong at the stage's end and what to try; empty where nothing is

    def columns(self) -> dict[str, Any]:
        """Return all values by column name."""
        row: dict[str, Any] = asdict(self)
        logs: dict[str, float] = row.pop("logs")
        last = {name: row.pop(name) for name in CLOSING_COLUMNS}
        return row | logs | last


def append_rows(folder: Path, new: list[EpochRow]) -> None:
    """Append rows to the CSV and TensorBoard files, dropping rows of the same or later steps that a killed run left."""
    if new:
        _write_rows(folder, new)
        _add_to_board(
            folder,
            [
                (name, value, row.step)
                for row in new
                for name, value in row.columns().items()
                if value is not None and (name in BOARD_COLUMNS or name in row.logs)
            ],
        )


def record_validation(folder: Path, row: EpochRow) -> None:
    """Replace the last row, written before its validation, by one with its µAP."""
    _write_rows(folder, [row])
    scores = [(name, getattr(row, name), row.step) for name in SCORES if getattr(row, name) is not None]
    _add_to_board(folder, scores)


def _add_to_board(folder: Path, scalars: list[tuple[str, Any, int]]) -> None:
    """Add scalars, each a name, a value and a step, to the TensorBoard files; the CSV file has them where there is none."""
    if not scalars or find_spec("tensorboard") is None:
        return
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder / BOARD_FOLDER)) as board:
        for name, value, step in scalars:
            board.add_scalar(name, value, step)


def _write_rows(folder: Path, new: list[EpochRow]) -> None:
    """Write rows to the CSV file, replacing existing ones from the first new step on."""
    rows = [old for old in read_rows(folder) if int(old["step"]) < new[0].step]
    rows += [
        {key: "" if value is None else str(value) for key, value in row.columns().items()} for row in new
    ]
    names = list(dict.fromkeys(name for row in rows for name in row if name not in CLOSING_COLUMNS)) + list(
        CLOSING_COLUMNS
    )
    with whole_file(folder / CURVE) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        writer.writerows(rows)


def remove_curve(folder: Path) -> None:
    """Remove the curve of an earlier training from the folder."""
    (folder / CURVE).unlink(missing_ok=True)
    shutil.rmtree(folder / BOARD_FOLDER, ignore_errors=True)


def read_rows(folder: Path) -> list[dict[str, str]]:
    """Return the rows written so far, by column name, as text; [] if there are none."""
    path = folder / CURVE
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
