"""Transformed pictures, their hashes, and recalls of perception's benchmark: what perception_yardstick.py has done elsewhere.

    python benchmarks/perception_hashes.py make PICTURES WORK [--every N]      transformed pictures and hashes of them
    python benchmarks/perception_hashes.py score WORK VECTORS.csv              recalls, as JSON

It runs in an environment of its own, and imports nothing else: perception 0.9.3 with `[benchmarking,pdq]`, imgaug, NumPy below 2.
The transforms are those of the library's documentation with imgaug (examples/benchmarking.rst up to a30815d). In its later form,
with albumentations, gamma is .02, which leaves pictures nearly white: `gamma0.02`, which is not pooled.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import cv2
import imgaug
import numpy as np
import pandas as pd
from imgaug import augmenters
from perception import benchmarking, hashers
from perception.hashers.image.pdq import PDQHash

LEAST_PRECISION = 99.99  # %
NOT_POOLED = "gamma0.02"
HASHERS = {"PHash": hashers.PHash(hash_size=16), "DHash": hashers.DHash(hash_size=16), "PDQ": PDQHash()}
Pixels = np.ndarray  # uint8 [h, w, 3]


def watermark(image: Pixels) -> Pixels:
    """Write TEST into the lower left corner, a fifth of the width wide and nearly opaque."""
    (width, height), _ = cv2.getTextSize("TEST", cv2.FONT_HERSHEY_SIMPLEX, 5, 5)
    factor = 0.2 * image.shape[1] / width
    place = int(height * factor), int(image.shape[0] - height * factor)
    drawn = np.zeros((*image.shape[:2], 4), np.uint8)
    cv2.putText(drawn, "TEST", place, cv2.FONT_HERSHEY_SIMPLEX, 5 * factor, (0, 0, 0, 200), 5)
    alpha = drawn[..., 3:].astype(np.float32)
    return ((image[..., :3] * (255 - alpha) + drawn[..., :3] * alpha) / 255).astype(np.uint8)


def vignette(image: Pixels) -> Pixels:
    """Darken towards the edges by a Gaussian whose standard deviation is half of the side."""
    height, width = image.shape[:2]
    shade = cv2.getGaussianKernel(height, height / 2) * cv2.getGaussianKernel(width, width / 2).T
    shaded: Pixels = image * (shade / shade.max())[..., None]
    return shaded.astype(np.uint8)


TRANSFORMS = {
    "watermark": watermark,
    "blur2": augmenters.GaussianBlur(sigma=2.0),
    "vignette": vignette,
    "gamma2": augmenters.GammaContrast(gamma=2),
    NOT_POOLED: augmenters.GammaContrast(gamma=0.02),
    "jpeg95": augmenters.JpegCompression(95),  # a compression of 95 %: quality 6
    "pad0.2": augmenters.Pad(percent=((0.2, 0.2), (0, 0), (0.2, 0.2), (0, 0)), keep_size=False),
    "crop0.05": augmenters.Crop(percent=0.05, keep_size=False),
    "noise0.2": augmenters.AdditiveGaussianNoise(scale=0.2 * 255),
    "rotate4": augmenters.Affine(rotate=4),
    "noop": augmenters.Resize({"longer-side": 256, "shorter-side": "keep-aspect-ratio"}),
}


def make(pictures: Path, work: Path, every: int) -> None:
    """Write transformed pictures, hashes.csv and hashes.json: seconds of processor time that a picture takes, by hasher."""
    imgaug.seed(0)
    files = sorted(path for path in pictures.iterdir() if path.suffix in (".jpg", ".webp"))[::every]
    dataset = benchmarking.BenchmarkImageDataset.from_tuples([(str(path), "all") for path in files])
    transformed = dataset.transform(TRANSFORMS, str(work))
    transformed._df.to_csv(work / "files.csv", index=False)
    seconds = dict[str, float]()
    for name, hasher in HASHERS.items():
        started = time.process_time()
        for path in transformed._df["filepath"][:500]:
            hasher.compute(path)
        seconds[name] = (time.process_time() - started) / min(500, len(transformed._df))
    transformed.compute_hashes(HASHERS, max_workers=1).save(work / "hashes.csv")
    (work / "hashes.json").write_text(json.dumps({"pictures": len(files), "seconds": seconds}))


def score(work: Path, vectors: Path) -> dict[str, dict[str, float]]:
    """Return the recall of each descriptor by transform, and of all but one transform together."""
    hashes = pd.concat([pd.read_csv(work / "hashes.csv"), pd.read_csv(vectors)])
    found = dict[str, dict[str, float]]()
    for pooled in (False, True):
        part = hashes[hashes["transform_name"] != NOT_POOLED] if pooled else hashes
        recalls = benchmarking.BenchmarkHashes(part).compute_threshold_recall(
            LEAST_PRECISION, [] if pooled else ["transform_name"]
        )
        for key, recall in recalls["recall"].items():
            name, transform = (key if isinstance(key, str) else key[0], "pooled") if pooled else (key[1], key[0])
            found.setdefault(name, {})[transform] = float(recall)
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("make", "score"))
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    if options.task == "make":
        make(options.first, options.second, options.every)
    else:
        print(json.dumps(score(options.first, options.second)))


if __name__ == "__main__":
    main()
