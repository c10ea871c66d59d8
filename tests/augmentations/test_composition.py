"""Compositions: reproducible, replayable, never in place; frequencies and exclusions as in the table."""

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from image_copies.augmentations.composition import (
    Record,
    check_probabilities,
    compute_probability,
    draw_record,
    edit_image,
    list_edits,
    replay,
)
from image_copies.augmentations.edits.registry import FUNCTIONS
from image_copies.augmentations.randomness import generator_for
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.errors import UserError

EVERYTHING = AugmentationSettings(intensity=1.0, extra=True)


class Others:
    """Three plain pictures to paste."""

    @property
    def ids(self) -> Sequence[str]:
        return ["a", "b", "c"]

    def __call__(self, image_id: str) -> np.ndarray:
        return np.full((40, 60, 3), 80 * self.ids.index(image_id), np.uint8)


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 10**6), st.integers(8, 90), st.integers(8, 90), st.floats(0, 1), st.booleans())
def test_any_size_gives_rgb_and_the_record_replays(seed: int, height: int, width: int, intensity: float, extra: bool) -> None:
    image = picture(height, width, seed)
    before = image.copy()
    chosen = AugmentationSettings(intensity=intensity, extra=extra)
    edited = edit_image(image, chosen, generator_for(seed, 0, "x"), Others())
    assert (image == before).all()
    assert edited.image.dtype == np.uint8 and edited.image.ndim == 3 and edited.image.shape[2] == 3
    assert min(edited.image.shape[:2]) >= 2
    assert not np.shares_memory(edited.image, image)
    again = replay(image, json.loads(json.dumps(edited.record)), Others())
    assert again.tobytes() == edited.image.tobytes()
    assert edit_image(image, chosen, generator_for(seed, 0, "x"), Others()).record == edited.record


def records(chosen: AugmentationSettings, count: int) -> list[Record]:
    return [draw_record(chosen, generator_for(1, 0, str(number)), Others().ids) for number in range(count)]


def test_order_and_exclusions() -> None:
    order = {edit.name: place for place, edit in enumerate(list_edits(EVERYTHING))}
    excluded = {edit.name: set(edit.not_after) for edit in list_edits(EVERYTHING)}
    assert excluded["crop"] == {"perspective"} and excluded["swap_channels"] == {"grayscale", "onto_screenshot"}
    for record in records(EVERYTHING, 3000):
        names = [entry["edit"] for entry in record]
        assert names == sorted(names, key=order.__getitem__) and len(set(names)) == len(names)
        for place, name in enumerate(names):
            assert not excluded[name] & set(names[:place])


def test_reference_family_and_none() -> None:
    for record in records(AugmentationSettings(family="reference"), 200):
        assert record[-1]["edit"] == "encoding_quality" and 40 <= record[-1]["quality"] <= 100
    image = picture(16, 16)
    same = edit_image(image, AugmentationSettings(family="none"), generator_for(0, 0, "x"))
    assert (same.image == image).all() and same.record == []


def test_without_other_images_nothing_is_pasted_and_a_crop_is_no_view() -> None:
    for number in range(300):
        record = draw_record(EVERYTHING, generator_for(2, 0, str(number)), [])
        assert not {entry["edit"] for entry in record} & {"overlay_image", "collage", "sticker", "hide_inside"}
    with pytest.raises(ValueError, match="give its source"):
        replay(picture(20, 20), [{"edit": "sticker", "function": "sticker", "overlay": "a"}])
    image = picture(20, 30)
    assert not np.shares_memory(FUNCTIONS["crop"](image, x1=0, y1=0.25, x2=1, y2=1), image)
    assert not np.shares_memory(FUNCTIONS["resized_crop"](image, area=1.0, ratio=1.5, x=0, y=0), image)


def test_probabilities_of_named_edits_replace_those_of_the_table_and_unknown_ones_are_refused() -> None:
    chosen = AugmentationSettings(intensity=0.5, extra=True, probabilities={"collage": 0.6, "hflip": 0.8, "grayscale": 0.0})
    rows = {edit.name: edit for edit in list_edits(chosen)}
    assert compute_probability(rows["collage"], chosen) == pytest.approx(0.3)  # rises with the intensity, as its row does
    assert compute_probability(rows["hflip"], chosen) == pytest.approx(0.8)  # the same at every intensity
    assert compute_probability(rows["vflip"], chosen) == rows["vflip"].probability(0.5)
    drawn = Counter(entry["edit"] for record in records(chosen, 3000) for entry in record)
    assert drawn["grayscale"] == 0 and abs(drawn["hflip"] / 3000 - 0.8) < 0.04
    check_probabilities(AugmentationSettings(extra=True, probabilities={"collage": 0.5}))
    with pytest.raises(UserError, match="'collage', which is not an edit of this recipe's tables"):
        check_probabilities(AugmentationSettings(probabilities={"collage": 0.5}))
