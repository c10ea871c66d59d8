"""Compositions: reproducible, replayable, never in place; frequencies and exclusions as in the table."""

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, norm, uniform

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
from image_copies.augmentations.tables.isc2021 import QUERY_TABLE
from image_copies.data.errors import UserError

DRAWS = 6000
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


def records(chosen: AugmentationSettings, count: int = DRAWS) -> list[Record]:
    return [draw_record(chosen, generator_for(1, 0, str(number)), Others().ids) for number in range(count)]


@pytest.mark.parametrize("intensity", [0.4, 1.0])
def test_frequencies_are_the_tables(intensity: float) -> None:
    """Every edit appears as often as the table says, less its exclusions, within four standard deviations."""
    drawn = records(AugmentationSettings(intensity=intensity))
    counts = Counter(entry["edit"] for record in drawn for entry in record)
    fixed = {
        "scale": 0.1,
        "encoding_quality": 0.1,
        "color_jitter": 0.2,
        "shuffle_pixels": 0.1,
    }
    fixed |= {"hflip": 0.5, "vflip": 0.1}
    rising = {"rotate": 0.1, "perspective": 0.1, "grayscale": 0.1, "opacity": 0.05, "blur_or_sharpen": 0.1}
    rising |= {"overlay_stripes": 0.1, "overlay_emoji": 0.1, "overlay_text": 0.1, "pixelization": 0.1}
    after_perspective = {"crop": 0.1, "pad": 0.05, "overlay_image": 0.1}
    expected = fixed | {name: share * intensity for name, share in rising.items()}
    expected |= {name: share * intensity * (1 - 0.1 * intensity) for name, share in after_perspective.items()}
    alone = 1 - 0.1 * intensity  # no perspective; no overlay where no perspective was; no grayscale
    expected["meme_format"] = 0.1 * intensity * (1 - expected["overlay_image"])
    expected["onto_screenshot"] = 0.05 * intensity * alone**2
    coloured = 0.05 * intensity * alone * (1 - expected["onto_screenshot"])
    expected |= dict.fromkeys(("invert_channels", "swap_channels", "shift_channels"), coloured)
    for name, share in expected.items():
        deviation = (DRAWS * share * (1 - share)) ** 0.5
        assert abs(counts[name] - DRAWS * share) < 4 * deviation, (name, counts[name] / DRAWS, share)
    assert set(counts) == set(expected) == {edit.name for edit in QUERY_TABLE}


def test_order_and_exclusions() -> None:
    order = {edit.name: place for place, edit in enumerate(list_edits(EVERYTHING))}
    excluded = {edit.name: set(edit.not_after) for edit in list_edits(EVERYTHING)}
    assert excluded["crop"] == {"perspective"} and excluded["swap_channels"] == {"grayscale", "onto_screenshot"}
    for record in records(EVERYTHING):
        names = [entry["edit"] for entry in record]
        assert names == sorted(names, key=order.__getitem__) and len(set(names)) == len(names)
        for place, name in enumerate(names):
            assert not excluded[name] & set(names[:place])


def test_parameters_are_distributed_as_in_the_table() -> None:
    """Kolmogorov-Smirnov against the table's formulas; u of the saturation is found again by inverting its formula."""
    intensity = 0.6
    drawn = [entry for record in records(AugmentationSettings(intensity=intensity), 15000) for entry in record]

    def values(function: str, parameter: str) -> np.ndarray:
        return np.array([entry[parameter] for entry in drawn if entry["function"] == function])

    saturation = (values("color_jitter", "saturation") - (1 - intensity)) / intensity
    expected = [
        (values("scale", "factor"), 0.6, 1),
        (values("rotate", "degrees"), 0, 360 * intensity),
        (values("color_jitter", "brightness"), 1 - 0.75 * intensity, 1 + 0.75 * intensity),
        (np.log(6 * (saturation - 0.2)) / 5, 0, 1),
        (values("opacity", "level"), 0.6, 1),
        (values("pad", "width_share"), 0, 0.1 * intensity),
        (values("overlay_image", "size"), 0.1, 0.7),
        (values("overlay_onto_image", "size"), 0.4, 0.8),
        (values("blur", "radius"), 1.1 * intensity, 4.1 * intensity),
        (values("sharpen", "factor"), 1, 1 + 50 * intensity),
        (values("shuffle_pixels", "share"), 0, 0.2 * intensity),
        (values("overlay_stripes", "width"), 0.05, 0.25),
        (values("overlay_stripes", "degrees"), 0, 180),
        (values("overlay_stripes", "density"), 0, 0.8),
        (values("shift_channels", "down"), -0.05, 0.05),
    ]
    for number, (found, low, high) in enumerate(expected):
        assert kstest(found, uniform(low, high - low).cdf).pvalue > 1e-4, number
    shifts = np.array([entry["corner_shifts"] for entry in drawn if entry["function"] == "perspective"])
    assert kstest(shifts.ravel() * 384, norm(0, 30 * intensity).cdf).pvalue > 1e-4
    assert set(values("pixelization", "ratio")) == {0.125, 0.25, 0.5, 0.75}
    assert set(values("overlay_stripes", "line")) == {"solid", "dotted", "dashed"}
    assert {len(text) for text in values("overlay_text", "text")} == set(range(5, 11))
    quality = values("encoding_quality", "quality")
    assert set(quality) == set(range(6, 31))  # 0.6 · (10…50)
    emoji = values("overlay_emoji", "opacity")
    assert abs((emoji == 1).mean() - 0.2) < 4 * (0.16 / len(emoji)) ** 0.5  # min(1, .2 + u)
    orders = [tuple(order) for order in (entry["order"] for entry in drawn if entry["function"] == "swap_channels")]
    permutations = np.mean([len(set(order)) == 3 for order in orders])
    share = 0.75 + 0.25 * 6 / 27
    assert abs(permutations - share) < 4 * (share * (1 - share) / len(orders)) ** 0.5


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
