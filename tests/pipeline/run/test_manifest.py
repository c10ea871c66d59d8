from pathlib import Path

from data.images import ImageSet
from pipeline.run.manifest import find_changes, fingerprint


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
