"""How fast JPEG files become squares: by the loader's processes at reduced scales, and by the GPU's decoder (nvJPEG)."""

import tempfile
import time
from pathlib import Path

import cv2
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader
from torchvision.io import ImageReadMode, decode_jpeg

from data.images import ImageSet, find_images
from data.loader import CleanImages
from data.procedural.sample import write_pictures

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

    The GPU's rate includes reading the files and resizing; where torchvision lacks the decoder, its error stands there instead.
    """
    with tempfile.TemporaryDirectory() as name:
        found = write_photos(Path(name), images)
        loader = DataLoader(CleanImages(found, size), batch, num_workers=workers, pin_memory=device.type == "cuda")
        stream = iter(loader)
        squares = next(stream)[0]  # starts the workers
        started = time.perf_counter()
        seen = sum(len(pixels) for pixels, _ in stream)
        by_cores = seen / (time.perf_counter() - started) if seen else 0.0
        parts = [found.paths[first : first + batch] for first in range(0, images, batch)]
        try:
            decoded = _decode(parts[0], size, device).cpu()  # starts the decoder
        except RuntimeError as error:
            return f"{workers} workers {by_cores:.0f}; the GPU's decoder: {str(error).splitlines()[0]}"
        started = time.perf_counter()
        for part in parts[1:]:
            last = _decode(part, size, device)
        if len(parts) > 1:
            last.sum().item()  # waits for the device
        by_gpu = sum(map(len, parts[1:])) / (time.perf_counter() - started)
    apart = (decoded.int() - squares.int()).abs().float()
    differ = f"squares differ by {apart.mean():.2f}, at most {apart.max():.0f} levels"
    return f"{workers} workers {by_cores:.0f}, the GPU's decoder {by_gpu:.0f}; {differ}"


def _decode(paths: list[Path], size: int, device: torch.device) -> Tensor:
    """Decode at full size and resize to uint8 [n, 3, size, size] by means over areas, on the device."""
    files = [torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8) for path in paths]
    images = decode_jpeg(files, mode=ImageReadMode.RGB, device=device)
    small = [functional.interpolate(image[None].float(), (size, size), mode="area") for image in images]
    return torch.cat(small).round_().byte()
