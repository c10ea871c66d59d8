"""Vectors of shards: a killed step goes on by shard, and shards that are loaded ahead have the same bytes."""

from pathlib import Path
from typing import Any

import pytest

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.pipeline.steps import embed
from image_copies.pipeline.steps.embed import embed_to_file
from image_copies.submissions.vectors.files import write_vectors
from tests.pictures import write_images


@pytest.fixture
def images(tmp_path: Path) -> ImageSet:
    images = write_images(tmp_path / "pictures", 11)
    images.paths[5].write_bytes(b"no image")
    return images


@pytest.mark.parametrize("written", [0, 2])
def test_a_killed_step_goes_on_by_shard(
    images: ImageSet, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    settings, done, again = EmbeddingSettings(workers=0, shard=4, batch_size=3), list[Path](), list[Path]()
    embed_to_file(checkpoint, images, settings, tmp_path / "whole.h5")

    def write(path: Path, *arguments: Any) -> None:
        if len(done) == written:
            raise KeyboardInterrupt
        write_vectors(path, *arguments)
        done.append(path)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(embed, "write_vectors", write)
        embed_to_file(checkpoint, images, settings, tmp_path / "killed.h5")

    def write_again(path: Path, *arguments: Any) -> None:
        again.append(path)
        write_vectors(path, *arguments)

    monkeypatch.setattr(embed, "write_vectors", write_again)
    embed_to_file(checkpoint, images, settings, tmp_path / "killed.h5")
    assert again[-1] == tmp_path / "killed.h5" and len(again) == 3 - written + 1 and not set(again) & set(done)
    assert (tmp_path / "killed.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()
    assert "T000005" in (tmp_path / "killed.unreadable.txt").read_text()


def test_a_damaged_network_is_named(images: ImageSet, tmp_path: Path) -> None:
    (tmp_path / "damaged.safetensors").write_bytes(b"damaged")
    with pytest.raises(UserError, match=r"damaged\.safetensors"):
        embed_to_file(tmp_path / "damaged.safetensors", images, EmbeddingSettings(workers=0), tmp_path / "v.h5")
