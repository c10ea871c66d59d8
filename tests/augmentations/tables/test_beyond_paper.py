"""The edits beyond the paper: each does something, and more at a higher intensity."""

import cv2
import numpy as np
import pytest

from image_copies.augmentations.composition import list_edits
from image_copies.augmentations.edits.registry import OTHER_IMAGE
from image_copies.augmentations.randomness import generator_for
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.augmentations.tables.beyond_paper import EXTRA_TABLE, FURTHER_TABLE
from image_copies.augmentations.tables.isc2021 import QUERY_TABLE
from image_copies.augmentations.tables.row import Edit
from image_copies.data.procedural.pictures import draw_picture

PICTURE = draw_picture(np.random.default_rng([6, 1]), 160)
OTHER = draw_picture(np.random.default_rng([6, 2]), 160)


def mean_change(edit: Edit, intensity: float) -> float:
    """Mean absolute difference to the picture over 40 draws, results brought to the picture's size."""
    total = 0.0
    for number in range(40):
        function, parameters = edit.draw(generator_for(0, number, edit.name), intensity)
        if edit.needs_overlay:
            parameters[OTHER_IMAGE[function.__name__]] = OTHER
        result = cv2.resize(function(PICTURE, **parameters), PICTURE.shape[1::-1])
        total += float(np.abs(result.astype(int) - PICTURE).mean())
    return total / 40


SPREAD_OUT = {"collage": "share", "hide_inside": "size"}  # these move the whole picture at any intensity


@pytest.mark.parametrize(
    "edit", [edit for edit in (*EXTRA_TABLE, *FURTHER_TABLE) if edit.name not in SPREAD_OUT], ids=lambda edit: edit.name
)
def test_a_higher_intensity_changes_more(edit: Edit) -> None:
    weak, strong = mean_change(edit, 0.2), mean_change(edit, 1.0)
    assert strong > 1.1 * weak and strong > 1.5


@pytest.mark.parametrize("edit", [edit for edit in EXTRA_TABLE if edit.name in SPREAD_OUT], ids=lambda edit: edit.name)
def test_a_higher_intensity_leaves_less_room_for_the_picture(edit: Edit) -> None:
    def room(intensity: float) -> float:
        drawn = [edit.draw(generator_for(0, number, edit.name), intensity)[1][SPREAD_OUT[edit.name]] for number in range(40)]
        mean = float(np.mean(drawn))
        return 1 - mean if edit.name == "collage" else mean

    assert room(1.0) < room(0.2) - 0.1
    assert mean_change(edit, 1.0) > 10


def test_the_family_is_switched_on_by_a_key() -> None:
    assert tuple(list_edits(AugmentationSettings())) == tuple(QUERY_TABLE)
    assert tuple(list_edits(AugmentationSettings(extra=True))) == (*QUERY_TABLE, *EXTRA_TABLE)
    assert tuple(list_edits(AugmentationSettings(family="broad"))) == (*QUERY_TABLE, *EXTRA_TABLE, *FURTHER_TABLE)


def test_families_are_left_out_or_drawn_alone() -> None:
    every = [row.name for row in list_edits(AugmentationSettings(family="broad"))]
    alone = [row.name for row in list_edits(AugmentationSettings(only=("paste", "warp")))]
    others = [row.name for row in list_edits(AugmentationSettings(family="broad", without=("paste", "warp")))]
    assert alone == ["overlay_image", "sticker", "collage", "hide_inside", "lens", "wave", "shear"]
    assert sorted(alone + others) == sorted(every)
    learnt = {row.family for row in list_edits(AugmentationSettings(extra=True))}
    assert learnt.isdisjoint(row.family for row in FURTHER_TABLE)  # so that queries.left_out may name any of these
