"""What the core knows by name alone: the room that has it (`studies`) is imported when a recipe or a command names it."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from .settings import Settings

Places = dict[str, str]  # module below image_copies and the name in it, by kind
OBJECTIVES: Places = {
    "arcface": "models.objectives.settings:ArcFaceSettings",
    "contrastive": "studies.svmax.settings:ContrastiveSettings",
    "triplet": "studies.svmax.settings:TripletSettings",
    "multi_similarity": "studies.ideal.settings:MultiSimilaritySettings",
    "npair": "studies.svmax.settings:NPairSettings",
    "infonce": "studies.svmax.settings:InfoNceSettings",
    "angular": "studies.svmax.settings:AngularSettings",
    "margin": "studies.multigrain.settings:MarginSettings",
    "softmax": "studies.multigrain.settings:SoftmaxSettings",
    "multigrain": "studies.multigrain.settings:MultiGrainSettings",
}
REGULARIZERS: Places = {"svmax": "studies.svmax.settings:SvmaxSettings"}

# rows of edits, by the name of their table
EDIT_TABLES: Places = {
    "multigrain_full": "studies.multigrain.edits:MULTIGRAIN_FULL",
    "autoaugment": "studies.multigrain.edits:AUTO_AUGMENT",
    "crop_and_flip": "studies.ideal.edits:CROP_AND_FLIP",
}
# parts of a network and of a training, by the words that recipes have for them
PARTS: Places = {
    "split": "studies.ideal.domains:SPLIT",
    "shared": "studies.ideal.domains:SHARED",
    "turn": "studies.ideal.domains:turn_at_random",
    "repeated": "studies.multigrain.batches:repeated_batches",
    "pk": "studies.svmax.batches:pk_batches",
    "mixup": "studies.multigrain.batches:Mixup",
    "whiten": "studies.multigrain.whitening:FinalWhitening",
}
# functions of a network and the files of a set, which return its figures
TEST_SETS: Places = {
    "holidays": "studies.multigrain.sets:evaluate_holidays",
    "copydays": "studies.multigrain.sets:evaluate_copydays",
    "ukb": "studies.multigrain.sets:evaluate_ukb",
    "cub": "studies.svmax.sets:evaluate_cub",
    "cars": "studies.svmax.sets:evaluate_cars",
    "online_products": "studies.svmax.sets:evaluate_online_products",
    "class_folders": "studies.svmax.sets:evaluate_class_folders",
}
# functions that read the two parts of a set, to train on and to test
TRAINING_SETS: Places = {
    "cub": "studies.svmax.sets:read_cub",
    "cars": "studies.svmax.sets:read_cars",
    "online_products": "studies.svmax.sets:read_online_products",
}


def load_kind(places: Places, kind: object) -> Any:
    """Import what a kind is.

    Raises:
        ValueError: there is no such kind.
    """
    if not isinstance(kind, str):
        raise ValueError(f"kind is a {type(kind).__name__}; expected one of {', '.join(places)}")
    place = places.get(kind)
    if place is None:
        nearest = difflib.get_close_matches(kind, places, n=1)
        meant = f" (did you mean {nearest[0]!r}?)" if nearest else ""
        raise ValueError(f"unknown kind {kind!r}{meant}; there are {', '.join(places)}")
    module, _, name = place.partition(":")
    return getattr(import_module(f"image_copies.{module}"), name)


@dataclass(frozen=True)
class OfKind:
    """Reads the value of a field of settings: which class it is of says its key `kind`.

    Attributes:
        places: The classes of settings by kind.
        default: The kind of a value that names none.
    """

    places: Places = field(hash=False)  # Python below 3.13 hashes what a field's type is annotated with
    default: str

    def __call__(self, value: Any) -> Any:
        """Return the settings that a mapping of keys describes; other values are for the field to judge.

        Raises:
            ValueError: there is no such kind, or the keys are not those of its settings.
        """
        if not isinstance(value, dict):
            return value
        return load_kind(self.places, value.get("kind", self.default)).model_validate(value)

    def list_settings(self) -> Iterator[type[Settings]]:
        """Import the settings of all kinds."""
        return (load_kind(self.places, kind) for kind in self.places)
