"""The next part is decoded while one is embedded, where a GPU embeds: played by the CPU."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from image_copies.data.procedural import write_pictures
from image_copies.matching.dedup import embedding
from image_copies.matching.dedup.embedding import Embedding, PartName, embed_parts
from image_copies.matching.dedup.inputs import index_container, index_path, list_containers
from image_copies.matching.extractor import Extractor
from image_copies.models.inference.embedders import Embedder, Source, load_batch
from image_copies.models.inference.settings import EmbeddingSettings

COUNT, PART, SIZE = 11, 4, 32


def open_mean(on_gpu: bool, embed: Callable[[Any], Any]) -> Extractor:
    """A network whose vectors are mean colours."""
    network = Embedder((SIZE,), 3, embed, None if on_gpu else nullcontext)
    return Extractor([network], EmbeddingSettings(workers=2, batch_size=2), lambda vectors: vectors, 3, "mean")


def average(squares: Any) -> Any:
    return squares[SIZE].mean(axis=(2, 3), dtype=np.float32)


def test_parts_are_decoded_ahead_of_a_gpu_with_the_same_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    list(write_pictures(tmp_path / "in", "T", COUNT, seed=0, workers=1))
    begun = {f"T{number:06d}": Event() for number in range(COUNT)}
    embedded = list[int]()

    def load_noted(batch: Sequence[Source], sizes: Sequence[int]) -> Any:
        for path, _ in batch:
            begun[path.stem].set()
        return load_batch(batch, sizes)

    def embed_late(squares: Any) -> Any:
        """Embed once the next part is being decoded."""
        embedded.append(len(squares[SIZE]))
        following = (sum(embedded) - 1) // PART * PART + PART
        assert following >= COUNT or list(begun.values())[following].wait(10)
        return average(squares)

    def embed_all(folder: Path, on_gpu: bool, embed: Callable[[Any], Any]) -> list[bytes]:
        made = Embedding(partial(open_mean, on_gpu, embed), "mean", (SIZE,), folder)
        (container,) = list_containers([tmp_path / "in"], COUNT, folder)
        index = index_container(container, index_path(folder, container.key), PART)
        names = [PartName(container.key, number, part.count, container.state) for number, part in enumerate(index.parts)]
        assert list(embed_parts(made, (), names, COUNT)) == [0, 0, 0]
        return [made.vectors_path(name.key, name.number).read_bytes() for name in names]

    alone = embed_all(tmp_path / "alone", False, average)
    monkeypatch.setattr(embedding, "load_batch", load_noted)
    assert embed_all(tmp_path / "ahead", True, embed_late) == alone
    assert embedded == [2, 2, 2, 2, 2, 1]
