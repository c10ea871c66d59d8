import json
from pathlib import Path

import pytest

from image_copies.data.errors import UserError
from image_copies.data.locks import hold_folder
from image_copies.pipeline.run.run import Run, open_existing_run, open_run, run_of_checkpoint


def test_the_latest_run_is_continued(run: Run) -> None:
    assert open_run().folder == Path("runs/mine")
    assert open_run().data == run.data


def test_without_a_run_the_first_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="bash run_all"):
        open_run()
    with pytest.raises(UserError, match="add --data DIR"):
        open_run(Path("runs/new"))
    with pytest.raises(UserError, match="does not exist"):
        open_run(Path("runs/new"), data=Path("nowhere"))


def test_a_run_whose_data_folder_cannot_exist_is_named(run: Run) -> None:
    run.paths.description.write_text(json.dumps({"data": "/" + "9" * 5000}))
    with pytest.raises(UserError, match="does not exist"):
        open_existing_run(run.folder)


def test_a_tool_never_makes_a_run(run: Run, tmp_path: Path) -> None:
    assert open_existing_run().folder == open_existing_run(run.folder).folder == run.folder
    with pytest.raises(UserError, match="is not a run"):
        open_existing_run(tmp_path / "new", run.data)
    assert not (tmp_path / "new").exists()


def test_a_missing_step_is_named_with_its_command(run: Run) -> None:
    with pytest.raises(UserError, match=r"step 02_embed has not been done in .*python pipeline/02_embed.py --run"):
        run.require(run.paths.embeddings("one", "query"))


def test_a_wrong_recipe_leaves_the_runs_own(run: Run, tmp_path: Path) -> None:
    kept = run.paths.recipe.read_text()
    (tmp_path / "bad.yaml").write_text("modells: {}")
    with pytest.raises(UserError):
        open_run(run.folder, recipe=tmp_path / "bad.yaml")
    assert run.paths.recipe.read_text() == kept


def test_a_recipe_is_not_changed_under_another_process_that_works_with_it(run: Run, tmp_path: Path) -> None:
    kept = run.paths.recipe.read_text()
    (tmp_path / "other.yaml").write_text(kept.replace("seed: 0", "seed: 1"))
    with hold_folder(run.folder, "01_train one"):
        with pytest.raises(UserError, match="is in use"):
            open_run(run.folder, recipe=tmp_path / "other.yaml")
        open_run(run.folder)
    assert run.paths.recipe.read_text() == kept
    assert open_run(run.folder, recipe=tmp_path / "other.yaml").recipe.seed == 1


def test_a_share_of_the_classes_is_remembered(run: Run) -> None:
    assert open_run(run.folder, scale=0.1).recipe == open_run(run.folder).recipe != run.recipe
    with pytest.raises(UserError, match="above 0 and at most 1"):
        open_run(run.folder, scale=2)


def test_the_run_of_a_checkpoint(run: Run, tmp_path: Path) -> None:
    found = run_of_checkpoint(run.paths.checkpoint("one", 1))
    assert found is not None and found.data == run.data
    assert run_of_checkpoint(tmp_path / "weights.safetensors") is None
