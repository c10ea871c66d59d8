"""The descriptor as a signal of threatexchange, used as its own interfaces and command line use one."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from image_copies.data.procedural import write_pictures
from tests.pictures import encode

te: Any = pytest.importorskip("threatexchange.signal_type.signal_base", reason="threatexchange is not installed")

from image_copies.matching import threatexchange as ours  # noqa: E402 - it imports threatexchange


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return list(write_pictures(tmp_path_factory.mktemp("signals"), "R", 100, seed=1, workers=1))


def test_the_manifest_is_loaded_as_an_extension() -> None:
    manifest: Any = pytest.importorskip("threatexchange.extensions.manifest").ThreatExchangeExtensionManifest
    loaded = manifest.load_from_module_name("image_copies.matching.threatexchange")
    mapping: Any = pytest.importorskip("threatexchange.interface_validation").SignalTypeMapping
    photo: Any = pytest.importorskip("threatexchange.content_type.photo").PhotoContent
    assert mapping([photo], list(loaded.signal_types)).signal_type_by_name == {"image_copy": ours.ImageCopySignal}
    assert issubclass(ours.ImageCopySignal, te.SignalType) and issubclass(ours.ImageCopySignal, te.FileHasher)
    examples = ours.ImageCopySignal.get_examples()
    assert [ours.ImageCopySignal.validate_signal_str(f" {example}\n") for example in examples] == examples


def test_a_hundred_pictures_are_hashed_stored_and_found_again(pictures: list[Path]) -> None:
    signal = ours.ImageCopySignal
    hashes = [signal.hash_from_file(path) for path in pictures]
    index = signal.get_index_cls().build(zip(hashes, map(str, pictures), strict=True))
    index.serialize(stored := io.BytesIO())
    stored.seek(0)
    index = signal.get_index_cls().deserialize(stored)
    with Image.open(pictures[7]) as picture:
        copy = signal.hash_from_bytes(encode(picture.resize((picture.width * 3 // 4, picture.height * 3 // 4)), "JPEG"))
    found = index.query(copy)
    assert found[0].metadata == str(pictures[7]) and found[0].similarity_info.distance < 0.1
    assert signal.compare_hash(copy, hashes[7]).match and not signal.compare_hash(copy, hashes[8]).match
    assert all(match.similarity_info.distance <= ours.MAX_DISTANCE for match in found)
    index.add(hashes[8], "added")
    assert {match.metadata for match in index.query(hashes[8])} >= {str(pictures[8]), "added"}
    assert signal.get_index_cls().build([]).query(copy) == []


def test_what_shows_nothing_has_no_signal() -> None:
    assert ours.ImageCopySignal.hash_from_bytes(b"no picture") == ""
    assert ours.ImageCopySignal.hash_from_bytes(encode(Image.new("RGB", (64, 64), "navy"))) == ""
    for wrong in ("", "no base64!", "AAAA", ours._encode(np.ones(ours.DIMENSIONS, np.float32))):
        with pytest.raises(ValueError, match="is no signal: expected a vector of unit length"):
            ours.ImageCopySignal.validate_signal_str(wrong)
