"""Compositions: where the image lies in a collage, on another picture and on a page of a folder."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from image_copies.augmentations.composition import draw_record, replay
from image_copies.augmentations.edits.overlays import grid, inset
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.errors import UserError

IMAGE = np.random.default_rng(0).integers(60, 256, (24, 36, 3), np.uint8)
DARK = np.full((40, 30, 3), 50, np.uint8)


@settings(deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 8), st.floats(0, 0.2), st.floats(0.3, 0.8))
def test_a_collage_has_the_image_once_and_parts_of_the_other_beside_it(
    rows: int, columns: int, place: int, gap: float, size: float
) -> None:
    picture = grid(IMAGE, DARK, rows, columns, place, gap, [10, 20, 30], size, seed=1)
    down, right = divmod(place % (rows * columns), columns)
    edge, other = round(gap * 24), [max(8, round(side * (1 - size) / size)) for side in (24, 36)]
    top, left = down * (other[0] + edge) + edge, right * (other[1] + edge) + edge
    assert np.array_equal(picture[top : top + 24, left : left + 36], IMAGE)
    height = 24 + (rows - 1) * other[0] + (rows + 1) * edge
    assert picture.shape == (height, 36 + (columns - 1) * other[1] + (columns + 1) * edge, 3)
    shown, gaps = (picture >= 60).all(axis=2), (picture == [10, 20, 30]).all(axis=2)
    assert shown.sum() == 24 * 36 and (shown | gaps | (picture == 50).all(axis=2)).all()


def test_an_inset_has_its_rim_and_the_background_around_it() -> None:
    picture = inset(IMAGE, np.full((40, 90, 3), 50, np.uint8), 0.6, 1, 0, 0.1, [0, 0, 0])
    assert (picture[:, :56] == 50).all() and (picture[24:] == 50).all()
    assert not picture[0, 56:].any() and picture[8:16, 62:84].all()


def test_templates_are_pages_with_a_hole_for_the_image(tmp_path: Path) -> None:
    chosen = AugmentationSettings(intensity=1, probabilities={"onto_screenshot": 1}, templates=str(tmp_path))
    rng = np.random.default_rng(0)
    record = next(r for r in (draw_record(chosen, rng, ()) for _ in range(99)) if r and r[-1]["edit"] == "onto_screenshot")
    with pytest.raises(UserError, match="has no page: templates are PNG files"):
        replay(IMAGE, record[-1:])
    page = np.full((60, 80, 4), 200, np.uint8)
    Pillow.fromarray(page).save(tmp_path / "one.png")
    with pytest.raises(UserError, match=r"one\.png has no transparent part"):
        replay(IMAGE, record[-1:])
    page[10:34, 20:56, 3] = 0
    Pillow.fromarray(page).save(tmp_path / "one.png")
    expected = page[..., :3].copy()
    expected[10:34, 20:56] = IMAGE
    assert np.array_equal(replay(IMAGE, record[-1:]), expected)
