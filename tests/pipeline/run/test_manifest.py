from pathlib import Path

from data.images import ImageSet
from pipeline.run.manifest import fingerprint


def test_fingerprints_follow_the_images(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(b"1")
    before = fingerprint(ImageSet(["a"], [path]))
    path.write_bytes(b"12")
    assert fingerprint(ImageSet(["a"], [path])) != before
    assert fingerprint(tmp_path / "none") is None
