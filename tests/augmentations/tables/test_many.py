"""The table of many edits: strengths that can be seen, results that can be repeated, and no change to what other tables draw."""

import hashlib
import json

import cv2
import numpy as np
import pytest

from image_copies.augmentations.composition import TABLES, draw_record, list_edits
from image_copies.augmentations.edits.registry import FAMILY_OF, OTHER_IMAGE, Image
from image_copies.augmentations.randomness import generator_for
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.augmentations.tables.many import MANY_TABLE
from image_copies.augmentations.tables.row import Edit
from image_copies.data.procedural.pictures import draw_picture

PICTURE = draw_picture(np.random.default_rng([6, 1]), 160)[:, :128]
OTHER = draw_picture(np.random.default_rng([6, 2]), 160)
MOVED_AT_ANY_STRENGTH = {"on_phone": "size", "in_document": "size"}  # edits that shrink the picture: by how much is what counts


def apply(edit: Edit, number: int, intensity: float, image: Image = PICTURE) -> Image:
    function, parameters = edit.draw(generator_for(0, number, edit.name), intensity)
    if edit.needs_overlay:
        parameters[OTHER_IMAGE[function.__name__]] = OTHER
    return function(image, **parameters)


def mean_change(edit: Edit, intensity: float) -> float:
    results = [cv2.resize(apply(edit, number, intensity), PICTURE.shape[1::-1]).astype(int) for number in range(40)]
    return float(np.abs(np.stack(results) - PICTURE).mean())


@pytest.mark.parametrize(
    "edit", [edit for edit in MANY_TABLE if edit.name not in MOVED_AT_ANY_STRENGTH], ids=lambda edit: edit.name
)
def test_three_strengths_can_be_told_apart(edit: Edit) -> None:
    weak, medium, strong = (mean_change(edit, intensity) for intensity in (0.2, 0.6, 1.0))
    assert weak < medium < strong and strong > 1.2 * weak and strong > 3


@pytest.mark.parametrize("edit", [edit for edit in MANY_TABLE if edit.name in MOVED_AT_ANY_STRENGTH], ids=lambda edit: edit.name)
def test_three_strengths_leave_less_and_less_room_for_the_picture(edit: Edit) -> None:
    name = MOVED_AT_ANY_STRENGTH[edit.name]
    drawn = [[edit.draw(generator_for(0, n, edit.name), intensity)[1][name] for n in range(40)] for intensity in (0.2, 0.6, 1.0)]
    weak, medium, strong = np.mean(drawn, axis=1)
    assert weak > medium + 0.05 > strong + 0.1


@pytest.mark.parametrize("edit", MANY_TABLE, ids=lambda edit: edit.name)
@pytest.mark.parametrize("shape", [(96, 64), (8, 9)])
def test_results_can_be_repeated_and_the_picture_is_not_changed(edit: Edit, shape: tuple[int, int]) -> None:
    image = np.asarray(cv2.resize(PICTURE, shape[::-1]), np.uint8)
    before = image.copy()
    for number in range(10):
        first, second = (apply(edit, number, 1.0, image) for _ in range(2))
        assert first.dtype == np.uint8 and first.ndim == 3 and first.shape[2] == 3 and first.flags.c_contiguous
        assert (first == second).all() and not np.shares_memory(first, image)
    assert (image == before).all()


def test_with_the_other_tables_there_are_forty_edits_and_none_shares_a_family_with_them() -> None:
    others = {FAMILY_OF[function.__name__] for row in TABLES["broad"] for function in row.functions}
    assert len(MANY_TABLE) >= 40 and others.isdisjoint(row.family for row in MANY_TABLE)
    assert tuple(list_edits(AugmentationSettings(family="many"))) == (*TABLES["broad"], *MANY_TABLE)
    assert tuple(list_edits(AugmentationSettings(family="many", extra=True))) == (*TABLES["broad"], *MANY_TABLE)


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
def test_what_the_other_tables_draw_is_as_it_was_before_there_were_many(settings: AugmentationSettings, digest: str) -> None:
    records = [draw_record(settings, generator_for(7, number, "x"), ("a", "b", "c")) for number in range(200)]
    rounded = json.loads(
        json.dumps(records), parse_float=lambda text: float(f"{float(text):.9g}")
    )  # processors differ in last bits
    assert hashlib.sha256(json.dumps(rounded).encode()).hexdigest()[:16] == digest
