import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_copies.data.errors import UserError
from image_copies.data.layout import split_training


@given(st.integers(40, 400), st.integers(0, 5), st.floats(0.1, 0.4), st.floats(0.03, 0.3))
def test_roles_are_disjoint_and_complete(count: int, seed: int, validation: float, overlay: float) -> None:
    ids = [f"T{number:06d}" for number in range(count)]
    split = split_training(ids, seed, validation, overlay)
    roles = [split.classes, split.overlays, split.references, split.distractors]
    assert sorted(image_id for role in roles for image_id in role) == ids
    assert abs(len(split.references) - 2 * len(split.distractors)) <= 2
    assert len(split.references) + len(split.distractors) == round(validation * count)
    assert len(split.overlays) == round(overlay * count)
    assert split == split_training(ids[::-1], seed, validation, overlay)
    assert split.classes != split_training(ids, seed + 1, validation, overlay).classes


def test_too_few_images_say_which_role_is_empty() -> None:
    with pytest.raises(UserError, match="no image is left for overlays"):
        split_training(["a", "b", "c", "d", "e"], 0, 0.4, 0.05)
