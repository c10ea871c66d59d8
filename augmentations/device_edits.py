"""The rest of the edits, on the network's device: what `augmentations.deferral` has left, in torch.

Every operation ends in bytes, as the CPU's edits do, and none makes the host wait for the device: sizes are known on the host,
and numbers arrive with the pixels. `docs/training.md` says how far pixels are from the CPU's.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from augmentations.deferral import Deferred, Group, UnfinishedBatch

PIXELS_AT_ONCE = 2**23  # of images padded to one size, and numbers of their weights: 72 bytes each at most (sharpen), 604 MB
LUMA = (9798, 19235, 3735)  # OpenCV's weights of red, green and blue in 2 ** 15


@torch.no_grad()
def finish_edits(batch: Tensor | UnfinishedBatch, device: torch.device) -> Tensor:
    """Return a batch's pixels on the device, uint8 [n, 3, s, s]; what the CPU has left is done there.

    Args:
        batch: Finished pixels uint8 [n, 3, s, s], or unfinished ones.
        device: The network's device.
    """
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    block = batch.block.to(device, non_blocking=True)
    images = [place.read(block).permute(2, 0, 1) for place in batch.images]
    finished = torch.empty(len(images), 3, batch.size, batch.size, dtype=torch.uint8, device=device)
    for group in batch.groups:
        if group.operation in SINGLE:
            for member, step, places in zip(group.members, group.steps, group.arrays, strict=True):
                images[member] = SINGLE[group.operation](images[member], step, [place.read(block) for place in places])
        else:
            numbers = group.numbers.read(block)
            for part in _divide(images, group):
                chosen = group.members[part]
                edited = TOGETHER[group.operation](
                    _stack([images[member] for member in chosen]), group.steps[part], numbers[part]
                )
                for place, member in enumerate(chosen):
                    step = group.steps[part][place]
                    images[member] = edited[place, :, : step.height, : step.width]
    return torch.stack(images, out=finished)


def _divide(images: list[Tensor], group: Group) -> Iterator[slice]:
    """Divide a group so that its images, padded to one size before and after, have PIXELS_AT_ONCE at most.

    So have the weights of resizing and blurring, which are more than the pixels of long and narrow images: side × side. One image
    that has more is a part by itself.
    """
    shapes = [images[member].shape for member in group.members]
    height, width = max(shape[1] for shape in shapes), max(shape[2] for shape in shapes)
    new_height, new_width = max(step.height for step in group.steps), max(step.width for step in group.steps)
    largest = max(height * width, new_height * new_width, height * new_height, width * new_width)
    count = max(1, PIXELS_AT_ONCE // largest)
    for first in range(0, len(shapes), count):
        yield slice(first, first + count)


def _stack(images: list[Tensor]) -> Tensor:
    """Pad images with zeros at their right and lower edges: float32 [n, 3, h, w]."""
    height, width = max(image.shape[1] for image in images), max(image.shape[2] for image in images)
    stacked = torch.zeros(len(images), 3, height, width, device=images[0].device)
    for place, image in zip(stacked, images, strict=True):
        place[:, : image.shape[1], : image.shape[2]] = image
    return stacked


def _as_bytes(values: Tensor) -> Tensor:
    return values.round_().clamp_(0, 255).byte()


# Operations on several images: float32 [n, 3, h, w] padded with zeros, what is done with each, its numbers [n, k] on the device.


def _shrink(stacked: Tensor, steps: list[Deferred], numbers: Tensor) -> Tensor:
    """Resize to smaller sizes by the mean of the area that each pixel covers."""
    return _as_bytes(_resize(stacked, steps, numbers, weigh_areas))


def _stretch(stacked: Tensor, steps: list[Deferred], numbers: Tensor) -> Tensor:
    """Resize to any size by linear interpolation."""
    return _as_bytes(_resize(stacked, steps, numbers, weigh_neighbours))


def _resize(
    stacked: Tensor, steps: list[Deferred], numbers: Tensor, weigh: Callable[[Tensor, Tensor, int, int], Tensor]
) -> Tensor:
    height, width, new_height, new_width = numbers[:, :4, None, None].unbind(1)
    rows = weigh(height, new_height, stacked.shape[2], max(step.height for step in steps))
    columns = weigh(width, new_width, stacked.shape[3], max(step.width for step in steps))
    return _map_separably(stacked, rows, columns)


def weigh_areas(before: Tensor, after: Tensor, length: int, places: int) -> Tensor:
    """Weights [n, places, length] of the means over areas, for images with `before` of the length and `after` of the places."""
    place, source = _count(places, before)[:, None], _count(length, before)
    scale = before / after
    return (torch.minimum(source + 1, (place + 1) * scale) - torch.maximum(source, place * scale)).clamp_(min=0) / scale


def weigh_neighbours(before: Tensor, after: Tensor, length: int, places: int) -> Tensor:
    """Weights [n, places, length] of linear interpolation, as for `weigh_areas`."""
    place, source = _count(places, before)[:, None], _count(length, before)
    middle = ((place + 0.5) * (before / after) - 0.5).clamp_(min=0).minimum(before - 1)
    return (1 - (middle - source).abs()).clamp_(min=0)


def _count(length: int, like: Tensor) -> Tensor:
    return torch.arange(length, dtype=torch.float32, device=like.device)


def _map_separably(stacked: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Map the rows of images [n, 3, h, w] by weights [n, h2, h], and their columns by weights [n, w2, w]: [n, 3, h2, w2].

    Products rather than convolutions, which a GPU may round to fewer bits.
    """
    n, _, height, width = stacked.shape
    upright = torch.bmm(rows, stacked.transpose(1, 2).reshape(n, height, 3 * width))
    mapped = torch.bmm(upright.view(n, -1, width), columns.mT)
    return mapped.view(n, rows.shape[1], 3, columns.shape[1]).transpose(1, 2)


def _blur(stacked: Tensor, steps: list[Deferred], numbers: Tensor) -> Tensor:
    """Gaussian blur; beyond its edges, the image's mirror image without the edge itself."""
    sigma, reach = numbers[:, 4:6, None, None].unbind(1)

    def bell(distance: Tensor) -> Tensor:
        return torch.exp(distance.square() / (-2 * sigma.square())) * (distance.abs() <= reach)

    return _as_bytes(_mirror_and_map(stacked, numbers, bell))


def _sharpen(stacked: Tensor, steps: list[Deferred], numbers: Tensor) -> Tensor:
    """Extrapolate from a smoothed copy (`quality.SMOOTHING_KERNEL`), which is rounded to bytes."""
    means = _mirror_and_map(stacked, numbers, lambda distance: (distance.abs() <= 1).float())
    smooth = ((9 * means).round_().add_(stacked, alpha=4) / 13).round_()
    factor = numbers[:, 4, None, None, None]
    return _as_bytes(stacked * factor + smooth * (1 - factor))


def _mirror_and_map(stacked: Tensor, numbers: Tensor, profile: Callable[[Tensor], Tensor]) -> Tensor:
    """Take means weighted by a profile of the distance in pixels, along both axes."""
    maps = []
    for axis in (0, 1):
        length, last = stacked.shape[2 + axis], numbers[:, axis, None, None] - 1
        place, source = _count(length, numbers)[:, None], _count(length, numbers)
        weights = profile(source - place) + profile(source + place) * (source > 0)
        weights = (weights + profile(2 * last - source - place) * (source < last)) * (source <= last)
        maps.append(weights / weights.sum(dim=2, keepdim=True).clamp_(min=1e-6))
    return _map_separably(stacked, *maps)


def _jitter(stacked: Tensor, steps: list[Deferred], numbers: Tensor) -> Tensor:
    """Change brightness, contrast and saturation, as `colour.color_jitter`."""
    brightness, contrast, saturation = numbers[:, 4:7, None, None].unbind(1)
    pixels = numbers[:, 0] * numbers[:, 1]
    mean = _luminosity(stacked).sum(dim=(1, 2)) / pixels  # of integers: exact on the way; the padding adds nothing
    red, green, blue = stacked.unbind(1)
    grey = 0.299 * red + 0.587 * green + 0.114 * blue
    shift = mean[:, None, None] * brightness * (1 - contrast)
    mixed = saturation[:, None] * stacked + ((1 - saturation) * grey)[:, None]
    return _as_bytes(mixed * (brightness * contrast)[:, None] + shift[:, None])


def _shade(stacked: Tensor, steps: list[Deferred], numbers: Tensor) -> Tensor:
    """Darken the corners, as `colour.photo_filter`; cut off, not rounded."""
    height, width, vignette = (numbers[:, column, None, None] for column in (0, 1, 4))
    y = _count(stacked.shape[2], numbers)[:, None] * 2 / (height - 1).clamp(min=1) - 1
    x = _count(stacked.shape[3], numbers) * 2 / (width - 1).clamp(min=1) - 1
    shade = 1 - vignette * ((x * x + y * y) / 2).clamp_(0, 1)
    return (stacked * shade[:, None]).byte()


def _grayscale(stacked: Tensor, steps: list[Deferred], numbers: Tensor) -> Tensor:
    """Replace all three channels by the luminosity."""
    return _luminosity(stacked).byte()[:, None].expand(-1, 3, -1, -1)


def _luminosity(stacked: Tensor) -> Tensor:
    """OpenCV's grey int32 [n, h, w] of whole numbers 0…255."""
    red, green, blue = stacked.int().unbind(1)
    return (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue + (1 << 14)) >> 15


# Operations on one image: bytes [3, h, w], what is done with it, its arrays on the device.


def _crop(image: Tensor, step: Deferred, arrays: list[Tensor]) -> Tensor:
    top, bottom, left, right = map(int, step.places)
    return image[:, top:bottom, left:right]


def _pad(image: Tensor, step: Deferred, arrays: list[Tensor]) -> Tensor:
    """Put the image on a canvas of one colour."""
    top, left, *colour = map(int, step.places)
    canvas = image.new_empty(3, step.height, step.width)
    for channel, value in zip(canvas, colour, strict=True):
        channel.fill_(value)
    canvas[:, top : top + image.shape[1], left : left + image.shape[2]] = image
    return canvas


def _hflip(image: Tensor, step: Deferred, arrays: list[Tensor]) -> Tensor:
    return image.flip(2)


def _vflip(image: Tensor, step: Deferred, arrays: list[Tensor]) -> Tensor:
    return image.flip(1)


def _swap(image: Tensor, step: Deferred, arrays: list[Tensor]) -> Tensor:
    return torch.stack([image[int(channel)] for channel in step.places])


def _shift(image: Tensor, step: Deferred, arrays: list[Tensor]) -> Tensor:
    """Shift red one way and blue the other, and cut off the border."""
    i, j = map(int, step.places)
    parts = [
        image[channel, abs(i) - y : abs(i) - y + step.height, abs(j) - x : abs(j) - x + step.width]
        for channel, (y, x) in enumerate([(i, j), (0, 0), (-i, -j)])
    ]
    return torch.stack(parts)


def _smear(image: Tensor, step: Deferred, arrays: list[Tensor]) -> Tensor:
    """Take the mean along a line: the kernel's middle, then row, column and weight of each pixel that it takes."""
    middle, taps = int(step.places[0]), step.places[1:]
    around = functional.pad(image.float(), (middle, middle, middle, middle), mode="reflect")
    mean = torch.zeros(3, step.height, step.width, device=image.device)
    for row, column, weight in zip(taps[::3], taps[1::3], taps[2::3], strict=True):
        top, left = int(row), int(column)
        mean.add_(around[:, top : top + step.height, left : left + step.width], alpha=weight)
    return _as_bytes(mean)


def _look_up(image: Tensor, step: Deferred, arrays: list[Tensor]) -> Tensor:
    """Replace values by those of a table [3, 256]."""
    return torch.gather(arrays[0], 1, image.reshape(3, -1).long()).view(3, step.height, step.width)


def _repeat(image: Tensor, step: Deferred, arrays: list[Tensor]) -> Tensor:
    """Repeat the rows and columns with the numbers of `arrays` [h] and [w]."""
    rows, columns = arrays
    return image.index_select(1, rows).index_select(2, columns)


def _shuffle(image: Tensor, step: Deferred, arrays: list[Tensor]) -> Tensor:
    """Replace the pixels at the first array's places by those at the second one's."""
    places, sources = (array.long() for array in arrays)
    flat = image.reshape(3, -1)
    return flat.index_copy(1, places, flat.index_select(1, sources)).view(3, step.height, step.width)


def _grain(image: Tensor, step: Deferred, arrays: list[Tensor]) -> Tensor:
    """Add noise [rows, columns] whose rows and columns are repeated as the other arrays say; cut off, not rounded."""
    noise, rows, columns = arrays
    return (image + noise.index_select(0, rows).index_select(1, columns)).clamp_(0, 255).byte()


TOGETHER: dict[str, Callable[[Tensor, list[Deferred], Tensor], Tensor]] = {
    "shrink": _shrink,
    "stretch": _stretch,
    "jitter": _jitter,
    "grayscale": _grayscale,
    "shade": _shade,
    "blur": _blur,
    "sharpen": _sharpen,
}
SINGLE: dict[str, Callable[[Tensor, Deferred, list[Tensor]], Tensor]] = {
    "crop": _crop,
    "pad": _pad,
    "hflip": _hflip,
    "vflip": _vflip,
    "swap": _swap,
    "shift": _shift,
    "smear": _smear,
    "look_up": _look_up,
    "repeat": _repeat,
    "shuffle": _shuffle,
    "grain": _grain,
}
