"""Models that nobody trains go through the steps like any other: handmade ones, files, ONNX."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from image_copies.data.errors import UserError
from image_copies.data.images import find_images
from image_copies.matching.extractor import checkpoint_extractor, join_extractors
from image_copies.matching.matches import Rule
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.handmade import HandmadeDescriptor
from image_copies.models.network.joined import JoinedDescriptor
from image_copies.models.network.settings import HandmadeSettings, JoinedSettings, MemberSettings
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.run.recipe import read_recipe
from image_copies.pipeline.run.run import DEFAULT_RECIPE, Run, assign_training_roles, open_existing_run
from image_copies.pipeline.steps.definitions import EMBED, ENSEMBLE, NORMALIZE, SCORE, SUBMIT, TRAIN, run_step
from image_copies.pipeline.steps.embed import embed_to_file
from image_copies.pipeline.steps.train import train
from image_copies.pipeline.tools import export
from image_copies.pipeline.tools.networks import open_extractor
from image_copies.pipeline.tools.run_extractor import run_extractor
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.ensemble.variant import read_choice
from image_copies.submissions.vectors.files import read_vectors
from tests.onnx_files import write_means
from tests.runs import copy_run


def test_it_is_whitened_embedded_weighted_and_exported(small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "add_graph", lambda checkpoint, photographs: 0.0)
    weighted = "eigen_power: [0], weights: {gabor: [0.5, 2]}"
    gabor = "  gabor: {kind: gabor, dimensions: 12}\nembedding:"
    run = copy_run(small_run, tmp_path / "run", ("embedding:", gabor), ("eigen_power: [0]", weighted))
    train(run, "gabor", assign_training_roles(run))
    assert load_descriptor(run.checkpoint("gabor")).notes == {"whitened_on": len(assign_training_roles(run).classes)}
    run_step(run, EMBED)
    run_step(run, ENSEMBLE)
    variant, table = read_choice(run.paths.choice)
    assert set(table["weights"]) == {"1 0.5", "1 2"} and variant.weights in {(1.0, 0.5), (1.0, 2.0)}
    images = find_images(run.data / "query_images")
    projected = read_vectors(run.paths.projected("query")).vectors
    assert np.abs(run_extractor(run).extract_all(images).vectors - projected).max() < 1e-4
    export.export_joined(run, tmp_path / "joined.safetensors")
    alone = checkpoint_extractor(tmp_path / "joined.safetensors").extract_all(images).vectors
    assert alone.shape == projected.shape and np.mean(np.sum(alone * projected, axis=1)) > 0.95  # sizes differ: one is resized


def test_a_file_is_a_member_as_it_is(small_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "other.safetensors"
    shutil.copyfile(open_existing_run(small_run).checkpoint("one"), file)
    run = copy_run(small_run, tmp_path / "run", ("embedding:", f"  copy: {{kind: file, file: {file}}}\nembedding:"))
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


@pytest.fixture
def run_with_means(small_run: Path, tmp_path: Path) -> Run:
    """A run_with_means with the mean colours of pictures of 48 pixels next to its own network."""
    file = write_means(tmp_path / "means.onnx", shape=("n", 3, "side", "side"))
    theirs = f"  theirs: {{kind: onnx, file: {file}, image_size: 48}}\nembedding:"
    weighted = "eigen_power: [0], weights: {theirs: [0.5, 1]}"
    run = copy_run(small_run, tmp_path / "run", ("embedding:", theirs), ("eigen_power: [0]", weighted))
    shutil.rmtree(run.folder / "ensemble")
    return run


def test_it_goes_through_the_steps_and_searches(run_with_means: Run, tmp_path: Path) -> None:
    assert [product.name for product in TRAIN.products(run_with_means)] == ["one"]
    for step in (EMBED, ENSEMBLE, NORMALIZE, SUBMIT, SCORE):
        run_step(run_with_means, step)
    theirs = read_vectors(run_with_means.paths.embeddings("theirs", "reference"))
    extractor = checkpoint_extractor(tmp_path / "means.onnx@48")
    references = read_vectors(run_with_means.paths.embeddings("one", "reference")).ids
    paths = sorted((run_with_means.data / "reference_images").iterdir())
    assert theirs.ids == references == [path.stem for path in paths]
    assert np.allclose(np.linalg.norm(theirs.vectors, axis=1), 1, atol=1e-5)
    assert "1 0.5" in set(read_choice(run_with_means.paths.choice)[1]["weights"])
    whole = open_extractor(run_with_means.folder, None, None)
    assert [network.sizes for network in whole.networks] == [(32,), (48,)]
    with pytest.raises(UserError, match=r"theirs of .* is an ONNX file.*match.* --run"):
        export.export_joined(run_with_means, tmp_path / "whole.safetensors")
    assert extractor.networks[0].sizes == (48,)


def test_joined_distances_are_the_mean_of_both_less_copies_in_the_tail(checkpoint: Path, tmp_path: Path) -> None:
    other = write_means(tmp_path / "means.onnx")
    joined = open_extractor(None, None, checkpoint, other)
    pictures = np.random.default_rng(0).integers(0, 256, (2, 60, 80, 3)).astype(np.uint8)
    parts = [checkpoint_extractor(checkpoint), checkpoint_extractor(other), joined]
    apart = [float(((one.extract_picture(pictures[0]) - one.extract_picture(pictures[1])) ** 2).sum()) for one in parts]
    assert apart[2] == pytest.approx((apart[0] + apart[1]) / 2, rel=1e-4) and joined.dimensions == 16 + 3
    assert joined.source is not None and joined.source().identity == joined.identity
    assert joined.identity != join_extractors(parts[1], parts[0]).identity
    joined = open_extractor(None, None, SHIPPED, write_means(tmp_path / "means.onnx"))
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(60, 259))
    copies = np.concatenate([whole, whole[:20] + 0.1 * rng.normal(size=(20, 259))])
    vectors = [scale_to_unit_length(part.astype(np.float32)) for part in np.split(copies, [256], axis=1)]
    references = np.concatenate(vectors, axis=1) / np.float32(2**0.5)
    tail = joined.calibrate()
    assert tail is not None
    rule = Rule(None, tail, 0.001, 10)
    assert tail.threshold(0.001, 80) == 0 and rule.against(lambda: references[:10]).tail is None
    fitted = tail.against(lambda: references)
    assert fitted.share == pytest.approx(0.2 / 80) and fitted.pairs == 80 * 80 and fitted.start > 0.3
