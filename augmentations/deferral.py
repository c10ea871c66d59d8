"""Edits that are left to the network's device: which ones, with what numbers, and how a batch of them gets there.

The edits at the end of a record, after the last one that only the CPU does, need no other image and no text: they become
operations of `augmentations.device_edits`, with every draw made here. A batch travels as one block of bytes, in one copy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from augmentations.composition import OverlaySource, Record, replay
from augmentations.edits.colour import bound_shift
from augmentations.edits.geometry import MIN_SIDE_PIXELS, bound_crop, bound_resized_crop
from augmentations.edits.quality import draw_grain, draw_motion, draw_shuffle
from augmentations.edits.registry import FUNCTIONS, TUNED_SIDE, Image

ALIGNMENT = 16  # bytes, of every array in a block
LEAST_BLUR = 0.1  # pixels; `quality.blur` copies the image below
Prepare = Callable[..., list["Deferred"] | None]  # (height, width, the edit's parameters) → operations; None: not at this size


@dataclass(frozen=True)
class Deferred:
    """An operation that the device is to do with one image.

    Attributes:
        operation: Its name in `augmentations.device_edits`.
        height: Height of the result in pixels.
        width: Width of the result in pixels.
        numbers: What it is done with, on the device.
        places: What the host must know, because shapes or the operations themselves depend on it.
        arrays: Larger parts, on the device.
    """

    operation: str
    height: int
    width: int
    numbers: tuple[float, ...] = ()
    places: tuple[float, ...] = ()
    arrays: tuple[NDArray[Any], ...] = ()


@dataclass(frozen=True)
class Unfinished:
    """An image that the CPU has edited as far as it must.

    Attributes:
        pixels: RGB uint8 [h, w, 3].
        left: What the device is to do with it, in order.
        last: Its resize to a square, after that.
    """

    pixels: Image
    left: list[Deferred]
    last: Deferred


@dataclass(frozen=True)
class Place:
    """Where an array lies in a block of bytes.

    Attributes:
        start: Its first byte.
        dtype: Its type in torch.
        shape: Its shape.
    """

    start: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    def read(self, block: Tensor) -> Tensor:
        """Return the array as a view of the block, wherever that is."""
        count = self.dtype.itemsize
        for length in self.shape:
            count *= length
        return block[self.start : self.start + count].view(self.dtype).view(self.shape)


@dataclass(frozen=True)
class Group:
    """One operation with several images of a batch.

    Attributes:
        operation: Its name.
        members: Numbers of the images in the batch.
        steps: What is done with each, without its arrays.
        arrays: Of each, where its arrays lie.
        numbers: float32 [members, k]: height and width before and after, then the operation's own numbers.
    """

    operation: str
    members: list[int]
    steps: list[Deferred]
    arrays: list[list[Place]]
    numbers: Place


@dataclass
class UnfinishedBatch:
    """A batch of unfinished images in one block of bytes, which `device_edits.finish_edits` makes a tensor of.

    Attributes:
        block: uint8 [bytes].
        size: Side of the finished squares in pixels.
        images: Where each image's pixels [h, w, 3] lie.
        groups: What is to be done, in order.
    """

    block: Tensor
    size: int
    images: list[Place]
    groups: list[Group]

    def __len__(self) -> int:
        return len(self.images)

    def pin_memory(self) -> "UnfinishedBatch":
        """Return the batch in pinned memory; torch's loader asks for it."""
        return replace(self, block=self.block.pin_memory())


def begin_edits(image: Image, record: Record, size: int, other_images: OverlaySource | None = None) -> Unfinished:
    """Apply a record to an image as far as only the CPU can; the rest, with the resize to a square, is left to the device.

    Args:
        image: RGB uint8 [h, w, 3].
        record: The edits, from `composition.draw_record`.
        size: Side of the finished square in pixels.
        other_images: Images to paste, as for `composition.replay`.

    Raises:
        ImageError: An image to paste cannot be read.
    """
    first = len(record)
    while first and record[first - 1]["function"] in PREPARED:
        first -= 1
    pixels = replay(image, record[:first], other_images) if first else image
    (height, width), left = pixels.shape[:2], list[Deferred]()
    for number, entry in enumerate(record[first:], first):
        parameters = {key: value for key, value in entry.items() if key not in ("edit", "function")}
        steps = PREPARED[entry["function"]](height, width, **parameters)
        if steps is None:  # at this size only the CPU's function is right
            pixels, left = replay(pixels, record[first : number + 1]), []
            first = number + 1
            height, width = pixels.shape[:2]
            continue
        left += steps
        if steps:
            height, width = steps[-1].height, steps[-1].width
    shrinks = min(height, width) > size  # as data.loader.resize_square chooses
    return Unfinished(pixels, left, Deferred("shrink" if shrinks else "stretch", size, size))


def join_unfinished(items: Sequence[tuple[Unfinished, int]]) -> tuple[UnfinishedBatch, Tensor]:
    """Join images and their rows into a batch, for torch's loader; what is alike in several images becomes one group."""
    unfinished, writer, groups = [image for image, _ in items], _BlockWriter(), list[Group]()
    images = [writer.add(image.pixels) for image in unfinished]
    sizes = [place.shape[:2] for place in images]
    rounds = [
        {member: image.left[number] for member, image in enumerate(unfinished) if number < len(image.left)}
        for number in range(max(len(image.left) for image in unfinished))
    ]
    for steps in [*rounds, {member: image.last for member, image in enumerate(unfinished)}]:
        for operation in dict.fromkeys(step.operation for step in steps.values()):
            members = [member for member, step in steps.items() if step.operation == operation]
            chosen = [steps[member] for member in members]
            numbers = [
                (*sizes[member], step.height, step.width, *step.numbers) for member, step in zip(members, chosen, strict=True)
            ]
            arrays = [[writer.add(array) for array in step.arrays] for step in chosen]
            plain = [replace(step, arrays=()) for step in chosen]
            groups.append(Group(operation, members, plain, arrays, writer.add(np.array(numbers, np.float32))))
        for member, step in steps.items():
            sizes[member] = (step.height, step.width)
    rows = torch.tensor([row for _, row in items])
    return UnfinishedBatch(writer.finish(), unfinished[0].last.height, images, groups), rows


@dataclass
class _BlockWriter:
    """Puts arrays into one block of bytes.

    Attributes:
        arrays: What was added.
        length: Bytes so far.
    """

    arrays: list[tuple[int, NDArray[Any]]] = field(default_factory=list)
    length: int = 0

    def add(self, array: NDArray[Any]) -> Place:
        start = self.length
        self.arrays.append((start, array))
        self.length = -(-(start + array.nbytes) // ALIGNMENT) * ALIGNMENT
        return Place(start, torch.from_numpy(np.empty(0, array.dtype)).dtype, array.shape)

    def finish(self) -> Tensor:
        block = np.zeros(self.length, np.uint8)
        for start, array in self.arrays:
            block[start : start + array.nbytes].view(array.dtype).reshape(array.shape)[...] = array
        return torch.from_numpy(block)


def _prepare_scale(height: int, width: int, factor: float) -> list[Deferred] | None:
    rows, columns = (max(MIN_SIDE_PIXELS, round(side * factor)) for side in (height, width))
    return [Deferred("shrink", rows, columns)] if rows <= height and columns <= width else None


def _prepare_crop(height: int, width: int, **corners: float) -> list[Deferred]:
    return _keep(bound_crop(height, width, **corners))


def _prepare_resized_crop(height: int, width: int, **placed: float) -> list[Deferred]:
    return _keep(bound_resized_crop(height, width, **placed))


def _keep(bounds: tuple[int, int, int, int]) -> list[Deferred]:
    top, bottom, left, right = bounds
    return [Deferred("crop", bottom - top, right - left, places=bounds)]


def _prepare_pad(height: int, width: int, width_share: float, height_share: float, colour: list[int]) -> list[Deferred]:
    x, y = round(width * width_share), round(height * height_share)
    return [Deferred("pad", height + 2 * y, width + 2 * x, places=(y, x, *colour))]


def _prepare_pad_to_square(height: int, width: int, colour: list[int]) -> list[Deferred]:
    x, y = max(0, height - width), max(0, width - height)
    return [Deferred("pad", height + y, width + x, places=(y // 2, x // 2, *colour))]


def _prepare_hflip(height: int, width: int) -> list[Deferred]:
    return [Deferred("hflip", height, width)]


def _prepare_vflip(height: int, width: int) -> list[Deferred]:
    return [Deferred("vflip", height, width)]


def _prepare_color_jitter(height: int, width: int, brightness: float, contrast: float, saturation: float) -> list[Deferred]:
    return [Deferred("jitter", height, width, (brightness, contrast, saturation))]


def _prepare_grayscale(height: int, width: int) -> list[Deferred]:
    return [Deferred("grayscale", height, width)]


def _prepare_swap(height: int, width: int, order: list[int]) -> list[Deferred]:
    return [Deferred("swap", height, width, places=tuple(order))]


def _prepare_shift(height: int, width: int, down: float, right: float) -> list[Deferred]:
    i, j, rows, columns = bound_shift(height, width, down, right)
    return [Deferred("shift", rows, columns, places=(i, j))] if min(rows, columns) >= MIN_SIDE_PIXELS else []


def _prepare_filter(height: int, width: int, vignette: float, **curve: Any) -> list[Deferred]:
    toned = _look_up("photo_filter")(height, width, vignette=0.0, **curve) or []
    return [*toned, Deferred("shade", height, width, (vignette,))] if vignette > 0 else toned


def _look_up(function: str) -> Prepare:
    """Prepare an edit whose results depend on each channel's value alone: the edit itself makes the table of them."""

    def prepare(height: int, width: int, **parameters: Any) -> list[Deferred]:
        values = np.repeat(np.arange(256, dtype=np.uint8)[:, None, None], 3, axis=2)  # an image of one column
        table = np.ascontiguousarray(FUNCTIONS[function](values, **parameters)[:, 0].T)
        return [Deferred("look_up", height, width, arrays=(table,))]

    return prepare


def _prepare_blur(height: int, width: int, radius: float) -> list[Deferred] | None:
    sigma = radius * min(height, width) / TUNED_SIDE
    if sigma <= LEAST_BLUR:
        return []
    reach = (round(6 * sigma + 1) | 1) // 2  # OpenCV's for bytes
    return [Deferred("blur", height, width, (sigma, reach))] if reach < min(height, width) else None


def _prepare_sharpen(height: int, width: int, factor: float) -> list[Deferred] | None:
    return [Deferred("sharpen", height, width, (factor,))] if min(height, width) > 1 else None


def _prepare_pixelization(height: int, width: int, ratio: float) -> list[Deferred]:
    small = Deferred("shrink", max(1, round(height * ratio)), max(1, round(width * ratio)))
    return [small, Deferred("repeat", height, width, arrays=_find_nearest((small.height, small.width), (height, width)))]


def _prepare_shuffle(height: int, width: int, share: float, seed: int) -> list[Deferred]:
    places, sources = draw_shuffle(height * width, share, seed)
    return [Deferred("shuffle", height, width, arrays=(places.astype(np.int32), sources.astype(np.int32)))]


def _prepare_motion_blur(height: int, width: int, length: float, degrees: float) -> list[Deferred] | None:
    kernel = draw_motion(min(height, width), length, degrees)
    rows, columns = np.nonzero(kernel)
    taps = np.stack([rows, columns, kernel[rows, columns]], axis=1).ravel().tolist()
    middle = len(kernel) // 2
    return [Deferred("smear", height, width, places=(middle, *taps))] if middle < min(height, width) else None


def _prepare_grain(height: int, width: int, deviation: float, size: float, seed: int) -> list[Deferred]:
    noise = draw_grain(height, width, deviation, size, seed)
    return [Deferred("grain", height, width, arrays=(noise, *_find_nearest(noise.shape, (height, width))))]


def _find_nearest(small: tuple[int, ...], large: tuple[int, int]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the row and the column that OpenCV repeats at each row and column of the larger image; sizes (height, width)."""
    found = [
        cv2.resize(np.arange(before, dtype=np.float32)[:, None], (1, after), interpolation=cv2.INTER_NEAREST)[:, 0]
        for before, after in zip(small, large, strict=True)
    ]
    rows, columns = (places.astype(np.int32) for places in found)
    return rows, columns


PREPARED: dict[str, Prepare] = {
    "scale": _prepare_scale,
    "crop": _prepare_crop,
    "resized_crop": _prepare_resized_crop,
    "pad": _prepare_pad,
    "pad_to_square": _prepare_pad_to_square,
    "hflip": _prepare_hflip,
    "vflip": _prepare_vflip,
    "color_jitter": _prepare_color_jitter,
    "grayscale": _prepare_grayscale,
    "swap_channels": _prepare_swap,
    "shift_channels": _prepare_shift,
    "photo_filter": _prepare_filter,
    **{name: _look_up(name) for name in ("opacity", "invert_channels", "pca_lighting", "solarize")},
    "blur": _prepare_blur,
    "sharpen": _prepare_sharpen,
    "pixelization": _prepare_pixelization,
    "shuffle_pixels": _prepare_shuffle,
    "motion_blur": _prepare_motion_blur,
    "grain": _prepare_grain,
}
