"""What the files in the folder of a model's training are called; free of torch, so that a run knows them at once."""

from pathlib import Path

CURVE = "curve.csv"


def stage_checkpoint(folder: Path, stage: int) -> Path:
    """The weights after drip stage `stage`, counted from 1."""
    return folder / f"stage-{stage}.safetensors"
