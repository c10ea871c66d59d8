"""Parts of benchmarks/gpu.py: images and vectors that are edited, embedded and searched in a second."""

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import torch
from gpu_row import Row, measure_median, read_clock
from gpu_sizes import Sizes
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from image_copies.augmentations.dataset import EditedImages, overlay_material
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.cache import CachedImages
from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural import write_pictures
from image_copies.matching.dedup.near import find_near, hold_vectors
from image_copies.models.inference.embed import embed_batch, embed_images, measure_memory_format
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import Checkpoint
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.pipeline.gpu_search import TorchSearch
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.search.backend import search_block, use_backend
from image_copies.submissions.search.exact import search_pairs

DIMENSIONS = 256
PHOTO = (1024, 768)  # pixels
NEIGHBOURS = 10  # per query
NEAR = 0.8  # squared distance: copies that `simulate` makes are nearer, all others farther
WANTED_SIZE, WANTED_SPEED = 160, 5700  # pixels; images/s that tf_efficientnetv2_s takes there in large batches


def simulate(queries: int, references: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Draw unit vectors; the first fifth of the queries are noisy copies of the references in the same rows.

    Returns:
        float32 [queries, 256] and [references, 256].
    """
    rng = np.random.default_rng(seed)
    base = scale_to_unit_length(rng.standard_normal((references, DIMENSIONS), dtype=np.float32))
    others = scale_to_unit_length(rng.standard_normal((queries, DIMENSIONS), dtype=np.float32))
    copies = queries // 5
    others[:copies] = scale_to_unit_length(base[:copies] + 0.06 * rng.standard_normal((copies, DIMENSIONS), dtype=np.float32))
    return others, base


def measure_loader(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Measure how many edited images of a size per second the loader delivers from the cache, without a network."""
    rng, size = np.random.default_rng(0), int(item)
    small = rng.integers(0, 256, (64, 24, 24, 3), dtype=np.uint8)
    side = round(1.5 * size)
    squares = np.stack([cv2.resize(pixels, (side, side), interpolation=cv2.INTER_CUBIC) for pixels in small])
    images = CachedImages([f"T{row}" for row in range(len(squares))], squares, {})
    for extra in (False, True):
        edits = AugmentationSettings(family="query", intensity=0.75, extra=extra)
        data = EditedImages(images, edits, size, 0, overlay_material(images, images, len(images)))
        figures = {workers: _time_loader(data, workers, sizes.loader[size], device) for workers in sizes.loader_workers}
        named = f"{'paper and extra' if extra else 'paper'} edits at {size} px, I = 0.75, images/s"
        shown, most = ", ".join(f"{count} workers {speed:.0f}" for count, speed in figures.items()), max(figures.values())
        wanted = size == WANTED_SIZE
        yield Row(named, shown, f"at least {WANTED_SPEED:,}" if wanted else "", most >= WANTED_SPEED if wanted else None)


def _time_loader(data: EditedImages, workers: int, each: int, device: torch.device) -> float:
    """Return images per second of so many workers, each of which edits `each` images or more, until the device has them."""
    batch = min(64, each)
    keys = [[(epoch, row % 64, 0) for row in range(batch)] for epoch in range(max(2, each // batch) * workers + workers)]
    on_gpu = device.type == "cuda"
    stream = iter(DataLoader(data, batch_sampler=keys, num_workers=workers, pin_memory=on_gpu, prefetch_factor=4))
    for _ in range(workers):
        next(stream)[0].to(device)  # starts the workers, each of which opens fonts and emoji
    started = read_clock(device)
    seen = sum(len(pixels.to(device, non_blocking=True)) for pixels, _ in stream)
    return seen / (read_clock(device) - started)


def measure_embedding(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Compare embed_images on JPEG files of the size of PHOTO with the forward pass alone."""
    backbone, size = item.split()[0], int(item.split()[1])
    with tempfile.TemporaryDirectory() as name:
        found = _write_photos(Path(name), sizes.embed_images)
        descriptor = Descriptor(DescriptorSettings(backbone=backbone)).eval().to(device)
        settings = EmbeddingSettings.model_validate({"batch_size": sizes.embed_batch, "precision": sizes.precision})
        measure_memory_format(Checkpoint(descriptor, size, {}), settings)
        batch = torch.randn(sizes.embed_batch, 3, size, size, device=device)
        embed = partial(embed_batch, descriptor, batch, precision=sizes.precision)
        alone = sizes.embed_batch / measure_median(device, embed, sizes.repeats)
        started = read_clock(device)
        for _ in embed_images(Checkpoint(descriptor, size, {}), found, settings):
            pass
        whole = len(found) / (read_clock(device) - started)
    figure = f"{whole:.0f} images/s of {alone:.0f} in the forward pass alone: {whole / alone:.0%}"
    yield Row(f"embedding, {backbone} at {size} px", figure)


def _write_photos(folder: Path, count: int) -> ImageSet:
    """Write procedural pictures as JPEG files of the size of PHOTO, at most 200, and name them `count` times."""
    for path in list(write_pictures(folder, "T", min(200, count), 0)):
        cv2.imwrite(str(path), cv2.resize(cv2.imread(str(path)), PHOTO))  # type: ignore[arg-type]  # it was just written
    originals = find_images(folder).paths
    links = [originals[number % len(originals)] for number in range(count)]
    return ImageSet([f"U{number}" for number in range(count)], links)


def measure_search(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Time exact search on the device; compare its results for some of the queries with the CPU's: whether all bits are equal."""
    queries, references = simulate(sizes.queries, sizes.references)
    some = queries[: sizes.compared]
    with use_backend(TorchSearch(device)):
        search_pairs(queries[:100], references[:10_000], 1000)  # loads the libraries
        started = read_clock(device)
        search_pairs(queries, references, 10 * len(queries))
        seconds = read_clock(device) - started
        found = search_pairs(some, references, 10 * len(some))
    started = time.perf_counter()
    expected = search_pairs(some, references, 10 * len(some))
    on_cpu = time.perf_counter() - started
    parts = ("queries", "references", "distances")
    same = all(np.array_equal(getattr(found, part), getattr(expected, part)) for part in parts)
    what = f"search, {sizes.queries:,} × {sizes.references:,}"
    yield Row(what, f"{seconds:.2f} s (on the CPU {on_cpu:.1f} s for {len(some):,} queries)", "at most 5 s", seconds <= 5)
    yield Row("pairs and distances", "equal to the CPU's" if same else "differ from the CPU's", "equal", same, True)


def measure_neighbours(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Compare the search for neighbours of query normalisation on the device with Faiss on the CPU."""
    queries, training = simulate(sizes.queries, sizes.references, seed=1)
    with use_backend(TorchSearch(device)):
        search_block(queries[:100], training[:10_000], NEIGHBOURS, "cosine")
        started = read_clock(device)
        cosines, rows = search_block(queries, training, NEIGHBOURS, "cosine")
        seconds = read_clock(device) - started
    some = slice(0, 1000)
    expected, expected_rows = search_block(queries[some], training, NEIGHBOURS, "cosine")
    yield Row(f"{NEIGHBOURS} neighbours of {sizes.queries:,} among {sizes.references:,}", f"{seconds:.2f} s")
    same, off = (rows[some] == expected_rows).mean(), np.abs(cosines[some] - expected).max()
    near = bool(same >= 0.9999 and off < 1e-5)
    yield Row("the same rows as Faiss's; cosines off by", f"{same:.4%}; {off:.1e}", "99.99 %; 1e-5", near, True)


def measure_dedup(device: torch.device, sizes: Sizes, item: str) -> Iterator[Row]:
    """Compare two blocks of a deduplication on the device; for some of the vectors, whether the CPU finds the same pairs."""
    queries, references = (vectors.astype(np.float16) for vectors in simulate(sizes.queries, sizes.references // 4, seed=2))
    asked, compared = np.arange(len(queries)), np.arange(len(references))
    with use_backend(TorchSearch(device)):
        one, other = hold_vectors(queries), hold_vectors(references)
        find_near(one, other, asked[:100], compared, NEAR)
        started = read_clock(device)
        found = find_near(one, other, asked, compared, NEAR)
        seconds = read_clock(device) - started
    one, other, some = hold_vectors(queries), hold_vectors(references), asked[: sizes.compared]
    find_near(one, other, some[:10], compared, NEAR)  # rounds the vectors to 8 bits
    started = time.perf_counter()
    expected = find_near(one, other, some, compared, NEAR)
    on_cpu = time.perf_counter() - started
    rate = f"{len(asked) * len(compared) / seconds:.1e} pairs/s (on the CPU {len(some) * len(compared) / on_cpu:.1e})"
    yield Row(f"dedup, {len(asked):,} × {len(compared):,} compared", f"{seconds:.2f} s, {rate}")
    own = found[0] < len(some)
    same = np.array_equal(found[0][own], expected[0]) and np.array_equal(found[1][own], expected[1])
    off = float(np.abs(found[2][own] - expected[2]).max(initial=0)) if same else np.inf
    told = f"{'equal to' if same else 'differ from'} the CPU's; off by {off:.1e}"
    yield Row(f"dedup, {len(expected[0]):,} pairs and their squared distances", told, "equal; 1e-5", same and off < 1e-5, True)
