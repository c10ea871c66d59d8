from pathlib import Path

import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.data.layout import QUERY, REFERENCE, TRAINING
from image_copies.pipeline.run.run import Run, assign_training_roles, find_images_to_embed, open_run
from image_copies.pipeline.steps.definitions import AUGMENT, ENSEMBLE

RECIPES = Path(__file__).parents[3] / "recipes"


def write_training_images(folder: Path) -> None:
    """60 files of 6 classes; roles look at names alone."""
    (folder / TRAINING).mkdir(parents=True)
    rows = ["image_id,label"]
    for number in range(60):
        (folder / TRAINING / f"T{number:06d}.jpg").touch()
        rows.append(f"T{number:06d},class {number % 6}")
    (folder / "training_labels.csv").write_text("\n".join(rows))


def opened(where: Path, recipe: Path, name: str) -> Run:
    return open_run(where / "runs" / name, recipe, where / "data")


@pytest.mark.parametrize("name", ["multigrain", "svmax", "ideal"])
def test_the_papers_recipes_learn_from_every_training_image(tmp_path: Path, name: str) -> None:
    write_training_images(tmp_path / "data")
    roles = assign_training_roles(opened(tmp_path, RECIPES / f"{name}.yaml", name))
    assert sorted(roles.classes.ids) == [f"T{number:06d}" for number in range(60)]
    assert roles.labels is not None
    assert roles.labels.tolist() == [int(image_id[1:]) % 6 for image_id in roles.classes.ids]


def test_learning_from_all_changes_no_other_role_and_no_index_of_a_class(tmp_path: Path) -> None:
    write_training_images(tmp_path / "data")
    recipe = (RECIPES / "svmax.yaml").read_text()
    (tmp_path / "parts.yaml").write_text(recipe.replace("learn_all: true", "learn_all: false"))
    every = assign_training_roles(opened(tmp_path, RECIPES / "svmax.yaml", "every"))
    parts = assign_training_roles(opened(tmp_path, tmp_path / "parts.yaml", "parts"))
    assert len(parts.classes) == 45 and every.classes.ids[:45] == parts.classes.ids
    assert (every.overlays, every.references, every.distractors) == (parts.overlays, parts.references, parts.distractors)
    assert every.labels is not None and np.array_equal(every.labels[:45], parts.labels if parts.labels is not None else [])


def test_runs_made_before_the_key_are_not_stale(tmp_path: Path) -> None:
    """Their manifests know the two shares alone, which the synthetic queries and the choice still depend on."""
    write_training_images(tmp_path / "data")
    run = opened(tmp_path, RECIPES / "svmax.yaml", "every")
    for step in (AUGMENT, ENSEMBLE):
        assert step.products(run)[0].parameters["split"] == {"validation": 0.2, "overlay": 0.05}


def test_excluded_images_have_no_role_and_are_not_embedded(tmp_path: Path) -> None:
    write_training_images(tmp_path / "data")
    for name in (QUERY, REFERENCE):
        (tmp_path / "data" / name).mkdir()
        (tmp_path / "data" / name / f"{name[0]}.jpg").touch()
    listed = tmp_path / "overlaps.txt"
    recipe = (RECIPES / "svmax.yaml").read_text()
    (tmp_path / "less.yaml").write_text(recipe.replace("learn_all: true", f"learn_all: true, exclude: {listed}"))
    run = opened(tmp_path, tmp_path / "less.yaml", "less")
    with pytest.raises(UserError, match=r"overlaps\.txt is missing"):
        assign_training_roles(run)
    listed.write_text("T000003\nT99\n")
    with pytest.raises(UserError, match="names 'T99', which is no training image"):
        assign_training_roles(run)
    listed.write_text("T000003\nT000058\n")
    run.paths.query_images.mkdir(parents=True)
    (run.paths.query_images / "Q0.jpg").touch()
    kept = {f"T{number:06d}" for number in range(60)} - {"T000003", "T000058"}
    assert set(assign_training_roles(run).classes.ids) == set(find_images_to_embed(run)["training"].ids) == kept
