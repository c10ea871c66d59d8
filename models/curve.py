"""The learning curve: one row per epoch, as CSV and for TensorBoard."""

import csv
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

FILE = "curve.csv"


@dataclass(frozen=True)
class EpochRow:
    """stage counts from 1; validation is µAP on the synthetic queries, empty where it was not measured; ended_by is empty
    until the stage's last epoch: "loss", "epochs" or "minutes"."""

    stage: int
    epoch: int
    step: int
    classes: int
    intensity: float
    image_size: int
    loss: float
    cosine_to_own_class: float
    learning_rate: float
    images_per_second: float
    seconds: float
    validation: float | None = None
    ended_by: str = ""


def append_rows(folder: Path, new: list[EpochRow]) -> None:
    """Add rows; older ones of the same or a later step, left by a killed run, are dropped first."""
    if not new:
        return
    rows = [old for old in read_rows(folder) if int(old["step"]) < new[0].step]
    rows += [{key: "" if value is None else str(value) for key, value in asdict(row).items()} for row in new]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(EpochRow)])
        writer.writeheader()
        writer.writerows(rows)
    with SummaryWriter(str(folder / "tensorboard")) as board:
        for row in new:
            for name in ("loss", "learning_rate", "cosine_to_own_class", "images_per_second", "classes", "validation"):
                value = getattr(row, name)
                if value is not None:
                    board.add_scalar(name, value, row.step)


def read_rows(folder: Path) -> list[dict[str, str]]:
    """The rows so far, as text."""
    path = folder / FILE
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
