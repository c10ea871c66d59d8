"""Every picture is read once by each call, and its content embedded once in all."""

from collections import Counter
from pathlib import Path

import pytest

from image_copies.data.procedural import write_pictures
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.matching.index import filling, store
from image_copies.matching.index.filling import add_pictures, embed_queries
from image_copies.matching.index.store import open_store, stored_files, vectors_by_digest
from image_copies.models.shipped import SHIPPED


def test_a_picture_is_read_once_by_each_call_and_known_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve files: a copy of the first one's bytes in another batch, one that is no picture, and one that is missing."""
    paths = list(write_pictures(tmp_path / "pictures", "T", 9, seed=2, workers=1))
    double, text, missing = (paths[0].with_name(name) for name in ("double.jpg", "text.jpg", "missing.jpg"))
    double.write_bytes(paths[0].read_bytes())
    text.write_text("no picture")
    pictures, read, extractor = [*paths, double, text, missing], Counter[Path](), checkpoint_extractor(SHIPPED)

    read_content = store.read_content

    def count(path: Path, most: int) -> tuple[bytes, bytes | None]:
        read[path] += 1
        return read_content(path, most)

    monkeypatch.setattr(store, "read_content", count)
    monkeypatch.setattr(filling, "choose_batch", lambda networks, settings: 4)
    with open_store(tmp_path / "index", extractor.identity, extractor.dimensions) as opened:
        assert len(embed_queries(opened, extractor, pictures[4:6])) == 2
        assert add_pictures(opened, extractor, pictures) == (7, [missing])
        assert add_pictures(opened, extractor, pictures) == (0, [missing])
        digests = embed_queries(opened, extractor, pictures)
        assert stored_files(opened) == digests and list(digests) == [*paths, double, text]
        vectors = vectors_by_digest(opened, digests.values())
    assert [digest for digest, vector in vectors.items() if vector is None] == [digests[text]]
    assert {read[path] for path in pictures[:4]} == {3} and read[pictures[4]] == 4
