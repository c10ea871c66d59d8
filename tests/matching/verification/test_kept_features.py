"""Features that memory does not hold are those that were found, and are found once."""

from pathlib import Path

import numpy as np
import pytest

from image_copies.matching.verification.features import Features
from image_copies.matching.verification.kept_features import keep_features


def make_features(count: int) -> Features:
    rng = np.random.default_rng(count)
    points, histograms = rng.random((count, 2)).astype(np.float32), rng.integers(0, 256, (count, 128), dtype=np.uint8)
    return Features(points, histograms, 300 + count, 200)


@pytest.mark.parametrize(("most", "found_again"), [(2**20, []), (136, ["7"]), (0, ["0", "1", "7"])])
def test_what_was_found_is_read_up_to_a_number_of_bytes(most: int, found_again: list[str], tmp_path: Path) -> None:
    asked: list[str] = []

    def find(path: Path) -> Features:
        asked.append(path.name)
        return make_features(int(path.name))

    with keep_features(find, tmp_path, most) as kept:
        for _ in range(2):
            for number in (0, 1, 7):
                found, made = kept(Path(str(number))), make_features(number)
                assert np.array_equal(found.points, made.points) and np.array_equal(found.histograms, made.histograms)
                assert (found.width, found.height) == (made.width, made.height)
    assert asked == ["0", "1", "7", *found_again] and not any(tmp_path.iterdir())
