from pathlib import Path

import pytest

from image_copies.data.images import ImageSet
from image_copies.pipeline.run.manifest import describe_state, find_changes, fingerprint


def test_fingerprints_follow_the_images(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(b"1")
    before = fingerprint(ImageSet(["a"], [path]))
    path.write_bytes(b"12")
    assert fingerprint(ImageSet(["a"], [path])) != before
    assert fingerprint(tmp_path / "none") is None


def test_a_key_that_recipes_have_got_since_makes_nothing_stale() -> None:
    def state(**stage: object) -> dict[str, object]:
        return {"inputs": {}, "parameters": {"model": {"stages": [stage]}}}

    before = state(epochs=2)
    assert find_changes(before, state(epochs=2, key_of_today=None), []) == []
    assert find_changes(before, state(epochs=2, key_of_today=0.1), []) == ["parameter model changed"]


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
