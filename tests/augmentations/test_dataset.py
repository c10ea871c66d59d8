"""Pixels depend on (seed, epoch, image id) and on nothing else."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from image_copies.augmentations.composition import list_edits
from image_copies.augmentations.dataset import CachedOverlays, EditedImages, normalize_pixels, overlay_material
from image_copies.augmentations.query_set import make_query_set
from image_copies.augmentations.sampling import Stream, epoch_batches
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.cache import CachedImages, cache_images
from image_copies.data.errors import UserError
from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import ImageSet, find_images
from tests.pictures import write_images

SETTINGS = AugmentationSettings(intensity=1.0, extra=True)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    return write_images(tmp_path_factory.mktemp("pictures"), 24)


@pytest.fixture(scope="module")
def squares(images: ImageSet, tmp_path_factory: pytest.TempPathFactory) -> CachedImages:
    return cache_images(images, 48, tmp_path_factory.mktemp("cache"))


def all_pixels(dataset: EditedImages, workers: int, seed: int = 0) -> dict[tuple[int, int, int], bytes]:
    batches = epoch_batches(range(20), 8, Stream(range(2), seed))
    keys = [key for batch in batches for key in batch]
    loaded = [pixels for batch, _ in DataLoader(dataset, batch_sampler=batches, num_workers=workers) for pixels in batch]
    return {key: pixels.numpy().tobytes() for key, pixels in zip(keys, loaded, strict=True)}


def test_workers_and_order_change_nothing(squares: CachedImages) -> None:
    dataset = EditedImages(squares, SETTINGS, 32, 5, overlay_material(squares, squares, 20))
    alone, shared, reordered = all_pixels(dataset, 0), all_pixels(dataset, 3), all_pixels(dataset, 2, seed=9)
    assert alone == shared
    assert alone == {key: reordered[key] for key in alone}
    assert len(set(alone.values())) > 35  # two epochs of twenty images: edits differ
    other_seed = EditedImages(squares, SETTINGS, 32, 6, overlay_material(squares, squares, 20))
    assert all_pixels(other_seed, 0) != alone


def test_overlays_are_never_classes(squares: CachedImages, images: ImageSet) -> None:
    few = CachedImages(images.ids[20:], [squares.pixels[row] for row in range(20, 24)], {images.ids[23]: "is empty"})
    classes = CachedImages(images.ids[:20], squares.pixels, {images.ids[15]: "is empty"})
    material = overlay_material(classes, few, 12)
    assert set(material.ids) == set(images.ids[12:23]) - {images.ids[15]}
    assert (material(images.ids[13]) == squares.pixels[13]).all()
    assert set(overlay_material(classes, few, len(classes)).ids) == set(images.ids[20:23])


def test_images_are_edited_and_pasted_in_their_own_aspect(tmp_path: Path) -> None:
    """Edits of squashed squares could not pad to a square."""
    (tmp_path / "wide").mkdir()
    Image.new("RGB", (120, 60), (1, 2, 3)).save(tmp_path / "wide" / "a.png")
    wide = find_images(tmp_path / "wide")
    only = {row.name: float(row.name == "pad") for row in list_edits(AugmentationSettings())}  # on all sides, or to a square
    settings = AugmentationSettings(intensity=1.0, probabilities=only)
    cached = cache_images(wide, 48, tmp_path / "cache")
    edited = EditedImages(cached, settings, 48, 0, CachedOverlays((cached, [0])))
    images = [edited[epoch, 0, 0][0] for epoch in range(12)]
    shares = [float((image == torch.tensor([1, 2, 3])[:, None, None]).all(0).float().mean()) for image in images]
    assert min(shares) < 0.52 and max(shares) > 0.6  # of a square at least .64 is left: a tenth on each side
    Image.new("RGB", (60, 120)).save(tmp_path / "wide" / "a.png")
    cached = cache_images(find_images(tmp_path / "wide"), 48, tmp_path / "cache")
    height, width, _ = CachedOverlays((cached, [0]))("a").shape
    assert height == pytest.approx(2 * width, abs=2) and height * width <= 48**2


def test_normalized_pixels_are_the_networks_input() -> None:
    pixels = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    expected = (pixels.double() / 255 - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    torch.testing.assert_close(normalize_pixels(pixels, mean, std).double(), expected, atol=1e-6, rtol=0)


def test_query_set_is_complete_and_reproducible(images: ImageSet, tmp_path: Path) -> None:
    references, distractors = images.select(images.ids[:5]), images.select(images.ids[5:9])
    for name in ("one", "two"):
        make_query_set(references, distractors, distractors, SETTINGS, 3, 10, 6, tmp_path / name)
    truth = read_ground_truth(tmp_path / "one" / "public_ground_truth.csv")
    assert truth.query_ids == [f"Q{number:05d}" for number in range(10)] and len(truth.pairs) == 6
    assert {reference for _, reference in truth.pairs} == set(references.ids)
    names = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(names) == 13
    for path in names:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes()
    edits = (tmp_path / "one" / "query_edits.csv").read_text().splitlines()[1:]
    assert all(line.split(",")[1] for line in edits)  # every query was edited


def test_repetitions_and_images_have_their_own_edits(squares: CachedImages) -> None:
    dataset = EditedImages(squares, SETTINGS, 32, 5, overlay_material(squares, squares, 20))
    versions = {dataset[(0, 3, repetition)][0].numpy().tobytes() for repetition in range(4)}
    assert len(versions) >= 3
    assert torch.equal(dataset[(0, 3, 2)][0], dataset[(0, 3, 2)][0])
    alike = CachedImages(["a", "b", "c", "d"], [squares.pixels[0]] * 4, {})
    assert len({EditedImages(alike, SETTINGS, 32, 5)[(0, row, 0)][0].numpy().tobytes() for row in range(4)}) >= 3


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_processes_share_the_batches_of_one(ranks: int) -> None:
    alone = list(epoch_batches(range(30), 8, Stream(range(2), 0)))
    parts = [list(epoch_batches(range(30), 8, Stream(range(2), 0, rank, ranks))) for rank in range(ranks)]
    together = [[key for batch in batches for key in batch] for batches in zip(*parts, strict=True)]
    whole = epoch_batches(range(30), 8, Stream(range(2), 0, 0, ranks)).per_epoch
    assert together == [batch for number, batch in enumerate(alone) if number % 4 < whole]
    assert whole == (4 if ranks < 4 else 3)  # six images are left: fewer than two for each of four


@pytest.mark.parametrize(("images", "batch_size", "ranks"), [(20, 3, 2), (3, 8, 2), (20, 7, 4)])
def test_batches_too_small_for_the_processes_are_refused(images: int, batch_size: int, ranks: int) -> None:
    with pytest.raises(UserError, match=rf"images \(of {images} in the stage\) has fewer than 2 .* raise batch_size"):
        epoch_batches(range(images), batch_size, Stream(range(1), 0, 0, ranks))
