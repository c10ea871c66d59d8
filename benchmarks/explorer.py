"""Time from sending an image to the explorer until its answer.

    python benchmarks/explorer.py [--references 100000] [--backbone tf_efficientnetv2_b0] [--size 160]

An untrained network, simulated vectors of references and of as many training images (unit, 256-d), query normalisation method 2.
The application is served as `explore.py` serves it and asked over HTTP; thumbnails are not counted.
"""

import argparse
import io
import json
import statistics
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, Literal

import numpy as np
import uvicorn
from PIL import Image
from rich.console import Console
from rich.table import Table

from image_copies.data.images import ImageSet
from image_copies.data.procedural.pictures import draw_picture
from image_copies.matching.explorer.answers import Explorer, reference_index
from image_copies.matching.explorer.app import make_app
from image_copies.matching.explorer.edits import EDITS
from image_copies.matching.extractor import Extractor, Normalizer
from image_copies.matching.threshold import Tail
from image_copies.matching.web.listener import open_listener
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.inference.torch_embedder import load_embedder
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.ensemble.variant import Variant
from image_copies.submissions.settings import NormalizationSettings
from image_copies.submissions.vectors.files import Vectors

DIMENSIONS, ROUNDS = 256, 10


class Pasted:
    """Images for edits that paste another image."""

    ids = ("a", "b", "c")

    def __call__(self, image_id: str) -> Any:
        return draw_picture(np.random.default_rng(ord(image_id)), 384)


def open_simulated(count: int, backbone: str, size: int) -> Explorer:
    """Return the explorer of a run, with simulated vectors."""
    rng = np.random.default_rng(0)
    references, training = (
        Vectors(
            [f"{kind}{row}" for row in range(count)],
            scale_to_unit_length(rng.standard_normal((count, DIMENSIONS), np.float32)),
            np.zeros(count, bool),
        )
        for kind in "RT"
    )
    settings = EmbeddingSettings()
    with tempfile.TemporaryDirectory() as name:
        checkpoint = Path(name) / "untrained.safetensors"
        save_descriptor(checkpoint, Descriptor(DescriptorSettings(backbone=backbone, dimensions=DIMENSIONS)), size, {})
        network = load_embedder(checkpoint, settings)
    normalizer = Normalizer(training, Variant(DIMENSIONS, 0.0, "method2", 1.0), NormalizationSettings())
    extractor = Extractor([network], settings, lambda vectors: vectors, DIMENSIONS, "simulated", normalizer)
    nothing = ImageSet([], [])
    pictures: dict[Literal["reference", "training", "query"], ImageSet] = {
        "reference": nothing,
        "training": nothing,
        "query": nothing,
    }
    tail = Tail(1.5, 0.1, 0.005, 10**6)
    return Explorer("simulated", extractor, references, reference_index(references), tail, "", 0.001, pictures, Pasted())


def post(url: str, body: bytes, kind: str) -> Any:
    request = urllib.request.Request(url, body, {"Content-Type": kind})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def measure(address: str) -> Table:
    """Measure the seconds of everything that a person waits for."""
    table = Table("what", "median", "slowest", "of", title="seconds")

    def upload(width: int, height: int, number: int, form: str) -> float:
        pixels = draw_picture(np.random.default_rng(number), 640)
        target = io.BytesIO()
        Image.fromarray(pixels).resize((width, height)).save(target, form)
        start = time.perf_counter()
        name = post(f"{address}/api/pictures", target.getvalue(), "application/octet-stream")["picture"]
        ask(name, None, 0)
        return time.perf_counter() - start

    def ask(name: str, edit: str | None, draw: int) -> float:
        question = {"picture": name, "edit": edit, "intensity": 0.7, "draw": draw}
        start = time.perf_counter()
        post(f"{address}/api/answers", json.dumps(question).encode(), "application/json")
        return time.perf_counter() - start

    def row(what: str, seconds: list[float]) -> None:
        table.add_row(what, f"{statistics.median(seconds):.3f}", f"{max(seconds):.3f}", str(len(seconds)))

    row("the first upload of all", [upload(1600, 1200, 100, "JPEG")])
    for form, width, height in (("JPEG", 1600, 1200), ("JPEG", 4000, 3000), ("PNG", 4000, 3000)):
        row(f"{form} {width} × {height}: upload and answer", [upload(width, height, n, form) for n in range(ROUNDS)])
    target = io.BytesIO()
    Image.fromarray(draw_picture(np.random.default_rng(1), 1200)).save(target, "JPEG")
    name = post(f"{address}/api/pictures", target.getvalue(), "application/octet-stream")["picture"]
    by_edit = {edit: [ask(name, edit, draw) for draw in range(3)] for edit in ("composition", *EDITS)}
    row("another edit or intensity", [seconds for each in by_edit.values() for seconds in each])
    slowest = max(by_edit, key=lambda edit: statistics.median(by_edit[edit]))
    row(f"the slowest edit, {slowest}", by_edit[slowest])
    return table


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--references", type=int, default=100_000)
    options.add_argument("--backbone", default="tf_efficientnetv2_b0")
    options.add_argument("--size", type=int, default=160)
    arguments = options.parse_args()
    listener = open_listener(0)
    explorer = open_simulated(arguments.references, arguments.backbone, arguments.size)
    server = uvicorn.Server(uvicorn.Config(make_app(explorer), log_level="warning"))
    threading.Thread(target=server.run, args=([listener],), daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    Console(width=120).print(measure(f"http://127.0.0.1:{listener.getsockname()[1]}"))
    server.should_exit = True
