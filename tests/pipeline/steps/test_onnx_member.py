"""Any network in an ONNX file is a member of an ensemble."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.matching.joined import join_extractors
from image_copies.matching.matches import Rule
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.run.run import Run, open_existing_run
from image_copies.pipeline.steps.definitions import EMBED, ENSEMBLE, NORMALIZE, SCORE, SUBMIT, TRAIN, run_step
from image_copies.pipeline.tools.export import export_joined
from image_copies.pipeline.tools.run_extractor import open_extractor
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.ensemble.variant import read_choice
from image_copies.submissions.vectors.files import read_vectors
from tests.onnx_files import write_means


@pytest.fixture
def run(small_run: Path, tmp_path: Path) -> Run:
    """A run with the mean colours of pictures of 48 pixels next to its own network."""
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    shutil.rmtree(folder / "ensemble")
    file = write_means(tmp_path / "means.onnx", shape=("n", 3, "side", "side"))
    recipe = (folder / "recipe.yaml").read_text()
    recipe = recipe.replace("embedding:", f"  theirs: {{kind: onnx, file: {file}, image_size: 48}}\nembedding:")
    (folder / "recipe.yaml").write_text(recipe.replace("eigen_power: [0]", "eigen_power: [0], weights: {theirs: [0.5, 1]}"))
    return open_existing_run(folder)


def test_it_goes_through_the_steps_and_searches(run: Run, tmp_path: Path) -> None:
    assert [product.name for product in TRAIN.products(run)] == ["one"]
    for step in (EMBED, ENSEMBLE, NORMALIZE, SUBMIT, SCORE):
        run_step(run, step)
    theirs = read_vectors(run.paths.embeddings("theirs", "reference"))
    extractor = checkpoint_extractor(tmp_path / "means.onnx@48")
    references = read_vectors(run.paths.embeddings("one", "reference")).ids
    paths = sorted((run.data / "reference_images").iterdir())
    assert theirs.ids == references == [path.stem for path in paths]
    assert np.allclose(np.linalg.norm(theirs.vectors, axis=1), 1, atol=1e-5)
    assert "1 0.5" in set(read_choice(run.paths.choice)[1]["weights"])
    whole = open_extractor(run.folder, None, None)
    assert [network.sizes for network in whole.networks] == [(32,), (48,)]
    with pytest.raises(UserError, match=r"theirs of .* is an ONNX file.*match.* --run"):
        export_joined(run, tmp_path / "whole.safetensors")
    assert extractor.networks[0].sizes == (48,)


def test_joined_distances_are_the_mean_of_both(checkpoint: Path, tmp_path: Path) -> None:
    other = write_means(tmp_path / "means.onnx")
    joined = open_extractor(None, None, checkpoint, other)
    pictures = np.random.default_rng(0).integers(0, 256, (2, 60, 80, 3)).astype(np.uint8)
    parts = [checkpoint_extractor(checkpoint), checkpoint_extractor(other), joined]
    apart = [float(((one.extract_picture(pictures[0]) - one.extract_picture(pictures[1])) ** 2).sum()) for one in parts]
    assert apart[2] == pytest.approx((apart[0] + apart[1]) / 2, rel=1e-4) and joined.dimensions == 16 + 3
    assert joined.source is not None and joined.source().identity == joined.identity
    assert joined.identity != join_extractors(parts[1], parts[0]).identity


def test_the_tail_of_joined_distances_is_that_among_the_references_less_copies(tmp_path: Path) -> None:
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
