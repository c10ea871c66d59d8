"""Edits that are left to the network's device: the same draws as on the CPU, and pixels within a few levels."""

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from augmentations import device_edits
from augmentations.composition import TABLES, Record, edit_image, replay
from augmentations.dataset import EditedImages, UnfinishedImages, load_edited
from augmentations.deferral import PREPARED, Deferred, Group, Place, Unfinished, UnfinishedBatch, begin_edits, join_unfinished
from augmentations.device_edits import finish_edits
from augmentations.edits.registry import Image
from augmentations.randomness import generator_for
from augmentations.settings import AugmentationSettings
from data.cache import CachedImages
from data.loader import resize_square

CPU = torch.device("cpu")
# Largest and largest mean difference of 8-bit levels to the CPU's square of the same size; those of docs/training.md.
TOLERANCE = {
    "scale": (2, 0.5),
    "crop": (1, 0.5),
    "resized_crop": (1, 0.5),
    "color_jitter": (1, 1.0),  # an image of one colour may be off by the one level everywhere
    "blur": (2, 1.0),
    "sharpen": (1, 0.05),
    "pixelization": (1, 0.5),
    "shift_channels": (1, 0.5),
    "pad": (1, 0.5),
    "pad_to_square": (1, 0.5),
    "photo_filter": (1, 0.5),
    "motion_blur": (1, 1.0),
} | dict.fromkeys(
    ("hflip", "vflip", "grayscale", "swap_channels", "opacity", "invert_channels", "pca_lighting", "solarize", "grain"), (0, 0.0)
) | {"shuffle_pixels": (0, 0.0)}  # fmt: skip
ROWS = {function.__name__: row for rows in TABLES.values() for row in rows for function in row.functions}


def make_image(rng: np.random.Generator, height: int, width: int) -> Image:
    """Noise, one colour or soft shapes."""
    kind = rng.integers(3)
    if kind == 0:
        return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    if kind == 1:
        return np.full((height, width, 3), rng.integers(0, 256, 3), np.uint8)
    return np.asarray(cv2.resize(rng.integers(0, 256, (7, 5, 3), np.uint8), (width, height), interpolation=cv2.INTER_CUBIC))


def draw_entry(name: str, rng: np.random.Generator) -> Record:
    function = None
    while function != name:
        entry = ROWS[name].draw_entry(rng, float(rng.random()), ())
        function = entry["function"]
    return [entry]


def finish(images: Sequence[Unfinished]) -> list[Image]:
    batch, rows = join_unfinished([(image, row) for row, image in enumerate(images)])
    assert len(batch) == len(images) and rows.tolist() == list(range(len(images)))
    return [image.permute(1, 2, 0).numpy() for image in finish_edits(batch, CPU)]


def compare(one: Image, other: Image) -> tuple[int, float]:
    difference = np.abs(one.astype(int) - other)
    return int(difference.max()), float(difference.mean())


def test_every_edit_that_is_left_has_a_tolerance() -> None:
    assert set(TOLERANCE) == set(PREPARED) and set(PREPARED) <= set(ROWS)


@pytest.mark.parametrize("name", PREPARED)
@given(seed=st.integers(0, 2**32), side=st.integers(8, 120))
@settings(max_examples=30, deadline=None)
def test_an_edit_is_within_its_tolerance(name: str, seed: int, side: int) -> None:
    rng = np.random.default_rng(seed)
    image, record = make_image(rng, side, side), draw_entry(name, rng)
    largest, mean = compare(finish([begin_edits(image, record, side)])[0], resize_square(replay(image, record), side))
    assert largest <= TOLERANCE[name][0] and mean <= TOLERANCE[name][1], (record, largest, mean)


@given(seed=st.integers(0, 2**32), height=st.integers(8, 200), width=st.integers(8, 200), side=st.integers(8, 150))
@settings(max_examples=60, deadline=None)
def test_the_last_resize_is_within_a_level(seed: int, height: int, width: int, side: int) -> None:
    image = make_image(np.random.default_rng(seed), height, width)
    largest, mean = compare(finish([begin_edits(image, [], side)])[0], resize_square(image, side))
    assert largest <= 1 and mean <= 0.5


@pytest.fixture(scope="module")
def images() -> CachedImages:
    rng = np.random.default_rng(0)
    sizes = [(72, 72), (60, 90), (100, 45), (48, 48)]
    pixels = [make_image(rng, *sizes[row % 4]) for row in range(40)]
    return CachedImages([f"T{row}" for row in range(40)], pixels, {})


@pytest.mark.parametrize("family", ["query", "broad", "multigrain_full"])
def test_the_same_edits_are_drawn_and_batches_are_near(
    images: CachedImages, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = AugmentationSettings.model_validate({"family": family, "intensity": 1.0})
    edited = EditedImages(images, chosen, 48, 3)
    for row in range(40):
        rng = generator_for(3, 0, images.ids[row], 0)
        assert edit_image(images.pixels[row], chosen, rng).record == edited.draw((0, row, 0))[1]
    keys = [[(0, row, 0) for row in range(first, first + 8)] for first in range(0, 40, 8)]
    (own,) = [torch.cat([pixels for pixels, _ in load_edited(edited, False, batch_sampler=keys)])]
    batches = list(load_edited(edited, True, batch_sampler=keys))
    far = torch.cat([finish_edits(pixels, CPU) for pixels, _ in batches]).int() - own.int()
    assert [rows.tolist() for _, rows in batches] == [[row for _, row, _ in batch] for batch in keys]
    assert far.abs().float().mean() < 0.2 and (far.abs() <= 3).float().mean() > 0.99
    monkeypatch.setattr(device_edits, "PIXELS_AT_ONCE", 1)  # each image alone, without padding
    alone = torch.cat([finish_edits(pixels, CPU) for pixels, _ in batches])
    assert (alone.int() - own.int() - far).abs().max() <= 3


def test_only_the_end_of_a_record_is_left(images: CachedImages) -> None:
    record: Record = [
        {"edit": "hflip", "function": "hflip"},
        {"edit": "encoding_quality", "function": "encoding_quality", "quality": 30},
        {"edit": "grayscale", "function": "grayscale"},
        {"edit": "scale", "function": "scale", "factor": 0.5},
    ]
    image = images.pixels[1]
    unfinished = begin_edits(image, record, 32)
    assert np.array_equal(unfinished.pixels, replay(image, record[:2]))
    assert [step.operation for step in unfinished.left] == ["grayscale", "shrink"] and unfinished.last.operation == "stretch"
    small = begin_edits(image[:6], record[2:], 32)  # a side below the least one: enlarged, which is the CPU's
    assert small.left == [] and np.array_equal(small.pixels, replay(image[:6], record[2:]))


def test_an_unedited_image_is_not_copied_or_changed(images: CachedImages) -> None:
    before = images.pixels[0].copy()
    unfinished = begin_edits(images.pixels[0], [{"edit": "pca_lighting", "function": "pca_lighting", "weights": [1, 1, 1]}], 48)
    finish([unfinished])
    assert unfinished.pixels is images.pixels[0] and np.array_equal(images.pixels[0], before)


def test_workers_change_nothing(images: CachedImages) -> None:
    edited = EditedImages(images, AugmentationSettings(intensity=1.0), 48, 3)
    keys = [[(0, row, 0) for row in range(first, first + 8)] for first in range(0, 40, 8)]

    def blocks(workers: int) -> Iterator[bytes]:
        for batch, _ in load_edited(edited, True, batch_sampler=keys, num_workers=workers):
            assert isinstance(batch, UnfinishedBatch)
            yield batch.block.numpy().tobytes()

    assert list(blocks(0)) == list(blocks(2)) and len(UnfinishedImages(edited)) == 40


class PeakMemory(TorchDispatchMode):
    """Counts the bytes of all tensors that operations make inside the block.

    Attributes:
        peak: The most that there were at once.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak, self._held, self._known = 0, 0, set[int]()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for made in tree_leaves(result):
            if isinstance(made, torch.Tensor) and made.untyped_storage()._cdata not in self._known:
                storage = made.untyped_storage()
                self._known.add(storage._cdata)
                self._held += storage.nbytes()
                self.peak = max(self.peak, self._held)
                weakref.finalize(storage, self._forget, storage._cdata, storage.nbytes())
        return result

    def _forget(self, key: int, size: int) -> None:
        self._known.remove(key)
        self._held -= size


@pytest.mark.parametrize("operation", device_edits.TOGETHER)
def test_memory_is_bounded_at_any_shape(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of long and narrow images has weights of many times its pixels."""
    monkeypatch.setattr(device_edits, "PIXELS_AT_ONCE", 2**16)
    resizes = operation in ("shrink", "stretch")
    peaks = []
    for height, width in ((128, 128), (60, 90), (4, 250), (250, 4)):
        places = {(height, width), (max(1, height // 2), max(1, width // 2))} if resizes else {(height, width)}
        for new_height, new_width in places | ({(200, 200)} if operation == "stretch" else set()):
            steps = [Deferred(operation, new_height, new_width)] * 80
            numbers = torch.tensor([[height, width, new_height, new_width, 1, 1.5, 1]] * 80)
            images = [torch.zeros(3, height, width, dtype=torch.uint8)] * 80
            group = Group(operation, list(range(80)), steps, [], Place(0, torch.float32, (80, 7)))
            part = next(device_edits._divide(images, group))
            with PeakMemory() as memory, torch.no_grad():
                device_edits.TOGETHER[operation](device_edits._stack(images[part]), steps[part], numbers[part])
            peaks.append(memory.peak)
    assert 2**16 * 20 < max(peaks) < 2**16 * 73  # the numbers of the images themselves are beside it
