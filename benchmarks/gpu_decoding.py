"""How fast JPEG files become squares: decoded by the loader's processes at reduced scales, or by the GPU (`decode_on`)."""

import tempfile
import time
from functools import partial
from pathlib import Path

import cv2
import torch
from torch.utils.data import DataLoader

from image_copies.data.encoded import EncodedImages, join_encoded
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.preprocessing import PreprocessedImages
from image_copies.data.procedural.sample import write_pictures
from image_copies.models.inference.device_decoding import DeviceDecoder, check_decoder, find_decoder

PHOTO = (1024, 768)  # pixels


def write_photos(folder: Path, count: int) -> ImageSet:
    """Write procedural pictures as JPEG files of the size of PHOTO, at most 200, and name them `count` times."""
    for path in list(write_pictures(folder, "T", min(200, count), 0)):
        cv2.imwrite(str(path), cv2.resize(cv2.imread(str(path)), PHOTO))  # type: ignore[arg-type]  # it was just written
    originals = find_images(folder).paths
    links = [originals[number % len(originals)] for number in range(count)]
    return ImageSet([f"U{number}" for number in range(count)], links)


def compare_decoders(device: torch.device, size: int, images: int, batch: int, workers: int) -> str:
    """Describe the images/s of both decoders to squares of `size` pixels, and how far the squares are apart in levels.

    The GPU's rate is that of step 02: workers read the files, the GPU decodes and resizes them. Where it cannot, the reason is
    there instead. On a CPU, torchvision's decoder for CPUs plays the GPU's.
    """
    with tempfile.TemporaryDirectory() as name:
        found = write_photos(Path(name), images)
        loader = DataLoader(PreprocessedImages(found, size), batch, num_workers=workers, pin_memory=device.type == "cuda")
        stream = iter(loader)
        squares = next(stream)[0]  # starts the workers
        started = time.perf_counter()
        seen = sum(len(pixels) for pixels, _ in stream)
        by_cores = seen / (time.perf_counter() - started) if seen else 0.0
        try:
            decoder = check_decoder(DeviceDecoder(device, find_decoder(device)))
        except UserError as error:
            return f"{workers} workers {by_cores:.0f}; the GPU's decoder: {error}"
        encoded = DataLoader(
            EncodedImages(found, [size]), batch, num_workers=workers, collate_fn=partial(join_encoded, sizes=[size])
        )
        parts = iter(encoded)
        decoded = decoder.make_squares(next(parts))[size][0].cpu()
        started, seen = time.perf_counter(), 0
        for part in parts:
            last = decoder.make_squares(part)[size][0]
            seen += len(last)
        if seen:
            last.sum().item()  # waits for the device
        by_gpu = seen / (time.perf_counter() - started) if seen else 0.0
    apart = (decoded.int() - squares.int()).abs().float()
    differ = f"squares differ by {apart.mean():.2f}, at most {apart.max():.0f} levels; {decoder.refused} files refused"
    return f"{workers} workers {by_cores:.0f}, the GPU's decoder {by_gpu:.0f}; {differ}"
