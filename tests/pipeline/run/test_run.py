"""A run folder: opened, continued, its paths, and the roles of its training images."""

import json
from pathlib import Path

import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.data.layout import QUERY, REFERENCE, TRAINING
from image_copies.data.locks import hold_folder
from image_copies.pipeline.run.run import (
    Run,
    assign_training_roles,
    find_images_to_embed,
    open_existing_run,
    open_run,
    run_of_checkpoint,
)
from image_copies.pipeline.steps.definitions import STEPS


def test_a_run_is_continued_and_its_share_of_classes_remembered(run: Run, tmp_path: Path) -> None:
    assert open_run().folder == Path("runs/mine")
    assert open_run().data == run.data
    assert open_run(run.folder, scale=0.1).recipe == open_run(run.folder).recipe != run.recipe
    with pytest.raises(UserError, match="above 0 and at most 1"):
        open_run(run.folder, scale=2)
    found = run_of_checkpoint(run.paths.checkpoint("one", 1))
    assert found is not None and found.data == run.data
    assert run_of_checkpoint(tmp_path / "weights.safetensors") is None


def test_without_a_run_the_first_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="bash run_all"):
        open_run()
    with pytest.raises(UserError, match="add --data DIR"):
        open_run(Path("runs/new"))
    with pytest.raises(UserError, match="does not exist"):
        open_run(Path("runs/new"), data=Path("nowhere"))


def test_a_tool_never_makes_a_run(run: Run, tmp_path: Path) -> None:
    assert open_existing_run().folder == open_existing_run(run.folder).folder == run.folder
    with pytest.raises(UserError, match="is not a run"):
        open_existing_run(tmp_path / "new", run.data)
    assert not (tmp_path / "new").exists()


def test_a_missing_step_is_named_and_so_is_a_data_folder_that_cannot_exist(run: Run) -> None:
    with pytest.raises(UserError, match=r"step 02_embed has not been done in .*python pipeline/02_embed.py --run"):
        run.require(run.paths.embeddings("one", "query"))
    run.paths.description.write_text(json.dumps({"data": "/" + "9" * 5000}))
    with pytest.raises(UserError, match="does not exist"):
        open_existing_run(run.folder)


def test_a_wrong_recipe_or_one_in_use_leaves_the_runs_own(run: Run, tmp_path: Path) -> None:
    kept = run.paths.recipe.read_text()
    (tmp_path / "bad.yaml").write_text("modells: {}")
    with pytest.raises(UserError):
        open_run(run.folder, recipe=tmp_path / "bad.yaml")
    assert run.paths.recipe.read_text() == kept
    kept = run.paths.recipe.read_text()
    (tmp_path / "other.yaml").write_text(kept.replace("seed: 0", "seed: 1"))
    with hold_folder(run.folder, "01_train one"):
        with pytest.raises(UserError, match="is in use"):
            open_run(run.folder, recipe=tmp_path / "other.yaml")
        open_run(run.folder)
    assert run.paths.recipe.read_text() == kept
    assert open_run(run.folder, recipe=tmp_path / "other.yaml").recipe.seed == 1


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


def test_the_maker_of_every_output_is_the_step_that_makes_it(run: Run) -> None:
    for step in STEPS:
        for product in step.products(run):
            assert {run.paths.maker(path) for path in product.outputs} == {step.name}
