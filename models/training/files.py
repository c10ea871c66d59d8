"""What the files in the folder of a model's training are called; free of torch, so that a run knows them at once."""

from pathlib import Path

CURVE = "curve.csv"
CLASSIFIER = "classifier.safetensors"


def stage_checkpoint(folder: Path, stage: int) -> Path:
    """The weights after drip stage `stage`, counted from 1."""
    return folder / f"stage-{stage}.safetensors"


def stage_number(checkpoint: Path) -> int | None:
    """The stage, from 1, that a checkpoint's name says; None for a file that is named otherwise."""
    number = checkpoint.stem.removeprefix("stage-")
    return int(number) if number.isdecimal() and checkpoint.stem != number else None
