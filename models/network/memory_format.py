"""Memory format of a network's images and weights: the one in which it is faster on its GPU.

Most convolutions are faster in channels_last; the grouped ones of NFNets are not.
"""

import copy
import statistics
import time
from contextlib import nullcontext

import torch
from torch import Tensor

from image_copies.models.device import autocast, choose_algorithms, is_lack_of_memory
from image_copies.models.network.base import ImageDescriptor

MIN_GAIN = 1.15  # factor by which contiguous must be faster to be chosen: no choice may depend on the noise of a measurement
WARM_UP, PASSES = 3, 5  # passes in each format


def choose_memory_format(
    descriptor: ImageDescriptor, device: torch.device, image_size: int, batch: int, precision: str, learns: bool
) -> torch.memory_format:
    """Return torch.contiguous_format if it is MIN_GAIN times as fast on a GPU, otherwise torch.channels_last.

    A copy of the descriptor is measured, with backward passes where it `learns`; nothing where memory does not suffice.
    """
    if device.type != "cuda":
        return torch.channels_last
    try:
        last, contiguous = measure_memory_formats(descriptor, device, image_size, batch, precision, learns)
    except RuntimeError as error:
        if not is_lack_of_memory(error):
            raise
        return torch.channels_last
    finally:
        torch.cuda.empty_cache()  # which the copy has left
    return torch.contiguous_format if contiguous * MIN_GAIN <= last else torch.channels_last


def measure_memory_formats(
    descriptor: ImageDescriptor, device: torch.device, image_size: int, batch: int, precision: str, learns: bool
) -> tuple[float, float]:
    """Return the median seconds of a pass in channels_last and in contiguous; arguments as in `choose_memory_format`."""
    drawn_on = [device] if device.type == "cuda" else []  # random depths of the network
    fastest = choose_algorithms(deterministic=False) if learns else nullcontext()  # as in training, and as in embedding
    with torch.random.fork_rng(devices=drawn_on), fastest:
        trial = copy.deepcopy(descriptor).to(device).train(learns)
        images = torch.randn(batch, 3, image_size, image_size, device=device)
        last, contiguous = (
            _time_passes(trial, images, memory_format, precision, learns)
            for memory_format in (torch.channels_last, torch.contiguous_format)
        )
    return last, contiguous


def _time_passes(
    trial: ImageDescriptor, images: Tensor, memory_format: torch.memory_format, precision: str, learns: bool
) -> float:
    """Return the median seconds of a pass."""
    trial.arrange(memory_format)
    images = images.contiguous(memory_format=memory_format)
    seconds = []
    for _ in range(WARM_UP + PASSES):
        _wait_for(images.device)
        started = time.perf_counter()
        with torch.set_grad_enabled(learns), autocast(images.device, precision):
            vectors = trial(images, raw=True)
        if learns:
            vectors.float().sum().backward()
            trial.zero_grad(set_to_none=True)
        _wait_for(images.device)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[WARM_UP:])


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
