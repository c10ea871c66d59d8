"""A folder of 12-megapixel pictures from first byte to groups: the share that decoding takes, and imagededup on the same folder.

    python benchmarks/large_pictures.py PHOTOS [--pictures 300]    PHOTOS: at least half as many pictures, no copies of each other

Half of the pictures are photographs enlarged to 4000 × 3000, the other half edited copies of them of about that size. imagededup
takes part where it can be imported (it is none of the project's dependencies): its perceptual hash, and its CNN method with the
descriptor of this project. What is found is ranked by each method's own score: the share of copies found at 90 % precision.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import cv2
import numpy as np
from rich.console import Console
from rich.table import Table

from data.decode import decode_rgb
from data.images import find_images
from data.loader import resize_square
from models.shipped import SHIPPED
from pipeline.match import main as match
from pipeline.tools.extractor import Extractor, checkpoint_extractor
from pipeline.tools.match_search import PairScores
from submissions.index.store import open_store, stored_files

WIDTH, HEIGHT, QUALITY = 4000, 3000, 90

Pair = frozenset[str]
EDITS: tuple[Callable[[Any], Any], ...] = (
    lambda image: image[300:2700, 400:3600],
    lambda image: np.ascontiguousarray(image[:, ::-1]),
    lambda image: (image * 0.6 + 40).astype(np.uint8),
    lambda image: cv2.GaussianBlur(image, (0, 0), 12),
    lambda image: cv2.copyMakeBorder(image, 400, 400, 400, 400, cv2.BORDER_CONSTANT, value=(255, 255, 255)),
    lambda image: cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), cv2.COLOR_GRAY2BGR),
    lambda image: cv2.warpAffine(image, cv2.getRotationMatrix2D((WIDTH / 2, HEIGHT / 2), 10, 1.0), (WIDTH, HEIGHT)),
)
CONSOLE = Console(width=120)
T = TypeVar("T")


def make_pictures(photos: Path, folder: Path, count: int) -> set[Pair]:
    """Write the pictures and return the pairs of names that are copies."""
    sources = find_images(photos, naming="file").paths[: count // 2]
    if len(sources) < count // 2:
        raise SystemExit(f"{photos} holds {len(sources)} pictures; {count // 2} are needed")
    rng, pairs = np.random.default_rng(0), set()
    for number, path in enumerate(sources):
        small = cv2.cvtColor(decode_rgb(path), cv2.COLOR_RGB2BGR)
        image = cv2.resize(small, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
        grain = rng.integers(-8, 9, (500, 500, 1), np.int16)  # so that a file is as large as a camera's
        image = np.clip(image + np.tile(grain, (HEIGHT // 500, WIDTH // 500, 1)), 0, 255).astype(np.uint8)
        names = f"{number:04d}.jpg", f"{number:04d}-copy.jpg"
        for name, pixels in zip(names, (image, EDITS[number % len(EDITS)](image)), strict=True):
            cv2.imwrite(str(folder / name), pixels, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        pairs.add(frozenset(names))
    return pairs


def recall_at_90(scored: Iterable[tuple[float, Pair]], true: set[Pair]) -> float:
    """Share of the true pairs found at the lowest rank with a precision of 90 %; among equal scores the false ones come first."""
    ranked = sorted(scored, key=lambda item: (-item[0], item[1] in true))
    hits = np.array([pair in true for _, pair in ranked], bool)
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float((np.cumsum(hits) / len(true))[precision >= 0.9].max(initial=0))


def own_scores(index: Path, extractor: Extractor) -> list[tuple[float, Pair]]:
    """Scores of all pairs of the pictures that a search has left in its index."""
    with open_store(index, extractor.identity, extractor.dimensions, new=False) as store:
        files = sorted(stored_files(store).items())
        rows, columns = np.triu_indices(len(files), 1)
        pairs = [(files[a], files[b]) for a, b in zip(rows.tolist(), columns.tolist(), strict=True)]
        scores = PairScores(store, extractor).scores([(one[1], other[1]) for one, other in pairs])
    return [(score, frozenset((one[0].name, other[0].name))) for score, (one, other) in zip(scores.tolist(), pairs, strict=True)]


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
            vectors = np.concatenate([network.embed({pixels.shape[-1]: pixels}) for network in extractor.networks], axis=1)
            return torch.from_numpy(extractor.project(vectors))

    (size,) = {size for network in extractor.networks for size in network.sizes}

    def cnn(folder: Path) -> list[tuple[float, Pair]]:
        def pixels(image: Any) -> torch.Tensor:
            return torch.from_numpy(resize_square(np.asarray(image.convert("RGB")), size)).permute(2, 0, 1)

        method = CNN(verbose=False, model_config=CustomModel(name="descriptor", model=Network(), transform=pixels))
        encoded = method.encode_images(image_dir=str(folder))
        return listed_scores(method.find_duplicates(encoding_map=encoded, min_similarity_threshold=-1.0, scores=True), 1.0)

    def phash(folder: Path) -> list[tuple[float, Pair]]:
        method = PHash(verbose=False)
        encoded = method.encode_images(image_dir=str(folder))
        return listed_scores(method.find_duplicates(encoding_map=encoded, max_distance_threshold=64, scores=True), -1.0)

    return {"imagededup CNN, the same network": cnn, "imagededup PHash": phash}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--pictures", type=int, default=300)
    options = parser.parse_args()
    table = Table("", "seconds", "processor seconds", "pictures per processor second", "copies found at P90")

    def timed(name: str, work: Callable[[], T], found: Callable[[T], float] | None = None) -> float:
        wall, used = time.perf_counter(), processor_seconds()
        result = work()
        wall, used = time.perf_counter() - wall, processor_seconds() - used
        recall = "" if found is None else f"{found(result):.3f}"
        table.add_row(name, f"{wall:.1f}", f"{used:.1f}", f"{len(paths) / used:.1f}", recall)
        return used

    with tempfile.TemporaryDirectory() as name:
        folder, results = Path(name) / "pictures", Path(name) / "matches"
        folder.mkdir()
        true = make_pictures(options.photos, folder, options.pictures)
        paths = sorted(folder.iterdir())
        size = sum(path.stat().st_size for path in paths) / len(paths) / 1e6
        table.title = f"{len(paths)} pictures of about 12 megapixels, {size:.1f} MB each"
        extractor = checkpoint_extractor(SHIPPED)
        side = max(size for network in extractor.networks for size in network.sizes)
        decoding = timed(f"decode as the network needs it ({side} px)", lambda: [decode_rgb(path, side).shape for path in paths])
        timed("decode whole", lambda: [decode_rgb(path).shape for path in paths])
        arguments = ["--checkpoint", str(SHIPPED), "--queries", str(folder), "--output", str(results), "--quiet"]
        everything = timed(
            "match.py, from first byte to groups",
            lambda: match(arguments),
            lambda _: recall_at_90(own_scores(results / "index", extractor), true),
        )
        peers = imagededup_methods(extractor)
        for method, search in peers.items():
            timed(method, lambda search=search: search(folder), lambda scored: recall_at_90(scored, true))  # type: ignore[misc]
    CONSOLE.print(table)
    CONSOLE.print(f"decoding once is {decoding / everything:.0%} of match.py's processor time")
    if not peers:
        CONSOLE.print("imagededup cannot be imported: it was not compared")


def processor_seconds() -> float:
    """Processor seconds of this process and of those that it has waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


if __name__ == "__main__":
    main()
