from pathlib import Path

import pytest

from image_copies.data.images import ImageSet
from image_copies.data.settings import Settings
from image_copies.pipeline.run.recipe import read_recipe
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.run.step import describe_state, find_changes, fingerprint, read_manifest, write_manifest
from image_copies.pipeline.steps.definitions import STEPS


def test_fingerprints_follow_the_images(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(b"1")
    before = fingerprint(ImageSet(["a"], [path]))
    path.write_bytes(b"12")
    assert fingerprint(ImageSet(["a"], [path])) != before
    assert fingerprint(tmp_path / "none") is None


class Stage(Settings):
    epochs: int
    turned: bool = False


class Model(Settings):
    stages: tuple[Stage, ...]


@pytest.mark.parametrize(
    ("before", "now", "changes"),
    [
        ({"epochs": 2}, Stage(epochs=2), []),  # without the key of today
        ({"epochs": 2, "turned": None, "gone": None}, Stage(epochs=2), []),
        ({"epochs": 2}, Stage(epochs=2, turned=True), ["parameter model changed"]),
        ({"epochs": 3, "turned": False}, Stage(epochs=2), ["parameter model changed"]),
        (
            {"epochs": 2, "gone": 0.5},
            Stage(epochs=2),
            [
                "parameter model changed (recorded by another version, whose stages.0.gone is not valid in this one: "
                "Extra inputs are not permitted)"
            ],
        ),
    ],
)
def test_what_was_recorded_is_read_as_todays_settings(before: dict[str, object], now: Stage, changes: list[str]) -> None:
    """A key that recipes have got since makes nothing stale while it has its default."""
    recorded = {"inputs": {}, "parameters": {"model": {"stages": [before]}, "seed": 1}}
    assert find_changes(recorded, describe_state({}, {"model": Model(stages=(now,)), "seed": 1}), []) == changes


def test_settings_may_be_all_parameters() -> None:
    recorded = {"inputs": {}, "parameters": {"epochs": 2}}
    assert find_changes(recorded, describe_state({}, Stage(epochs=2)), []) == []
    assert find_changes(recorded, describe_state({}, Stage(epochs=3)), []) == ["parameter epochs changed"]
    (change,) = find_changes({"inputs": {}, "parameters": {"epochs": "x"}}, describe_state({}, Stage(epochs=3)), [])
    assert change.startswith("parameters changed (recorded by another version, whose epochs is not valid")


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[3] / "recipes").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_the_recipes_record_is_what_they_read(path: Path, tmp_path: Path) -> None:
    """No rule of the settings refuses what all their values, also those that have no effect, were recorded as."""
    run = Run(tmp_path, read_recipe(path), tmp_path)
    for step in STEPS:
        for product in step.products(run):
            state = describe_state({}, product.parameters)
            write_manifest(run, "label", state)
            assert find_changes(read_manifest(run, "label"), state, []) == []


def test_a_run_that_was_moved_or_is_named_by_another_path_is_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--run runs/mine` after `--run $PWD/runs/mine` embedded everything again."""
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    Path("run/vectors.h5").write_text("vectors")
    made = describe_state({"vectors": [Path("run/vectors.h5")]}, {})
    assert find_changes(made, describe_state({"vectors": [tmp_path / "run" / "vectors.h5"]}, {}), []) == []
    Path("run").rename("moved")
    assert find_changes(made, describe_state({"vectors": [Path("moved/vectors.h5")]}, {}), []) == []
    Path("moved/vectors.h5").write_text("others, of another size")
    assert find_changes(made, describe_state({"vectors": [Path("moved/vectors.h5")]}, {}), []) == ["input vectors changed"]


@pytest.mark.parametrize("sizes", [None, [], {"/a": None}, {"/a": "9"}])
def test_a_damaged_manifest_makes_its_step_stale(sizes: object, tmp_path: Path) -> None:
    now = describe_state({}, {"seed": 1})
    assert find_changes({**now, "sizes": sizes}, now, [tmp_path]) == ["its manifest is damaged"]
