"""An index that workers elsewhere fill holds what one process puts into it, and every picture is read once."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from image_copies.data.procedural import write_pictures
from image_copies.data.shards import use_engine
from image_copies.matching.extractor import Extractor, checkpoint_extractor
from image_copies.matching.index import filling, store
from image_copies.matching.index.filling import add_pictures, embed_queries, order_by_size
from image_copies.matching.index.store import Content, keep_queries, known_digests, open_store, stored_files
from image_copies.models.shipped import SHIPPED
from tests.sending import SendingEngine


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    return checkpoint_extractor(SHIPPED)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Twelve files: a copy of the first one's bytes in another part, one that is no picture, and one that is missing."""
    folder = tmp_path_factory.mktemp("pictures")
    paths = list(write_pictures(folder, "T", 9, seed=2, workers=1))
    (folder / "double.jpg").write_bytes(paths[0].read_bytes())
    (folder / "text.jpg").write_text("no picture")
    return [*paths, folder / "double.jpg", folder / "text.jpg", folder / "missing.jpg"]


def fill(folder: Path, extractor: Extractor, pictures: list[Path]) -> tuple[object, ...]:
    """Search for two pictures, add all, and search for all."""
    with open_store(folder, extractor.identity, extractor.dimensions) as opened:
        queries = embed_queries(opened, extractor, pictures[4:6])
        added = add_pictures(opened, extractor, pictures)
        again = add_pictures(opened, extractor, pictures)
        every = embed_queries(opened, extractor, pictures)
        vectors = store.vectors_by_digest(opened, every.values())
        return queries, added, again, every, stored_files(opened), vectors


def test_workers_elsewhere_read_each_picture_once_and_give_the_same(
    tmp_path: Path, extractor: Extractor, pictures: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "IMAGES_PER_COMMIT", 4)
    *here, held = fill(tmp_path / "here", extractor, pictures)
    read = Counter[Path]()

    def count(path: Path, most: int) -> tuple[bytes, bytes | None]:
        read[path] += 1
        return store.read_content(path, most)

    monkeypatch.setattr(filling, "read_content", count)
    with use_engine(SendingEngine()):
        *elsewhere, others = fill(tmp_path / "elsewhere", extractor, pictures)
    assert elsewhere == here
    assert isinstance(held, dict) and isinstance(others, dict) and held.keys() == others.keys()
    for digest, vector in held.items():
        assert (vector is None) == (others[digest] is None)
        assert vector is None or np.allclose(vector, others[digest], atol=1e-6)
    assert {read[path] for path in pictures[:4]} == {3} and read[pictures[4]] == 4  # once by each of the calls


def test_known_contents_are_found_whatever_their_digests_end_with(tmp_path: Path) -> None:
    digests = [bytes([number]) * 31 + b"\0" for number in (9, 0, 200, 7)]
    with open_store(tmp_path / "index", "extractor", 8) as opened:
        assert digests[0] not in known_digests(opened)
        keep_queries(opened, [Content(digest, None) for digest in digests])
        assert known_digests(opened) == set(digests)


def test_equal_files_come_together(pictures: list[Path]) -> None:
    ordered = order_by_size(pictures)
    assert sorted(ordered) == sorted(pictures) and ordered[-1].name == "missing.jpg"
    assert abs(ordered.index(pictures[0]) - ordered.index(pictures[0].with_name("double.jpg"))) == 1
