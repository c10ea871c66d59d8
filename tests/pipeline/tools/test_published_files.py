"""Files that others have published, in their own layouts, wherever a checkpoint can be named."""

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch

from image_copies.data.images import find_images
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.pipeline.match import main
from image_copies.pipeline.run.run import assign_training_roles, open_existing_run
from image_copies.pipeline.steps.definitions import EMBED, run_step
from image_copies.pipeline.steps.train import train
from image_copies.submissions.vectors.files import read_vectors


def write_dino(path: Path) -> None:
    """In DINO's layout: a ViT of 64 channels, 128 dimensions."""
    size: dict[str, Any] = {"patch_size": 32, "embed_dim": 64, "depth": 1, "num_heads": 1}
    network = timm.create_model("vit_small_patch16_224", num_classes=0, global_pool="", **size)
    torch.save(network.state_dict(), path)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("published") / "dino.pth"
    torch.manual_seed(0)
    write_dino(path)
    return path


def embed_alone(published: Path, folder: Path) -> np.ndarray:
    blocks = embed_images(load_descriptor(published), find_images(folder), EmbeddingSettings(workers=0))
    return np.concatenate([block.vectors for block in blocks])


def test_match_finds_copies_with_it(small_run: Path, published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    references = open_existing_run(small_run).data / "reference_images"
    (tmp_path / "queries").mkdir()
    first = find_images(references).paths[0]
    shutil.copyfile(first, tmp_path / "queries" / f"copy{first.suffix}")
    options = ["--queries", "queries", "--references", str(references), "--checkpoint", str(published), "--threshold=-0.0001"]
    assert main([*options, "--output", "found"]) == 0
    with (tmp_path / "found" / "matches.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1 and any(first.name in value for value in rows[0].values())


def test_it_is_a_member_of_a_run(small_run: Path, published: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    recipe = (
        (folder / "recipe.yaml").read_text().replace("embedding:", f"  theirs: {{kind: file, file: {published}}}\nembedding:")
    )
    (folder / "recipe.yaml").write_text(recipe)
    run = open_existing_run(folder)
    train(run, "theirs", assign_training_roles(run))
    run_step(run, EMBED)
    vectors = read_vectors(run.paths.embeddings("theirs", "query")).vectors
    np.testing.assert_allclose(vectors, embed_alone(published, run.data / "query_images"), atol=1e-6)
