"""The benchmark of embedding on a GPU, which a device that computes nothing stands in for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from image_copies.data.images import ImageSet
from image_copies.models import device
from image_copies.models.inference import embed
from image_copies.models.network.checkpoint import Checkpoint
from image_copies.models.network.descriptor import Descriptor


def test_embedding_is_measured_where_the_descriptor_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """embed_images moves the descriptor to the GPU in place; the batch of the forward pass alone must be there too."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import full_size

    monkeypatch.setattr(device, "best_device", lambda: torch.device("meta"))
    monkeypatch.setattr(full_size, "ROUNDS", 2)
    monkeypatch.setattr(full_size, "SECONDS_PER_ROUND", 0)

    def moved(checkpoint: Checkpoint, images: ImageSet, settings: object) -> Iterator[object]:
        checkpoint.descriptor.to("meta")
        yield from ()

    def forward(descriptor: Descriptor, batch: torch.Tensor, sizes: list[int]) -> None:
        descriptor.backbone.forward_features(batch)  # the rest knows no such device

    monkeypatch.setattr(embed, "embed_images", moved)
    monkeypatch.setattr(embed, "embed_batch", forward)
    found = ImageSet([f"T{row}" for row in range(32)], [Path(f"T{row}.jpg") for row in range(32)])
    assert all(speed > 0 for speed in full_size.measure_speeds("test_efficientnet", found))
