from pathlib import Path

import numpy as np
from PIL import Image

from image_copies.data.procedural import draw_picture, write_pictures


def test_pictures_are_those_of_their_number_prefix_and_seed_whatever_the_number_of_processes(tmp_path: Path) -> None:
    one = list(write_pictures(tmp_path / "one", "T", 5, seed=3, workers=1))
    two = list(write_pictures(tmp_path / "two", "T", 5, seed=3, workers=2))
    assert [path.name for path in one] == ["T000000.jpg", "T000001.jpg", "T000002.jpg", "T000003.jpg", "T000004.jpg"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    files = [
        *write_pictures(tmp_path / "a", "T", 3, 0),
        *write_pictures(tmp_path / "b", "R", 3, 0),
        *write_pictures(tmp_path / "c", "T", 3, 1),
    ]
    assert len({path.read_bytes() for path in files}) == 9


def test_pictures_are_varied() -> None:
    """Small grey versions of different pictures correlate little, as photographs' do."""
    small = []
    for number in range(60):
        picture = draw_picture(np.random.default_rng([1, number]), long_side=96)
        assert picture.dtype == np.uint8 and max(picture.shape) == 96 and picture.shape[2] == 3
        values = np.asarray(Image.fromarray(picture).convert("L").resize((8, 8)), dtype=float).ravel()
        small.append((values - values.mean()) / (values.std() + 1e-9))
    similarity = np.corrcoef(small) - np.eye(60)
    assert np.abs(similarity).mean() < 0.35
    assert similarity.max() < 0.95
