"""The next shard's images are decoded while one is embedded, where a GPU embeds: played by the CPU."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural import write_pictures
from image_copies.data.threads import overlap
from image_copies.models.inference import embed as inference
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.pipeline.steps import embed
from image_copies.pipeline.steps.embed import embed_to_file
from image_copies.submissions.vectors.files import write_vectors


@pytest.mark.parametrize("workers", [0, 2])
def test_shards_are_loaded_ahead_with_the_same_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    list(write_pictures(tmp_path / "pictures", "T", 11, seed=0, workers=1))
    images, checkpoint = find_images(tmp_path / "pictures"), tmp_path / "network.safetensors"
    save_descriptor(checkpoint, Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8)), 32, {})
    settings = EmbeddingSettings(workers=workers, shard=4, batch_size=2)
    events = list[str]()

    def load_noted(networks: Any, some: ImageSet) -> Any:
        events.append(f"load {images.ids.index(some.ids[0])}")
        return inference.load_batches(networks, some)

    def write_noted(path: Path, ids: list[str], vectors: Iterator[Any], unreadable: Any) -> None:
        write_vectors(path, ids, vectors, unreadable)
        events.append(f"wrote {images.ids.index(ids[0])}")

    embed_to_file(checkpoint, images, settings, tmp_path / "alone.h5")
    monkeypatch.setattr(inference, "map_in_parallel", lambda work, items, _: overlap(work, lambda result: result, items))
    monkeypatch.setattr(embed, "_starts_early", lambda: True)
    monkeypatch.setattr(embed, "load_batches", load_noted)
    monkeypatch.setattr(embed, "write_vectors", write_noted)
    embed_to_file(checkpoint, images, settings, tmp_path / "ahead.h5")
    assert events == ["load 4", "wrote 0", "load 8", "wrote 4", "wrote 8"] and embed._LOADED == {}
    assert (tmp_path / "ahead.h5").read_bytes() == (tmp_path / "alone.h5").read_bytes()
