"""A model that is made by hand goes through the steps like any other."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from image_copies.data.errors import UserError
from image_copies.data.images import find_images
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.handmade import HandmadeDescriptor
from image_copies.models.network.joined import JoinedDescriptor
from image_copies.models.network.settings import HandmadeSettings, JoinedSettings, MemberSettings
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.run.recipe import read_recipe
from image_copies.pipeline.run.run import DEFAULT_RECIPE, assign_training_roles, open_existing_run
from image_copies.pipeline.steps.definitions import EMBED, ENSEMBLE, TRAIN, run_step
from image_copies.pipeline.steps.embed import embed_to_file
from image_copies.pipeline.steps.train import train
from image_copies.pipeline.tools.export import export_joined
from image_copies.pipeline.tools.run_extractor import run_extractor
from image_copies.submissions.ensemble.variant import read_choice
from image_copies.submissions.vectors.files import read_vectors


def test_it_is_whitened_embedded_weighted_and_exported(small_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    recipe = (folder / "recipe.yaml").read_text()
    recipe = recipe.replace("embedding:", "  gabor: {kind: gabor, dimensions: 12}\nembedding:")
    recipe = recipe.replace("eigen_power: [0]", "eigen_power: [0], weights: {gabor: [0.5, 2]}")
    (folder / "recipe.yaml").write_text(recipe)
    run = open_existing_run(folder)
    train(run, "gabor", assign_training_roles(run))
    assert load_descriptor(run.checkpoint("gabor")).notes == {"whitened_on": len(assign_training_roles(run).classes)}
    run_step(run, EMBED)
    run_step(run, ENSEMBLE)
    variant, table = read_choice(run.paths.choice)
    assert set(table["weights"]) == {"1 0.5", "1 2"} and variant.weights in {(1.0, 0.5), (1.0, 2.0)}
    images = find_images(run.data / "query_images")
    projected = read_vectors(run.paths.projected("query")).vectors
    assert np.abs(run_extractor(run).extract_all(images).vectors - projected).max() < 1e-4
    export_joined(run, tmp_path / "joined.safetensors")
    alone = checkpoint_extractor(tmp_path / "joined.safetensors").extract_all(images).vectors
    assert alone.shape == projected.shape and np.mean(np.sum(alone * projected, axis=1)) > 0.95  # sizes differ: one is resized


def test_a_file_is_a_member_as_it_is(small_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    file = tmp_path / "other.safetensors"
    shutil.copyfile(open_existing_run(folder).checkpoint("one"), file)
    recipe = (folder / "recipe.yaml").read_text().replace("embedding:", f"  copy: {{kind: file, file: {file}}}\nembedding:")
    (folder / "recipe.yaml").write_text(recipe)
    run = open_existing_run(folder)
    assert list(run.recipe.trained_models) == ["one"]
    train(run, "copy", assign_training_roles(run))
    run_step(run, EMBED)
    one, copy = (read_vectors(run.paths.embeddings(name, "query")) for name in ("one", "copy"))
    assert np.array_equal(one.vectors, copy.vectors)
    made_from = {product.name: product.inputs() for product in TRAIN.products(run)}
    assert made_from["copy"]["weights"] == file  # so that another file makes it stale


@pytest.mark.skipif(not SHIPPED.is_file(), reason="the project is packed without its weights")
def test_the_recipe_for_pictures_of_ones_own_names_the_descriptor_that_ships() -> None:
    recipe = read_recipe(DEFAULT_RECIPE)
    assert recipe.networks["shipped"].weights_file == SHIPPED


def test_a_joined_files_background_stands_beside_the_training_images(small_run: Path, tmp_path: Path) -> None:
    gabor = HandmadeSettings(kind="gabor", dimensions=12)
    members = (MemberSettings(descriptor=gabor, image_size=32),)
    joined = JoinedDescriptor(JoinedSettings(members=members, dimensions=12, background=3), [HandmadeDescriptor(gabor)])
    joined.background.copy_(torch.eye(3, 12))
    save_descriptor(tmp_path / "joined.safetensors", joined, 32, {})
    run, settings = open_existing_run(small_run), EmbeddingSettings(shard=5)
    images = find_images(run.data / "query_images")
    embed_to_file(tmp_path / "joined.safetensors", images, settings, tmp_path / "alone.h5")
    embed_to_file(tmp_path / "joined.safetensors", images, settings, tmp_path / "training.h5", background=True)
    alone, found = read_vectors(tmp_path / "alone.h5"), read_vectors(tmp_path / "training.h5")
    assert found.ids == [*images.ids, "background/0", "background/1", "background/2"]
    assert np.array_equal(found.vectors, np.concatenate([alone.vectors, np.eye(3, 12)]))
    assert found.unreadable.tolist() == [*alone.unreadable.tolist(), False, False, False]
    with pytest.raises(UserError, match="brings no background vectors"):
        embed_to_file(run.checkpoint("one"), images, settings, tmp_path / "training.h5", background=True)


def test_a_background_goes_with_one_model_only(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(
        "models: {shipped: {kind: file, file: shipped, background: true}, gabor: {kind: gabor, dimensions: 12}}"
    )
    with pytest.raises(UserError, match=r"models\.shipped\.background: the other models have no vectors of those images"):
        read_recipe(tmp_path / "recipe.yaml")
