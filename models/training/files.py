"""Names of the files in a training's folder; imports no torch, so that listing a run stays fast."""

from pathlib import Path

CURVE = "curve.csv"
CLASSIFIER = "classifier.safetensors"


def stage_checkpoint(folder: Path, stage: int) -> Path:
    """Return the path of the checkpoint of drip stage `stage`, counted from 1; 0 for a handmade model."""
    return folder / f"stage-{stage}.safetensors"


def stage_number(checkpoint: Path) -> int | None:
    """Return the stage in a checkpoint's file name; None for other names."""
    number = checkpoint.stem.removeprefix("stage-")
    return int(number) if number.isdecimal() and checkpoint.stem != number else None
