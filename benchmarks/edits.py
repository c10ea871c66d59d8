"""Images per second and core, from a stored JPEG to a 160 × 160 float tensor at I = 0.75: ours against plain AugLy calls.

    python benchmarks/edits.py [--count N]       joins edits.json
    python benchmarks/edits.py --docs            writes the table of quality.md

Both sides apply the same recorded edits to the same JPEGs, alternately, on one core; processor time is measured. AugLy edits the
384 × 384 image, as the competition's code did; ours decodes at a reduced scale and edits at 240 × 240. "as training does it"
decodes and resizes every image once, into the cache, and edits it in each of --epochs epochs; this decoding is included.
The last row is the share of the time that a training with two workers waits for data.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from measurements import Figures, Measurements
from page_tables import make_table, parse_options
from PIL import Image
from plain_augly import augly_calls, replay_with_augly

from image_copies.augmentations.composition import Record, draw_record, replay
from image_copies.augmentations.dataset import CachedOverlays, EditedImages, normalize_pixels
from image_copies.augmentations.randomness import generator_for
from image_copies.augmentations.sampling import Stream, epoch_batches
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.cache import cache_images
from image_copies.data.decode import decode_rgb
from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural import draw_picture
from image_copies.data.squares import resize_square

RESULTS = Path(__file__).with_name("edits.json")
COMMAND = "benchmarks/edits.py --docs"
AUGLY, OURS, CACHED, TRAINING = "AugLy", "ours", "ours, cached", "ours, as training does it"
DECODING = "decoding into the cache"
WAITING = "share of the time that training `tf_efficientnetv2_b0` at 64 px waits"
SIZE, WORKING, AUGLY_SIDE = 160, 240, 384
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SETTINGS = AugmentationSettings(intensity=0.75)


class Others:
    """Images of one side length to paste, decoded once before either side is timed."""

    def __init__(self, images: ImageSet, side: int) -> None:
        self.ids = images.ids[:50]
        self._squares = {
            image_id: resize_square(decode_rgb(path), side) for image_id, path in zip(self.ids, images.paths[:50], strict=True)
        }

    def __call__(self, image_id: str) -> np.ndarray:
        return self._squares[image_id]


def write_jpegs(folder: Path) -> ImageSet:
    """Write sixty pictures of 1024 × 1024 pixels as JPEGs of quality 90, as a training set stores them."""
    for number in range(60):
        Image.fromarray(draw_picture(np.random.default_rng([3, number]), 1024)).save(folder / f"T{number:06d}.jpg", quality=90)
    return find_images(folder)


def to_tensor(pixels: np.ndarray, mean: tuple[float, ...], std: tuple[float, ...]) -> torch.Tensor:
    """Scale uint8 [h, w, 3] to 0…1, subtract the mean and divide by the standard deviation: float32 [3, h, w]."""
    values = torch.from_numpy(pixels.transpose(2, 0, 1).astype(np.float32)).div_(255)
    return values.sub_(torch.tensor(mean)[:, None, None]).div_(torch.tensor(std)[:, None, None])


def edit_with_augly(path: Path, record: Record, others: Others) -> torch.Tensor:
    with Image.open(path) as stored:
        image = stored.convert("RGB").resize((AUGLY_SIDE, AUGLY_SIDE), Image.Resampling.BILINEAR)
    edited = replay_with_augly(image, record, others).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    return to_tensor(np.asarray(edited), MEAN, STD)


def edit_with_ours(path: Path, record: Record, others: Others) -> torch.Tensor:
    image = resize_square(decode_rgb(path, short_side=WORKING), WORKING)
    return to_tensor(resize_square(replay(image, record, others), SIZE), MEAN, STD)


def edit_from_cache(square: np.ndarray, record: Record, others: Others) -> torch.Tensor:
    return to_tensor(resize_square(replay(np.asarray(square), record, others), SIZE), MEAN, STD)


def time_sides(images: ImageSet, count: int) -> dict[str, float]:
    """Return the processor seconds of each side on the same `count` records, 20 images at a time in turn."""
    augly_calls()
    large, small = Others(images, AUGLY_SIDE), Others(images, WORKING)
    squares = [resize_square(decode_rgb(path, short_side=WORKING), WORKING) for path in images.paths]
    records = [draw_record(SETTINGS, generator_for(0, 0, str(number)), large.ids) for number in range(count)]
    spent = {AUGLY: 0.0, OURS: 0.0, CACHED: 0.0, DECODING: 0.0}
    for record in records[:40]:  # fonts, emoji and templates are opened once
        edit_with_augly(images.paths[0], record, large)
        edit_with_ours(images.paths[0], record, small)
    for start in range(0, count, 20):
        turn = [(number % len(images), records[number]) for number in range(start, min(start + 20, count))]
        sides: dict[str, Callable[[int, Record], object]] = {
            AUGLY: lambda row, record: edit_with_augly(images.paths[row], record, large),
            OURS: lambda row, record: edit_with_ours(images.paths[row], record, small),
            CACHED: lambda row, record: edit_from_cache(squares[row], record, small),
            DECODING: lambda row, record: resize_square(decode_rgb(images.paths[row], WORKING), WORKING),
        }
        for side, work in sides.items():
            began = time.process_time()
            for row, record in turn:
                work(row, record)
            spent[side] += time.process_time() - began
    return spent


def measure_waiting(images: ImageSet, folder: Path, steps: int = 30) -> float:
    """Train `tf_efficientnetv2_b0` at 64 px; return the share of the time spent waiting for 2 workers."""
    import timm

    squares = cache_images(images, 96, folder)
    overlays = CachedOverlays((squares, range(len(squares))))
    dataset = EditedImages(squares, SETTINGS, 64, 0, overlays)
    batches = epoch_batches(range(len(squares)), 32, Stream(range(10_000), 0))
    stream = iter(torch.utils.data.DataLoader(dataset, batch_sampler=batches, num_workers=2, prefetch_factor=4))
    network = timm.create_model("tf_efficientnetv2_b0", num_classes=256).train()
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types lack memory_format
    optimizer = torch.optim.Adam(network.parameters())
    next(stream)
    waited, began = 0.0, time.perf_counter()
    for _ in range(steps):
        asked = time.perf_counter()
        pixels, _labels = next(stream)
        waited += time.perf_counter() - asked
        optimizer.zero_grad()
        network(normalize_pixels(pixels, MEAN, STD)).square().mean().backward()
        optimizer.step()
    return waited / (time.perf_counter() - began)


def measure(count: int, epochs: int, _seed: int) -> Figures:
    """Return the images/s of a core by side, and the share of the time that training waits."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        images = write_jpegs(Path(temporary))
        spent = time_sides(images, count)
        once = spent.pop(DECODING)
        spent[TRAINING] = spent[CACHED] + once / epochs
        share = measure_waiting(images, Path(temporary) / "cache")
    return {side: count / seconds for side, seconds in spent.items()} | {WAITING: share}


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the table of quality.md: images/s of a core by side, and how many times AugLy's these are."""
    figures = store.measurements[-1]["figures"]
    sides = [side for side in figures if side != WAITING]
    rows = [[side, f"{figures[side]:.0f}", f"{figures[side] / figures[AUGLY]:.1f} ×"] for side in sides]
    rows.append([WAITING, f"{figures[WAITING]:.1%}", ""])
    return {"quality.md": make_table(["from a stored JPEG to an edited tensor", "images/s of a core", "against AugLy"], rows)}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10, help="epochs that share one decoding (default: 10)")
    parser.add_argument("--count", type=int, default=600, help="images per side (default: 600)")
    options, store = parse_options(parser, RESULTS, make_tables, COMMAND, with_data=False)
    about = {"images": options.count, "epochs": options.epochs}
    store.measure("edits", about, [0], partial(measure, options.count, options.epochs))
    print(*make_tables(store).values())


if __name__ == "__main__":
    main()
