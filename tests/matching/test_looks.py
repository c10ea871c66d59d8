"""What is kept of pictures is what would be made of them again, and is made once."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from image_copies.data.errors import ImageError
from image_copies.data.procedural import draw_picture
from image_copies.matching import views as looks
from image_copies.matching.extractor import Extractor
from image_copies.matching.index.filling import add_pictures
from image_copies.matching.index.store import open_store
from image_copies.matching.verification.features import Features
from image_copies.matching.views import MAX_BYTES, embed_views, find_features, keep_looks
from image_copies.models.inference.embedders import Embedder, Squares
from image_copies.models.inference.settings import EmbeddingSettings


@pytest.fixture(scope="module")
def extractor() -> Extractor:
    def embed(squares: Squares) -> NDArray[np.float32]:
        return np.asarray(squares[16][:, :, :2].reshape(-1, 96), np.float32)

    return Extractor([Embedder((16,), 96, embed, nullcontext)], EmbeddingSettings(workers=2), lambda v: v, 96, "first rows")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three pictures of a camera's size, whose scales are reduced alike for all that is made of them, and one that is broken."""
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(3):
        Image.fromarray(draw_picture(np.random.default_rng(number), 1600)).save(folder / f"{number}.jpg")
    (folder / "broken.jpg").write_bytes((folder / "0.jpg").read_bytes()[:500])
    return sorted(folder.iterdir())


def assert_same_features(one: Features, other: Features) -> None:
    assert np.array_equal(one.points, other.points) and np.array_equal(one.histograms, other.histograms)
    assert (one.width, one.height) == (other.width, other.height)


def test_what_is_made_when_pictures_are_decoded_is_what_is_made_of_files(
    extractor: Extractor, pictures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path / "index", extractor.identity, 96) as store, keep_looks(extractor, tmp_path) as kept:
        assert kept.look is None
        kept.ahead = True
        assert add_pictures(store, extractor, pictures, kept.look) == (3, [])
        monkeypatch.setattr(looks, "find_features", lambda path: pytest.fail(f"{path} was made before"))
        for path, views in zip(pictures, embed_views(extractor, pictures), strict=True):
            if path.name == "broken.jpg":
                assert views is None and kept.views(path) is None
            else:
                assert np.array_equal(np.asarray(kept.views(path)), np.asarray(views))
                assert_same_features(kept.features(path), find_features(path))


@pytest.mark.parametrize(("most", "made_again"), [(MAX_BYTES, []), (1, ["1.jpg"]), (0, ["0.jpg", "1.jpg"])])
def test_features_are_found_once_up_to_a_number_of_bytes(
    most: int, made_again: list[str], extractor: Extractor, pictures: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def find(path: Path) -> Features:
        asked.append(path.name)
        return find_features(path)

    monkeypatch.setattr(looks, "find_features", find)
    with keep_looks(extractor, tmp_path, most) as kept:
        for _ in range(2):
            for path in pictures[:2]:
                assert_same_features(kept.features(path), find_features(path))
                assert kept.views(path) is None
        with pytest.raises(ImageError):
            kept.features(pictures[3])
    assert asked == ["0.jpg", "1.jpg", *made_again, "broken.jpg"] and not any(tmp_path.iterdir())


def test_a_gpu_embeds_views_apart(pictures: list[Path], tmp_path: Path) -> None:
    network = Embedder((16,), 96, lambda squares: pytest.fail("asked"), None)
    on_gpu = Extractor([network], EmbeddingSettings(), lambda v: v, 96, "")
    with keep_looks(on_gpu, tmp_path) as kept:
        kept.ahead = True
        assert kept.look is None
