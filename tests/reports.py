"""What the report of a run shows, without the run."""

from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from image_copies.data.ground_truth import GroundTruth
from image_copies.data.images import ImageSet
from image_copies.submissions.report.inputs import ReportInputs, StepDone
from image_copies.submissions.scoring.metrics import Interval, evaluate
from image_copies.submissions.vectors.files import Vectors


def make_inputs(folder: Path, count: int = 8, copies: int = 5, noise: float = 0.8, seed: int = 0) -> ReportInputs:
    """Queries and as many references, of which the last cannot be read; the first queries are references with noise."""
    ids = {kind: [f"{kind}{number}" for number in range(count)] for kind in "QR"}
    ids["Q"][0] = "Q<script>alert(1)</script>"
    sets = {kind: ImageSet(names, [folder / f"{kind}{number}.png" for number in range(count)]) for kind, names in ids.items()}
    for images in sets.values():
        for number, path in enumerate(images.paths):
            pixels = np.random.default_rng(number).integers(0, 255, (300, 400, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path, compress_level=1)
    sets["R"].paths[-1].write_bytes(b"no image")
    references = np.random.default_rng(0).standard_normal((count, 4)).astype(np.float32)
    drawn = np.random.default_rng(seed + 1).standard_normal((count, 4)).astype(np.float32)
    parts = [
        Vectors(ids[kind], part, np.zeros(count, bool)) for kind, part in (("Q", references + noise * drawn), ("R", references))
    ]
    truth = GroundTruth(ids["Q"], frozenset(zip(ids["Q"][:copies], ids["R"][:copies], strict=True)))
    scores, ranked = evaluate(parts[0], parts[1], truth)
    (folder / "edits.csv").write_text("query_id,edits\nQ1,crop blur\nQ2,crop\n")
    return ReportInputs(
        title="a <b>bold</b> run",
        variants=[{"name": "ensemble & more", "submitted": True} | scores.as_dict()],
        scores=scores.as_dict(),
        interval=Interval(0.5, 0.4, 0.6),
        ranked=ranked,
        ground_truth=truth,
        queries=sets["Q"],
        references=sets["R"],
        edits_file=folder / "edits.csv",
        recipe="seed: 0  # <i>",
        code="abc",
        curves={
            "net <b>$1$": pd.DataFrame({"stage": [1, 2], "loss": [3.0, 2.0], "validation": [0.3, None]}),
            "untrained": pd.DataFrame(),
        },
        steps=[StepDone("01_train-net", 1.5, "abc <i>")],
        versions={"Python": "3.11"},
        warnings=["the submission is <weak>"],
        synthetic={"µAP": 0.4, "left-out families": 0.3},
    )
