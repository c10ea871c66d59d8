"""What learns together in one stage, and its state on disk."""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch.amp.grad_scaler import GradScaler

from data.errors import UserError
from data.files import whole_file
from data.images import ImageSet
from models.descriptor import Descriptor
from models.objectives.arcface import ArcFace
from models.schedule import EpochSchedule
from models.settings import ModelSettings

STATE = "state.pt"


@dataclass
class Progress:
    """Where training stands: the stage and epoch to do next, steps done, seconds spent in the stage."""

    stage: int = 0
    epoch: int = 0
    step: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Learner:
    descriptor: Descriptor
    objective: ArcFace
    optimizer: torch.optim.Optimizer
    schedule: EpochSchedule
    scaler: GradScaler

    @property
    def device(self) -> torch.device:
        return self.objective.matrix.device


def save_state(folder: Path, identity: str, progress: Progress, descriptor: Descriptor, learner: Learner | None) -> None:
    """Everything that going on needs; `learner` None between stages."""
    state: dict[str, object] = {
        "identity": identity,
        "progress": asdict(progress),
        "descriptor": descriptor.state_dict(),
    }
    if learner is not None:
        state |= {
            "objective": learner.objective.state_dict(),
            "optimizer": learner.optimizer.state_dict(),
            "schedule": learner.schedule.state_dict(),
            "scaler": learner.scaler.state_dict(),
        }
    try:
        with whole_file(folder / STATE) as temporary:
            torch.save(state, temporary)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as RuntimeError
        raise UserError(
            f"the training state cannot be written to {folder / STATE} ({error}). The last whole state is kept: "
            "make room and give the same command again."
        ) from error


def load_progress(folder: Path, identity: str, descriptor: Descriptor) -> Progress:
    """Put the saved weights into `descriptor`; a fresh Progress where nothing, or another training's state, is saved."""
    state = _read(folder)
    if state is None:
        return Progress()
    if state.get("identity") != identity:
        print("  the saved training state belongs to other settings or images: training starts anew")
        return Progress()
    descriptor.load_state_dict(state["descriptor"])
    return Progress(**state["progress"])


def restore_learner(folder: Path, learner: Learner) -> None:
    """Put the saved objective, optimiser and schedule back, in the middle of a stage."""
    state = _read(folder)
    if state is None or "optimizer" not in state:
        raise UserError(f"{folder / STATE} lacks the optimiser's state. Delete {folder} and train the model again.")
    learner.objective.load_state_dict(state["objective"])
    learner.optimizer.load_state_dict(state["optimizer"])
    learner.schedule.load_state_dict(state["schedule"])
    learner.scaler.load_state_dict(state["scaler"])


def training_identity(settings: ModelSettings, classes: ImageSet, overlays: ImageSet, seed: int) -> str:
    """What a saved state must have been trained with: settings, seed, and the images in their order with their sizes.

    The number of workers changes nothing.
    """
    digest = hashlib.sha256(f"{seed} {settings.model_dump_json(exclude={'workers'})}".encode())
    for images in (classes, overlays):
        for image_id, path in zip(images.ids, images.paths, strict=True):
            digest.update(f"{image_id}\0{path.stat().st_size}\n".encode())
    return digest.hexdigest()


def _read(folder: Path) -> dict | None:
    path = folder / STATE
    if not path.is_file():
        return None
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files raise many kinds
        raise UserError(f"{path} cannot be read ({error}). Delete it to train the model from the start.") from error
