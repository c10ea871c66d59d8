"""The edits of all tables: more at a higher intensity, of any shape, repeatable; and no table changes what another draws."""

import hashlib
import json

import cv2
import numpy as np
import pytest

from image_copies.augmentations.composition import TABLES, draw_record, list_edits
from image_copies.augmentations.edits.registry import FAMILY_OF, OTHER_IMAGE, Image
from image_copies.augmentations.randomness import generator_for
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.augmentations.tables.beyond_paper import EXTRA_TABLE, FURTHER_TABLE
from image_copies.augmentations.tables.isc2021 import QUERY_TABLE
from image_copies.augmentations.tables.many import MANY_TABLE
from image_copies.augmentations.tables.row import Edit
from image_copies.data.procedural import draw_picture

PICTURE, OTHER = (draw_picture(np.random.default_rng([6, seed]), 160) for seed in (1, 2))
BEYOND = (*EXTRA_TABLE, *FURTHER_TABLE, *MANY_TABLE)
SHRINKING = dict.fromkeys(("hide_inside", "on_phone", "in_document", "grid", "inset"), "size") | {"collage": "share"}  # by these


def apply(edit: Edit, number: int, intensity: float, image: Image) -> Image:
    function, parameters = edit.draw(generator_for(0, number, edit.name), intensity)
    if edit.needs_overlay:
        parameters[OTHER_IMAGE[function.__name__]] = OTHER
    return function(image, **parameters)


def mean_change(edit: Edit, intensity: float) -> float:
    """Mean absolute difference to the picture over 40 draws, results brought to the picture's size."""
    image = PICTURE[:, :128] if edit in MANY_TABLE else PICTURE
    results = [cv2.resize(apply(edit, number, intensity, image), image.shape[1::-1]).astype(int) for number in range(40)]
    return float(np.abs(np.stack(results) - image).mean())


@pytest.mark.parametrize("edit", [edit for edit in BEYOND if edit.name not in SHRINKING], ids=lambda edit: edit.name)
def test_a_higher_intensity_changes_more(edit: Edit) -> None:
    weak, strong = mean_change(edit, 0.2), mean_change(edit, 1.0)
    assert strong > 1.1 * weak and strong > 1.5
    if edit in MANY_TABLE:
        assert weak < mean_change(edit, 0.6) < strong and strong > 1.2 * weak and strong > 3
    if edit in EXTRA_TABLE:
        assert edit.probability(0.1) < edit.probability(1.0) <= 0.15


@pytest.mark.parametrize("edit", [edit for edit in BEYOND if edit.name in SHRINKING], ids=lambda edit: edit.name)
def test_a_higher_intensity_leaves_less_room_for_the_picture(edit: Edit) -> None:
    name, means = SHRINKING[edit.name], list[float]()
    for intensity in (0.2, 0.6, 1.0):
        drawn = [edit.draw(generator_for(0, number, edit.name), intensity)[1][name] for number in range(40)]
        means.append(float(np.mean(drawn)))
    weak, medium, strong = (1 - mean for mean in means) if name == "share" else means
    assert weak > medium > strong and weak > strong + 0.1 and mean_change(edit, 1.0) > 3


@pytest.mark.parametrize("edit", TABLES["many"], ids=lambda edit: edit.name)
@pytest.mark.parametrize("shape", [(8, 8), (8, 200), (96, 64)])
def test_any_shape_is_taken_results_are_repeated_and_the_picture_is_not_changed(edit: Edit, shape: tuple[int, int]) -> None:
    image = np.asarray(cv2.resize(PICTURE, shape[::-1]), np.uint8)
    before = image.copy()
    for number in range(9):
        first, second = (apply(edit, number, (0.0, 0.5, 1.0)[number % 3], image) for _ in range(2))
        assert first.dtype == np.uint8 and first.shape[2] == 3 and min(first.shape[:2]) >= 2
        assert (first == second).all() and not np.shares_memory(first, image)
    assert (image == before).all()


def test_tables_are_joined_by_keys_and_families_left_out_or_drawn_alone() -> None:
    assert tuple(list_edits(AugmentationSettings())) == tuple(QUERY_TABLE)
    assert tuple(list_edits(AugmentationSettings(extra=True))) == (*QUERY_TABLE, *EXTRA_TABLE)
    assert tuple(list_edits(AugmentationSettings(family="broad"))) == (*QUERY_TABLE, *EXTRA_TABLE, *FURTHER_TABLE)
    for extra in (False, True):
        assert tuple(list_edits(AugmentationSettings(family="many", extra=extra))) == (*TABLES["broad"], *MANY_TABLE)
    assert len(MANY_TABLE) >= 40
    every = [row.name for row in list_edits(AugmentationSettings(family="broad"))]
    alone = [row.name for row in list_edits(AugmentationSettings(only=("paste", "warp")))]
    others = [row.name for row in list_edits(AugmentationSettings(family="broad", without=("paste", "warp")))]
    assert alone == ["overlay_image", "sticker", "collage", "hide_inside", "lens", "wave", "shear"]
    assert sorted(alone + others) == sorted(every)
    learnt = {row.family for row in list_edits(AugmentationSettings(extra=True))}
    assert learnt.isdisjoint(row.family for row in FURTHER_TABLE)  # so that queries.left_out may name any of these
    broad = {FAMILY_OF[function.__name__] for row in TABLES["broad"] for function in row.functions}
    assert broad.isdisjoint(row.family for row in MANY_TABLE)


def round_figure(text: str) -> float:
    """Processors differ in last bits."""
    return float(f"{float(text):.9g}")


@pytest.mark.parametrize(
    ("settings", "digest"),
    [
        (AugmentationSettings(), "85dc37fa6c0c5ae6"),
        (AugmentationSettings(extra=True), "255eafca19917a2c"),
        (AugmentationSettings(family="broad"), "f7849798245e6bda"),
        (AugmentationSettings(only=("paste", "warp")), "145eaa616bc87572"),
        (AugmentationSettings(family="broad", without=("art",)), "f68c8a14ba64cf88"),
    ],
)
def test_what_tables_draw_is_what_they_drew_before_others_were_added(settings: AugmentationSettings, digest: str) -> None:
    records = [draw_record(settings, generator_for(7, number, "x"), ("a", "b", "c")) for number in range(200)]
    rounded = json.loads(json.dumps(records), parse_float=round_figure)
    assert hashlib.sha256(json.dumps(rounded).encode()).hexdigest()[:16] == digest
