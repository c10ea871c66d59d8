"""The tables of classification, and rotations of a batch."""

import numpy as np
import pytest
import torch

from image_copies.augmentations.composition import draw_record, edit_image, replay
from image_copies.augmentations.randomness import generator_for
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.studies.ideal.domains import rotate_to_all_domains, rotate_to_domains
from image_copies.studies.multigrain.edits import pca_lighting, resized_crop

PICTURE = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)


def test_multigrain_full_has_its_four_parts_and_ranges() -> None:
    full = AugmentationSettings(family="multigrain_full")
    records = [draw_record(full, generator_for(0, 0, str(number)), []) for number in range(2000)]
    assert {tuple(entry["edit"] for entry in record) for record in records} == {
        ("resized_crop", "color_jitter", "pca_lighting"),
        ("resized_crop", "hflip", "color_jitter", "pca_lighting"),
    }
    crops = [record[0] for record in records]
    areas, ratios = [crop["area"] for crop in crops], [crop["ratio"] for crop in crops]
    assert 0.08 <= min(areas) < 0.12 and 0.97 < max(areas) <= 1
    assert 0.75 <= min(ratios) < 0.77 and 1.3 < max(ratios) <= 4 / 3
    jitter = [entry["contrast"] for record in records for entry in record if entry["edit"] == "color_jitter"]
    assert min(jitter) >= 0.7 and max(jitter) <= 1.3
    weights = np.array([record[-1]["weights"] for record in records])
    assert abs(weights.std() - 0.1) < 0.01


@pytest.mark.parametrize("width", [256, 344])
def test_ideal_crops_the_same_share_of_each_side_and_flips(width: int) -> None:
    """As the paper, which squeezes a picture of any aspect to 256 × 256, of which 224 × 224 are shown."""
    settings = AugmentationSettings(family="crop_and_flip")
    picture = np.random.default_rng(1).integers(0, 256, (256, width, 3), dtype=np.uint8)
    results = [edit_image(picture, settings, generator_for(0, 0, str(number))) for number in range(400)]
    assert {result.image.shape for result in results} == {(224, width * 224 // 256, 3)}
    assert {tuple(entry["edit"] for entry in result.record) for result in results} == {("crop",), ("crop", "hflip")}
    corners = np.array([[result.record[0]["x1"], result.record[0]["y1"]] for result in results])
    assert corners.min() < 0.01 and corners.max() > 0.115 and abs(np.corrcoef(corners.T)[0, 1]) < 0.2


def test_auto_augment_replays_and_does_not_touch_torchs_generator() -> None:
    settings = AugmentationSettings(family="autoaugment")
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    results = [edit_image(PICTURE, settings, generator_for(0, 0, str(number))) for number in range(20)]
    assert torch.equal(torch.rand(3), expected)
    for result in results:
        assert (replay(PICTURE, result.record) == result.image).all()
    assert len({result.image.tobytes() for result in results}) == 20


def test_domains_are_exact_rotations_in_the_format_of_the_batch() -> None:
    batch = torch.rand(2, 3, 8, 8)
    everything = rotate_to_all_domains(batch)
    assert everything.shape == (8, 3, 8, 8)
    assert torch.equal(everything[:2], batch) and torch.equal(everything[4:6], batch.flip(2, 3))
    square = PICTURE[:60, :60]
    as_tensor = torch.from_numpy(square.copy()).permute(2, 0, 1)[None]
    assert (rotate_to_all_domains(as_tensor)[1].permute(1, 2, 0).numpy() == np.rot90(square)).all()
    images = torch.arange(5 * 3 * 4 * 4.0).reshape(5, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    domains = torch.tensor([2, 0, 3, 1, 3])
    turned = rotate_to_domains(images, domains)
    for image, result, domain in zip(images, turned, domains.tolist(), strict=True):
        assert torch.equal(result, torch.rot90(image, domain, dims=(1, 2)))
    assert turned.is_contiguous(memory_format=torch.channels_last)


def test_crops_and_lighting_of_classification_are_as_their_numbers_say() -> None:
    part = resized_crop(PICTURE, area=0.25, ratio=1.0, x=1.0, y=0.0)
    assert part.shape[:2] == (35, 35)
    assert (part == PICTURE[:35, -35:]).all()
    grey = np.full((4, 4, 3), 128, np.uint8)
    moved = pca_lighting(grey, [0.3, 0.0, 0.0]).astype(int) - 128
    assert (moved == moved[0, 0]).all() and (moved[0, 0] < 0).all()
    assert (pca_lighting(PICTURE, [0.0, 0.0, 0.0]) == PICTURE).all()
