"""One process of test_training_together: trains a tiny network.

Arguments: folder of pictures, folder to train in, step at which the second process dies (0: never), name of the SETTINGS.
"""

import os
import signal
import sys
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.images import find_images
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import Trainer

COMMON = {
    "descriptor": {"backbone": "test_nfnet", "dimensions": 16},  # without batch statistics, which processes have each their own
    "optimizer": {"kind": "sgd", "learning_rate": 0.05, "accumulate": 2},  # Adam makes large steps of tiny differences
    "workers": 0,
    "stages": [
        {"classes": 16, "intensity": 0.1, "image_size": 32, "batch_size": 8, "epochs": 2},
        {"intensity": 0.3, "image_size": 32, "batch_size": 8, "epochs": 2},
    ],
}
SETTINGS = {
    "arcface": COMMON,
    "svmax": COMMON | {"svmax": {"weight": 1.0}},
    "ideal": COMMON
    | {
        "descriptor": {"backbone": "test_nfnet", "dimensions": 16, "domains": "split"},
        "objective": {"kind": "multi_similarity"},
        "sampling": {"kind": "pk", "per_class": 2},
    },
}


def main(pictures: Path, folder: Path, last: int, name: str) -> None:
    if last:
        learn, steps = Trainer.step, []

        def dying(*arguments: object) -> object:
            steps.append(1)
            if len(steps) == last and os.environ.get("RANK") == "1":
                os.kill(os.getpid(), signal.SIGKILL)
            return learn(*arguments)  # type: ignore[arg-type]

        Trainer.step = dying  # type: ignore[assignment, method-assign]
    images = find_images(pictures)
    classes, overlays = images.select(images.ids[:24]), images.select(images.ids[24:])
    try:
        settings = ModelSettings.model_validate(SETTINGS[name])
        Trainer(
            settings, classes, overlays, folder / "model", folder / "cache", seed=0, validate=lambda descriptor, size: (0.5, None)
        ).train()
    except UserError as error:
        print(f"error: {error}")
        sys.exit(2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
