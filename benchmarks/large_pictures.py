"""A folder of 12-megapixel pictures from first byte to groups: the share that decoding takes, and imagededup on the same folder.

    python benchmarks/large_pictures.py PHOTOS [PHOTOS …] [--pictures 300]

Half of the pictures are photographs enlarged to 12 megapixels, the other half a copy of each with edits drawn as for synthetic
queries (at 384 pixels; none that paste another picture), enlarged too. Of PHOTOS, folders of pictures that are no copies of each
other, the first give two halves each where there are too few. imagededup takes part where it can be imported (it is none of the
project's dependencies): its perceptual hash, and its CNN method with the descriptor of this project. What is found is ranked by
each method's own score: the share of copies found at 90 % precision.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import cv2
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from image_copies.augmentations.composition import Record, draw_record, replay
from image_copies.augmentations.edits.registry import TUNED_SIDE
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.decode import decode_rgb
from image_copies.data.images import find_images
from image_copies.data.process import map_on_cores, usable_cores
from image_copies.data.squares import resize_square, shrink
from image_copies.matching.extractor import Extractor, checkpoint_extractor
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.match import main as match

PIXELS, QUALITY = 12_000_000, 90
EDITS = AugmentationSettings(family="query", intensity=0.7, extra=True)
DECODED = 1000  # pictures at most that are decoded for comparison
# Pairs below these scores are not listed: there are far more false than true ones above them already.
LOWEST_SCORE, LOWEST_COSINE, LARGEST_HAMMING_DISTANCE = -2.8, 0.3, 20

Pair = frozenset[str]
Image = NDArray[np.uint8]
Source = tuple[Path, int | None]  # a photo, or its first or second half
CONSOLE = Console(width=120)
T = TypeVar("T")


def list_sources(photos: Sequence[Path], count: int) -> list[Source]:
    """Choose the photos, and the halves of photos, that are to be copied."""
    paths = [path for folder in photos for path in find_images(folder, naming="file").paths]
    if 2 * len(paths) < count:
        raise SystemExit(f"the folders hold {len(paths)} pictures; at least {(count + 1) // 2} are needed")
    halved = max(count - len(paths), 0)
    return [(path, half) for path in paths[:halved] for half in (0, 1)] + [
        (path, None) for path in paths[halved : count - halved]
    ]


def make_pictures(photos: Sequence[Path], folder: Path, count: int) -> set[Pair]:
    """Write the pictures and return the pairs of names that are copies."""
    sources = list_sources(photos, count // 2)
    made = map_on_cores(partial(write_copy, folder), list(enumerate(sources)))
    return {frozenset(names) for names in tqdm(made, total=len(sources), desc="making pictures", unit="pair", leave=False)}


def write_copy(folder: Path, task: tuple[int, Source]) -> tuple[str, str]:
    """Write a picture of 12 megapixels and an edited copy; return their names."""
    cv2.setNumThreads(1)
    number, (path, half) = task
    image = decode_rgb(path)
    if half is not None:
        longer = int(image.shape[1] > image.shape[0])
        image = np.ascontiguousarray(np.array_split(image, 2, axis=longer)[half])
    names = f"{number:05d}.jpg", f"{number:05d}-copy.jpg"
    for name, pixels in zip(names, (image, edit_picture(image, number)), strict=True):
        cv2.imwrite(str(folder / name), enlarge(pixels, number), [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return names


def edit_picture(image: Image, number: int) -> Image:
    """Apply the first edits drawn for this number."""
    rng = np.random.default_rng(number)
    record: Record = []
    while not record:
        record = draw_record(EDITS, rng, ())
    return replay(shrink(image, TUNED_SIDE), record)


def enlarge(image: Image, number: int) -> NDArray[Any]:
    """Enlarge RGB pixels to 12 megapixels, BGR, with grain, so that a file is as large as a camera's."""
    scale = (PIXELS / (image.shape[0] * image.shape[1])) ** 0.5
    height, width = (min(round(side * scale), 30_000) for side in image.shape[:2])
    large = cv2.resize(cv2.cvtColor(image, cv2.COLOR_RGB2BGR), (width, height), interpolation=cv2.INTER_LINEAR)
    grain = np.random.default_rng(number).integers(0, 17, (500, 500), np.uint8)
    tiled = np.tile(grain, (height // 500 + 1, width // 500 + 1))[:height, :width]
    return cv2.add(large, cv2.merge([tiled] * 3))


def recall_at_90(scored: Iterable[tuple[float, Pair]], true: set[Pair]) -> float:
    """Share of the true pairs found at the lowest rank with a precision of 90 %; among equal scores the false ones come first."""
    ranked = sorted(scored, key=lambda item: (-item[0], item[1] in true))
    hits = np.array([pair in true for _, pair in ranked], bool)
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float((np.cumsum(hits) / len(true))[precision >= 0.9].max(initial=0))


def own_scores(arguments: Sequence[str], output: Path) -> list[tuple[float, Pair]]:
    """Scores of the pairs that match.py finds when it is asked for all above a low threshold; the vectors are there."""
    match([*arguments, "--output", str(output), "--threshold", str(LOWEST_SCORE)])
    table = pd.read_csv(output / "matches.csv")
    pairs = zip(table["score"].tolist(), table["query"].tolist(), table["reference"].tolist(), strict=True)
    return [(score, frozenset((Path(query).name, Path(reference).name))) for score, query, reference in pairs]


def listed_scores(found: dict[str, list[tuple[str, Any]]], sign: float) -> list[tuple[float, Pair]]:
    """Scores of imagededup's lists; a pair that is listed twice counts once, with the better score."""
    best: dict[Pair, float] = {}
    for name, others in found.items():
        for other, score in others:
            pair = frozenset((name, other))
            best[pair] = max(best.get(pair, -np.inf), sign * float(score))
    return [(score, pair) for pair, score in best.items()]


def imagededup_methods(extractor: Extractor) -> dict[str, Callable[[Path], list[tuple[float, Pair]]]]:
    """imagededup's methods as functions of a folder; empty where it cannot be imported."""
    try:
        from imagededup.methods import CNN, PHash  # type: ignore[import-not-found]  # no dependency of the project
        from imagededup.utils import CustomModel  # type: ignore[import-not-found]
    except ImportError:
        return {}
    import torch

    class Network(torch.nn.Module):
        """The project's descriptor as imagededup calls a network."""

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            squares = {pixels.shape[-1]: pixels.numpy()}
            vectors = np.concatenate([network.embed(squares) for network in extractor.networks], axis=1)
            return torch.from_numpy(extractor.project(vectors))

    (size,) = {size for network in extractor.networks for size in network.sizes}

    def cnn(folder: Path) -> list[tuple[float, Pair]]:
        def pixels(image: Any) -> torch.Tensor:
            return torch.from_numpy(resize_square(np.asarray(image.convert("RGB")), size)).permute(2, 0, 1)

        method = CNN(verbose=False, model_config=CustomModel(name="descriptor", model=Network(), transform=pixels))
        encoded = method.encode_images(image_dir=str(folder), num_enc_workers=usable_cores())
        return listed_scores(
            method.find_duplicates(encoding_map=encoded, min_similarity_threshold=LOWEST_COSINE, scores=True), 1.0
        )

    def phash(folder: Path) -> list[tuple[float, Pair]]:
        method = PHash(verbose=False)
        encoded = method.encode_images(image_dir=str(folder), num_enc_workers=usable_cores())
        found = method.find_duplicates(encoding_map=encoded, max_distance_threshold=LARGEST_HAMMING_DISTANCE, scores=True)
        return listed_scores(found, -1.0)

    return {"imagededup CNN, the same network": cnn, "imagededup PHash": phash}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path, nargs="+", metavar="PHOTOS")
    parser.add_argument("--pictures", type=int, default=300)
    options = parser.parse_args()
    table = Table("", "pictures", "seconds", "processor seconds", "pictures per processor second", "copies found at P90")

    def timed(name: str, work: Callable[[], T], found: Callable[[T], float] | None = None, count: int | None = None) -> float:
        wall, used = time.perf_counter(), processor_seconds()
        result = work()
        wall, used = time.perf_counter() - wall, processor_seconds() - used
        recall = "" if found is None else f"{found(result):.3f}"
        pictures = len(paths) if count is None else count
        table.add_row(name, f"{pictures:,}", f"{wall:,.1f}", f"{used:,.1f}", f"{pictures / used:.1f}", recall)
        CONSOLE.print(f"{name}: {wall:,.1f} s, {used:,.1f} processor seconds {recall}")
        return used / pictures

    with tempfile.TemporaryDirectory() as name:
        folder, results = Path(name) / "pictures", Path(name) / "matches"
        folder.mkdir()
        true = make_pictures(options.photos, folder, options.pictures)
        paths = sorted(folder.iterdir())
        size = sum(path.stat().st_size for path in paths) / len(paths) / 1e6
        table.title = f"{len(paths):,} pictures of about 12 megapixels, {size:.1f} MB each"
        extractor = checkpoint_extractor(SHIPPED)
        side = max(size for network in extractor.networks for size in network.sizes)
        some = paths[:: -(-len(paths) // DECODED)]
        decoding = timed(
            f"decode as the network needs it ({side} px)",
            lambda: [decode_rgb(path, side).shape for path in some],
            count=len(some),
        )
        timed("decode whole", lambda: [decode_rgb(path).shape for path in some], count=len(some))
        arguments = ["--checkpoint", str(SHIPPED), "--queries", str(folder), "--output", str(results), "--quiet"]
        alone = ["--no-verify", "--no-views"]
        searching = timed(
            "match.py, vectors and search alone",
            lambda: match([*arguments, *alone, "--threshold", "-0.000001"]),
        )
        shutil.rmtree(results)
        everything = timed(
            "match.py, from first byte to groups",
            lambda: match([*arguments, *alone]),
            lambda _: recall_at_90(own_scores([*arguments, *alone], results), true),
        )
        shutil.rmtree(results)
        timed("match.py, with views and verification", lambda: match([*arguments, "--verify", "--views"]))
        peers = imagededup_methods(extractor)
        for method, search in peers.items():
            timed(method, lambda search=search: search(folder), lambda scored: recall_at_90(scored, true))  # type: ignore[misc]
    CONSOLE.print(table)
    CONSOLE.print(
        f"decoding once is {decoding / searching:.0%} of vectors and search, {decoding / everything:.0%} of the way to groups"
    )
    if not peers:
        CONSOLE.print("imagededup cannot be imported: it was not compared")


def processor_seconds() -> float:
    """Processor seconds of this process and of those that it has waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


if __name__ == "__main__":
    main()
