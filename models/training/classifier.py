"""The file of the linear classifier, next to the checkpoint of a training's last stage."""

from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from image_copies.data.errors import UserError
from image_copies.data.files import whole_file

from .curve import CLASSIFIER, stage_checkpoint, stage_number


def save_classifier(folder: Path, classifier: nn.Linear) -> None:
    """Write weight [c, d] and bias [c] into a training's folder.

    Raises:
        UserError: The disk is full.
    """
    with whole_file(folder / CLASSIFIER) as temporary:
        save_file(
            {name: value.cpu().contiguous() for name, value in classifier.state_dict().items()}, temporary
        )


def load_classifier(checkpoint: Path) -> tuple[Tensor, Tensor]:
    """Load weight [c, d] and bias [c] of the classifier that was trained with a checkpoint.

    Raises:
        UserError: There is none, or the checkpoint is not that of the last stage.
    """
    path = checkpoint.parent / CLASSIFIER
    if not path.is_file():
        raise UserError(
            f"{path} is missing: only models with the objectives softmax and multigrain (λ above 0) have a classifier."
        )
    later = _later_checkpoint(checkpoint)
    if later is not None:
        raise UserError(
            f"{path} belongs to the last stage, but {checkpoint.name} is followed by {later.name}: name the last checkpoint."
        )
    state = load_file(path)
    return state["weight"], state["bias"]


def has_classifier(checkpoint: Path) -> bool:
    """Whether `load_classifier` would find a classifier."""
    return (checkpoint.parent / CLASSIFIER).is_file() and _later_checkpoint(checkpoint) is None


def _later_checkpoint(checkpoint: Path) -> Path | None:
    """Return the next stage's checkpoint if it exists; None also for files not named after a stage."""
    number = stage_number(checkpoint)
    later = None if number is None else stage_checkpoint(checkpoint.parent, number + 1)
    return later if later is not None and later.is_file() else None
