"""What the paper's seven models need of one GPU, next to what one has shown."""

from pathlib import Path

import pytest
from seven_models import count_kept, count_memory

from image_copies.models.training.model_settings import ModelSettings

TOP = Path(__file__).parents[2]
MIB, GIB = 2**20, 2**30


@pytest.mark.parametrize(
    ("classes", "width", "batch", "kept", "parameters", "rounded", "measured"),
    [
        (1_000_000, 384, 64, (38.0, 41), 20.7e6, False, 11.0),
        (1_000_000, 384, 64, (38.1, 224), 39.5e6, False, 11.4),
        (1_500_000, 256, 64, (38.1, 224), 39.5e6, False, 10.7),
        (1_800_000, 256, 512, (76.4, 57), 28.9e6, True, 48.6),
    ],
    ids=["v2s-160", "nfnet-384d", "nfnet-256d", "b5-large"],
)
def test_memory_is_what_an_h100_showed(
    classes: int, width: int, batch: int, kept: tuple[float, float], parameters: float, rounded: bool, measured: float
) -> None:
    descriptor = {"backbone": "test_efficientnet", "dimensions": width}
    model = ModelSettings.model_validate(
        {"descriptor": descriptor, "objective": {"kind": "arcface", "rounded_rows": rounded}, "precision": "bf16"}
        | {"stages": [{"classes": classes, "batch_size": batch}]}
    )
    parts = count_memory(model, model.stages[0], (kept[0] * MIB, kept[1] * MIB, int(parameters)))
    assert sum(parts) / GIB == pytest.approx(measured, rel=0.1)


def test_what_an_image_keeps_grows_with_its_area() -> None:
    model = ModelSettings.model_validate({"descriptor": {"backbone": "test_efficientnet", "dimensions": 8}, "stages": [{}]})
    (small, *_), (large, fixed, parameters) = (count_kept(model, size) for size in (64, 128))
    assert large == pytest.approx(4 * small, rel=0.05) and 0 < fixed < 4 * parameters
