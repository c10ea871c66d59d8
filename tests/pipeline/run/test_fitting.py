"""Whatever fits on images refuses those of the queries and references: every place of the project that fits."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from image_copies.data.errors import UserError
from image_copies.data.layout import GROUND_TRUTH, QUERY, REFERENCE, TRAINING
from image_copies.pipeline.run.run import Run, assign_training_roles, open_run, require_no_tests
from image_copies.pipeline.steps.augment import make_queries
from image_copies.pipeline.steps.ensemble import join_models
from image_copies.pipeline.steps.normalize import normalize
from image_copies.pipeline.steps.train import train
from image_copies.studies.multigrain.pooling_exponent import choose_exponent
from image_copies.submissions.ensemble.variant import Variant, tabulate_variant, write_choice
from image_copies.submissions.vectors.files import write_vectors
from tests.networks import save_small

RECIPE = """
models:
  one:
    descriptor: {backbone: test_efficientnet, dimensions: 8, whiten: true}
    stages: [{image_size: 32}]
    embedding: {whiten: false}
    whitening_images: whitening
  hand: {kind: gabor, dimensions: 8}
extra_classes: {folders: [more]}
"""
PARTS = {TRAINING: "T", REFERENCE: "R", QUERY: "Q"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run before any step, on files that are no pictures: what is refused is refused before they are read."""
    monkeypatch.chdir(tmp_path)
    for folder, prefix in (*((f"data/{name}", letter) for name, letter in PARTS.items()), ("more", "M"), ("whitening", "W")):
        Path(folder).mkdir(parents=True)
        for number in range(12):
            (Path(folder) / f"{prefix}{number:06d}.jpg").write_text(f"{prefix}{number}")
    pd.DataFrame({"query_id": ["Q000000"], "reference_id": ["R000000"]}).to_csv(f"data/{GROUND_TRUTH}", index=False)
    Path("mine.yaml").write_text(RECIPE)
    return open_run(Path("run"), Path("mine.yaml"), Path("data"))


def write_sets(run: Run, paths: Callable[[str], Path], training: list[str]) -> None:
    """Vectors of all sets, with these training ids."""
    for part, ids in (("training", training), ("reference", ["R1", "R2"]), ("query", ["Q1", "Q2"]), ("synthetic", ["S1"])):
        paths(part).parent.mkdir(parents=True, exist_ok=True)
        write_vectors(paths(part), ids, [np.eye(max(8, len(ids)), dtype=np.float32)[: len(ids), :8]])


def give_embeddings(run: Run, training: list[str]) -> None:
    for model in run.recipe.models:
        write_sets(run, lambda part, model=model: run.paths.embeddings(model, part), training)  # type: ignore[misc]
    run.paths.ensemble.mkdir(parents=True, exist_ok=True)
    write_choice(run.paths.choice, pd.DataFrame([tabulate_variant(Variant(4, 0.0, "method1", 1.0))]))


def link_reference(folder: str, name: str) -> None:
    (Path(folder) / name).symlink_to(Path("data", REFERENCE, "R000003.jpg").absolute())


@pytest.mark.parametrize("test", ["R1", "Q2"])
def test_projections_and_normalisations_refuse_vectors_of_tests(run: Run, test: str) -> None:
    give_embeddings(run, ["T1", test, "T3"])
    write_sets(run, run.paths.projected, ["T1", test, "T3"])
    for fit in (join_models, normalize):
        with pytest.raises(UserError, match=rf"1 training ids are also (query|reference) ids, the first is '{test}'"):
            fit(run)


@pytest.mark.parametrize("model", ["one", "hand"])
@pytest.mark.parametrize("folder", [f"data/{TRAINING}", "more"])
def test_trainings_refuse_tests_among_their_classes(run: Run, model: str, folder: str) -> None:
    link_reference(folder, "X000001.jpg")
    with pytest.raises(UserError, match=r"(classes|training|images) .*X000001\.jpg is the same file as .*R000003\.jpg"):
        for learn_from_all in (False, True):
            chosen = run.recipe.model_copy(update={"split": run.recipe.split.model_copy(update={"learn_all": learn_from_all})})
            chosen_run = Run(run.folder, chosen, run.data)
            train(chosen_run, model, assign_training_roles(chosen_run))


def test_trainings_refuse_ids_of_tests(run: Run) -> None:
    (run.data / TRAINING / "Q000004.jpg").write_text("another file")
    with pytest.raises(UserError, match="1 training ids are also query ids, the first is 'Q000004'"):
        make_queries(run, run.paths.queries, run.recipe.queries.count)


def test_a_folder_for_whitening_refuses_tests(run: Run) -> None:
    os.link(run.data / QUERY / "Q000001.jpg", "whitening/V000000.jpg")
    with pytest.raises(UserError, match=r"the whitening of one: whitening/V000000\.jpg is the same file as .*Q000001\.jpg"):
        train(run, "one", assign_training_roles(run))


def test_synthetic_queries_are_made_of_no_tests(run: Run) -> None:
    link_reference(f"data/{TRAINING}", "T000099.jpg")
    with pytest.raises(UserError, match=r"the synthetic queries: .*is the same file as"):
        make_queries(run, run.paths.queries, run.recipe.queries.count)


def test_the_pooling_exponent_refuses_tests(run: Run) -> None:
    path = run.checkpoint("one")
    save_small(path, dimensions=8)
    with pytest.raises(UserError, match=r"12 training ids are also reference ids|p\*: .*is the same file as"):
        choose_exponent(path, (3.0,), 2, 0, data=run.data / REFERENCE)


@pytest.mark.parametrize("left", [True, False])
def test_a_training_set_without_tests_is_taken(run: Run, left: bool) -> None:
    """Data sets of training images alone are fitted on, too; steps 02 and later say what they lack."""
    for name in (QUERY, REFERENCE):
        for path in (run.data / name).iterdir():
            path.unlink()
        if not left:
            (run.data / name).rmdir()
    require_no_tests(run, run.training_images, "a fit")


def test_what_belongs_to_training_is_taken(run: Run) -> None:
    roles = assign_training_roles(run)
    for images in (roles.classes, roles.overlays, run.training_images):
        require_no_tests(run, images, "a fit")
