"""The split of the training images into disjoint roles, so that nothing is ever tuned on real queries or references."""

import hashlib
from dataclasses import dataclass

from image_copies.data.errors import UserError


@dataclass(frozen=True)
class TrainingSplit:
    """Training image ids by role, each list in the same seeded order."""

    classes: list[str]  # ArcFace learns them; a stage with C classes uses the first C
    overlays: list[str]  # pasted into others
    references: list[str]  # originals of the synthetic queries, searched for among these
    distractors: list[str]  # edited into synthetic queries that are copies of nothing


def split_training(ids: list[str], seed: int, validation: float = 0.2, overlay: float = 0.05) -> TrainingSplit:
    """Assign roles to the training ids in the order of a hash of (seed, id): the same ids and seed give the same roles.

    `validation` and `overlay` are fractions in [0, 1]: of images held out from training, two thirds of them references and one
    third distractors, and of those held out for pasting into other images.

    Raises:
        UserError: a role would be empty.
    """
    order = sorted(ids, key=lambda image_id: hashlib.sha256(f"{seed}:{image_id}".encode()).digest())
    held_out, kept = round(len(order) * validation), round(len(order) * overlay)
    references = round(held_out * 2 / 3)
    split = TrainingSplit(
        classes=order[held_out + kept :],
        overlays=order[held_out : held_out + kept],
        references=order[:references],
        distractors=order[references:held_out],
    )
    empty = [role for role in ("classes", "overlays", "references", "distractors") if not getattr(split, role)]
    if empty:
        raise UserError(
            f"{len(ids)} training images are too few: with validation {validation} and overlay {overlay} no image is left "
            f"for {', '.join(empty)}. Add training images or change these shares in the recipe: "
            "with validation 0.2 and overlay 0.05, 50 images are enough to start."
        )
    return split
