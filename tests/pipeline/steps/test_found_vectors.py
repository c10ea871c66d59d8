"""Vectors that were made elsewhere are a member of an ensemble."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.pipeline.run.paths import SETS
from image_copies.pipeline.run.run import Run, open_existing_run
from image_copies.pipeline.steps.definitions import EMBED, ENSEMBLE, NORMALIZE, SCORE, SUBMIT, TRAIN, run_step
from image_copies.pipeline.tools.run_extractor import run_checkpoints
from image_copies.submissions.ensemble.variant import read_choice
from image_copies.submissions.vectors.files import read_vectors, write_vectors

DIMENSIONS = 300  # more than a submission may have


@pytest.fixture
def run(small_run: Path, tmp_path: Path) -> Run:
    """A run with vectors of another network: longer, in another order, of one more image; two sets in a submission."""
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    shutil.rmtree(folder / "ensemble")
    run, turn = open_existing_run(folder), np.random.default_rng(0).normal(size=(16, DIMENSIONS)).astype(np.float32)
    for part in SETS:
        own = read_vectors(run.paths.embeddings("one", part))
        ids, vectors = ["more", *own.ids[::-1]], np.concatenate([turn[:1], 3 * own.vectors[::-1] @ turn])
        write_vectors(tmp_path / f"{part}.h5", ids, [vectors])
        with h5py.File(tmp_path / "challenge.h5", "a") as file:
            file[part], file[f"{part}_ids"] = vectors, np.array(ids, dtype="S")
    named = ", ".join(f"{part}: {tmp_path}/{'challenge' if part in ('query', 'reference') else part}.h5" for part in SETS)
    recipe = (folder / "recipe.yaml").read_text().replace("embedding:", f"  theirs: {{kind: vectors, {named}}}\nembedding:")
    (folder / "recipe.yaml").write_text(recipe.replace("eigen_power: [0]", "eigen_power: [0], weights: {theirs: [0.5, 1]}"))
    return open_existing_run(folder)


def test_they_go_through_the_steps(run: Run) -> None:
    assert [product.name for product in TRAIN.products(run)] == ["one"]
    for step in (EMBED, ENSEMBLE, NORMALIZE, SUBMIT, SCORE):
        run_step(run, step)
    for part in SETS:
        own, theirs = (read_vectors(run.paths.embeddings(name, part)) for name in ("one", "theirs"))
        assert own.ids == theirs.ids and theirs.dimensions == DIMENSIONS
        assert np.allclose(np.linalg.norm(theirs.vectors, axis=1), 1, atol=1e-5)
    assert "1 0.5" in set(read_choice(run.paths.choice)[1]["weights"])
    assert run.paths.submission.is_file() and run.paths.report_page.is_file()
    with pytest.raises(UserError, match=r"theirs of .* is vectors made elsewhere"):
        run_checkpoints(run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("gone", r"synthetic\.h5: no such file\. .*Embed queries/query_images of the run"),
        ("wider", r"synthetic\.h5 has vectors of 301 dimensions, .*training\.h5 of 300"),
        (
            "other ids",
            r"synthetic\.h5 has no vector of 60 of the 60 synthetic images, the first is .* first id is 'x/0'",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said(run: Run, tmp_path: Path, change: str, message: str) -> None:
    path = tmp_path / "synthetic.h5"
    found = read_vectors(path)
    path.unlink()
    if change != "gone":
        wider = np.pad(found.vectors, ((0, 0), (0, int(change == "wider"))), constant_values=1)
        write_vectors(path, found.ids if change == "wider" else [f"x/{row}" for row in range(len(found))], [wider])
    with pytest.raises(UserError, match=message):
        run_step(run, EMBED)
