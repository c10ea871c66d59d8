"""The file of a linear classifier beside the checkpoint of a training's last stage."""

from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from data.errors import UserError
from data.files import whole_file
from models.training.files import CLASSIFIER, stage_checkpoint, stage_number


def save_classifier(folder: Path, classifier: nn.Linear) -> None:
    """Write weight [c, d] and bias [c] into a training's folder."""
    with whole_file(folder / CLASSIFIER) as temporary:
        save_file({name: value.cpu().contiguous() for name, value in classifier.state_dict().items()}, temporary)


def load_classifier(checkpoint: Path) -> tuple[Tensor, Tensor]:
    """Weight [c, d] and bias [c] of the classifier that was trained with a checkpoint.

    Raises:
        UserError: There is none, or the checkpoint is not its training's last.
    """
    path = checkpoint.parent / CLASSIFIER
    if not path.is_file():
        raise UserError(
            f"{path} is missing: only models with the objectives softmax and multigrain (λ above 0) have a classifier."
        )
    later = _later_checkpoint(checkpoint)
    if later is not None:
        raise UserError(f"{path} belongs to the last stage, {checkpoint.name} is followed by {later.name}: name the last.")
    state = load_file(path)
    return state["weight"], state["bias"]


def has_classifier(checkpoint: Path) -> bool:
    """Whether `load_classifier` finds one."""
    return (checkpoint.parent / CLASSIFIER).is_file() and _later_checkpoint(checkpoint) is None


def _later_checkpoint(checkpoint: Path) -> Path | None:
    """The next stage's checkpoint where there is one; files with names of their own belong to no stage."""
    number = stage_number(checkpoint)
    later = None if number is None else stage_checkpoint(checkpoint.parent, number + 1)
    return later if later is not None and later.is_file() else None
