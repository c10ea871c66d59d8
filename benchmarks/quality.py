"""Scores of a descriptor on sets in the ISC2021 layout: µAP and recalls, raw and normalised, by edit, and of baselines.

python benchmarks/quality.py DIR [DIR …]                                     the descriptor that ships
python benchmarks/quality.py DIR --checkpoint FILE --name "15 minutes"       another one
python benchmarks/quality.py DIR --with FILE.onnx --name "with SSCD"          what ships, and any network joined
python benchmarks/quality.py DIR --run RUN --name "15 minutes"                a run: all its models, joined, with its seed
python benchmarks/quality.py --docs                                          write the documents' tables from quality.json

A set's name is its folder's. Results are kept in a file, of which the documents' tables are made.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd
from measurements import Figures, Measurements
from numpy.typing import NDArray
from page_tables import make_table, show_mean, write_tables
from PIL import Image

from image_copies.data.decode import decode_rgb
from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.images import ImageSet
from image_copies.data.layout import GROUND_TRUTH, QUERY_EDITS, open_isc_folder
from image_copies.matching.extractor import Extractor
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.run.cli import report_errors
from image_copies.pipeline.run.run import open_existing_run
from image_copies.pipeline.tools.networks import open_extractor
from image_copies.submissions.ensemble.projection import fit_projection
from image_copies.submissions.scoring.metrics import evaluate, micro_average_precision_interval
from image_copies.submissions.vectors.files import Vectors

RESULTS = Path(__file__).with_name("quality.json")
COMMAND = "benchmarks/quality.py --docs"
SHIPS = "what ships"
FALSE_ALARMS = 0.001  # per query, expected at the threshold
BY_NUMBER = "edits: "  # begins the name of a row of the copies that have so many
VARIANTS = "raw", "normalised"  # queries as they are, and normalised
GREY_DIMENSIONS = 256
HARDEST = 3  # edits of a set in the table, those whose originals rank first most rarely
SHARES = {"first": "rank 1", "reported": "above the threshold"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path, nargs="*", metavar="DIR")
    parser.add_argument("--checkpoint", type=Path, default=SHIPPED, metavar="FILE")
    parser.add_argument("--with", dest="joined", type=Path, metavar="FILE", help="joined with the checkpoint or the run")
    parser.add_argument("--run", type=Path, metavar="RUN")
    parser.add_argument("--name", default=SHIPS, help=f"of the descriptor in the tables (default: {SHIPS})")
    parser.add_argument("--seed", type=int, help="that it was trained with (default: the run's, or 0)")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE.json")
    parser.add_argument("--docs", action="store_true", help="also write the tables of quality.md and model_card.md")
    options = parser.parse_args()
    with report_errors():
        store = Measurements.open(options.results)
        run = open_existing_run(options.run, None) if options.run else None
        seed = options.seed if options.seed is not None else run.recipe.seed if run else 0
        for root in options.sets:
            about = {"set": root.name}
            extractor = open_extractor(options.run, None, None if run else options.checkpoint, options.joined)
            store.measure(options.name, about, [seed], partial(score_set, root, extractor))
            store.measure("baselines", about, [0], partial(score_floors, root))
        tables = make_tables(store)
        sys.stdout.write("\n\n".join(tables.values()) + "\n")
        if options.docs:
            write_tables(tables, COMMAND)


def score_set(root: Path, extractor: Extractor, _seed: int) -> Figures:
    """Return the scores of a descriptor on a set, raw and normalised, and the shares of copies found by edit."""
    folder, truth = open_isc_folder(root), read_ground_truth(root / GROUND_TRUTH)
    queries, references = extractor.extract_all(folder.query), extractor.extract_all(folder.reference)
    moved = Vectors(queries.ids, extractor.normalize(queries.vectors), queries.unreadable)
    figures = {"queries": float(len(queries.ids)), "copies": float(len(truth.pairs)), "references": float(len(references.ids))}
    figures |= score_queries("raw", queries, references, truth)
    if extractor.normalizer:
        figures |= score_queries("normalised", moved, references, truth)
    tail = extractor.calibrate()
    tail = tail and tail.against(references.readable)
    threshold = tail.threshold(FALSE_ALARMS, len(references.ids)) if tail else None
    if (root / QUERY_EDITS).is_file():
        figures |= count_by_edit(root / QUERY_EDITS, moved, references, truth, threshold)
    return figures


def score_queries(variant: str, queries: Vectors, references: Vectors, truth: GroundTruth) -> Figures:
    """Return µAP, the bounds of its interval and the recalls."""
    scores, ranked = evaluate(queries, references, truth)
    interval = micro_average_precision_interval(ranked, truth)
    found = {"µAP": scores.micro_average_precision, "low": interval.low, "high": interval.high}
    found |= {"R@P90": scores.recall_at_precision_90, "R@1": scores.recall_at_rank_1}
    return {f"{variant} {figure}": float(value) for figure, value in found.items()}


def score_floors(root: Path, _seed: int) -> Figures:
    """Return µAP without learning: of 64-bit perceptual hashes, and of grey pixels whitened on the folder's training images."""
    folder, truth = open_isc_folder(root), read_ground_truth(root / GROUND_TRUTH)
    hashes = tuple(describe_images(part, hash_picture) for part in (folder.query, folder.reference))
    training, *parts = (describe_images(part, shrink_picture) for part in (folder.training, folder.query, folder.reference))
    projection = fit_projection(training.readable())
    dimensions = min(GREY_DIMENSIONS, len(projection.axes))
    white = tuple(Vectors(part.ids, projection.apply(part.vectors, dimensions, -0.5), part.unreadable) for part in parts)
    scored = {"64-bit perceptual hash": hashes, "whitened grey pixels": white}
    return {
        name: evaluate(queries, references, truth)[0].micro_average_precision for name, (queries, references) in scored.items()
    }


def hash_picture(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the DCT hash as float32 [64] of ±1/8, of unit length."""
    imagehash: Any = import_module("imagehash")
    return np.where(imagehash.phash(Image.fromarray(pixels)).hash.ravel(), 0.125, -0.125).astype(np.float32)


def shrink_picture(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return 24 × 24 grey values as float32 [576] with mean 0 and unit length."""
    small = cv2.resize(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), (24, 24), interpolation=cv2.INTER_AREA)
    values = small.astype(np.float32).ravel()
    values -= values.mean()
    return values / max(float(np.linalg.norm(values)), 1e-6)


def describe_images(images: ImageSet, describe: Callable[[NDArray[np.uint8]], NDArray[np.float32]]) -> Vectors:
    """Describe every image, decoded with a short side of 64 pixels."""
    rows = np.stack([describe(decode_rgb(path, short_side=64)) for path in images.paths])
    return Vectors(images.ids, rows, np.zeros(len(rows), bool))


def count_by_edit(edits: Path, queries: Vectors, references: Vectors, truth: GroundTruth, threshold: float | None) -> Figures:
    """Return for each edit, and number of edits, the copies, the share whose original ranks first, and that also reported."""
    squares = (queries.vectors**2).sum(1)[:, None] + (references.vectors**2).sum(1) - 2 * queries.vectors @ references.vectors.T
    nearest = squares.argmin(axis=1)
    own = dict(truth.pairs)
    rows = pd.DataFrame({"query_id": queries.ids, "found": [references.ids[row] for row in nearest]})
    rows["copy"] = rows["query_id"].isin(list(own))
    rows["first"] = rows["found"] == rows["query_id"].map(own)
    rows["near"] = squares[np.arange(len(nearest)), nearest] <= (-np.inf if threshold is None else threshold)
    rows["reported"] = rows["first"] & rows["near"]
    listed = pd.read_csv(edits, keep_default_na=False)
    listed["edit"] = listed["edits"].str.split()
    copies = rows[rows["copy"]].merge(listed.assign(number=listed["edit"].str.len()), on="query_id")
    parts = {"any": copies}
    if copies["number"].nunique() > 1:
        parts |= {f"{BY_NUMBER}{number}": part for number, part in copies.groupby("number")}
    parts |= {str(edit): part for edit, part in copies.explode("edit").groupby("edit")}
    figures = {"wrong": float((rows["near"] & ~rows["first"]).sum())}
    for edit, part in parts.items():
        figures[f"{edit}: copies"] = float(len(part))
        figures |= {f"{edit}: {share}": float(part[share].mean()) for share in SHARES}
    return figures


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the tables by the document that they stand in."""
    return {"quality.md": make_board(store), "model_card.md": make_edit_table(store)}


def make_board(store: Measurements) -> str:
    """Return the scores of all that was measured, set by set; the mean and the spread of several seeds."""
    rows = list[list[str]]()
    for set_name, name in dict.fromkeys((entry["about"]["set"], entry["name"]) for entry in store.measurements):
        runs = [entry["figures"] for entry in store.find(name, {"set": set_name}).values()]
        if name == "baselines":
            rows += [[set_name, baseline, show_mean([run[baseline] for run in runs]), "", "", ""] for baseline in runs[0]]
            continue
        variant = [variant for variant in VARIANTS if f"{variant} µAP" in runs[0]][-1]
        recalls = [show_mean([run[f"{variant} {figure}"] for run in runs]) for figure in ("R@P90", "R@1")]
        rows.append([set_name, name, *(show_precision(runs, variant) for variant in VARIANTS), *recalls])
    return make_table(
        ["set", "", "µAP, as it is", "µAP, queries normalised", "R@P90", "R@1"], sorted(rows, key=lambda row: row[0])
    )


def show_precision(runs: list[Figures], variant: str) -> str:
    """Return µAP: of one run with its interval; nothing for queries that were not normalised."""
    if f"{variant} µAP" not in runs[0]:
        return ""
    shown = show_mean([run[f"{variant} µAP"] for run in runs])
    if len(runs) > 1:
        return shown
    return f"{shown} ({runs[0][f'{variant} low']:.3f} to {runs[0][f'{variant} high']:.3f})"


def make_edit_table(store: Measurements) -> str:
    """Return the shares of copies that what ships finds: of all, by the number of edits, and of the edits that it finds least."""
    found = {
        entry["about"]["set"]: entry["figures"]
        for entry in sorted(store.measurements, key=lambda entry: str(entry["about"]["set"]))
        if entry["name"] == SHIPS
    }
    rows = list[list[str]]()
    for set_name, figures in found.items():
        edits = [key.removesuffix(": first") for key in figures if key.endswith(": first")]
        apart = [edit for edit in edits if edit == "any" or edit.startswith(BY_NUMBER)]
        hardest = sorted((edit for edit in edits if edit not in apart), key=lambda edit: figures[f"{edit}: first"])[:HARDEST]
        for edit in [*apart, *hardest]:
            shares = [f"{figures[f'{edit}: {share}']:.2f}" for share in SHARES]
            rows.append([set_name, edit, f"{figures[f'{edit}: copies']:.0f}", *shares])
    return make_table(["set", "edit", "copies", *SHARES.values()], rows)


if __name__ == "__main__":
    main()
