"""What each part of the pipeline adds: short trainings from nothing that differ in one thing, a run's vectors joined otherwise.

    python benchmarks/ablation.py --trainings DIR [--seeds 1] [--only NAME …]      joins ablation.json
    python benchmarks/ablation.py --run RUN
    python benchmarks/ablation.py --docs                                             writes the tables of experiments.md

--trainings: every training sees the same number of images, of the same 8,000 of DIR's training images (ISC2021 layout), and is
scored on DIR's queries as they are, which take part in neither training nor any choice. --run: the vectors of a finished run, in
which one thing is changed, once for each seed of the recipe. Results are kept in a file: a stopped benchmark goes on, and
both parts are shown together.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from measurements import Figures, Measurements
from page_tables import make_table, parse_options, show_mean

from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.images import ImageSet
from image_copies.data.layout import IscFolder, open_isc_folder
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import Checkpoint, load_descriptor, require_trained_network
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.trainer import Trainer
from image_copies.pipeline.run.cli import report_errors
from image_copies.pipeline.run.run import Run, open_existing_run
from image_copies.submissions.ensemble.normalization import normalize_by_variant
from image_copies.submissions.ensemble.projection import fit_projection
from image_copies.submissions.ensemble.variant import Variant, read_choice, tabulate_variant
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.vectors.files import Vectors, read_vectors

RESULTS = Path(__file__).with_name("ablation.json")
COMMAND = "benchmarks/ablation.py --docs"
OVERLAYS = 500  # training images that are pasted from, not trained on
LEARNT = 8000  # training images, each a class
STEPS = 1600  # of every training, whatever its stages
STAGES = ((500, 0.3, 40, 300), (2000, 0.5, 48, 500), (8000, 0.6, 48, 800))  # classes, intensity, pixels, steps
ITERATIONS = 50  # steps of an epoch
FIGURES = {"µAP": False, "µAP with mirror images": True}  # whether the mirror image is embedded too
PAIRS = {"kind": "repeated", "copies": 2}
Change = Callable[[dict[str, Any]], None]


def describe_base() -> dict[str, Any]:
    """The training that all others are compared with: drip ArcFace as the shipped networks began, in an eighth of the steps."""
    stages = [
        {"classes": classes, "intensity": intensity, "image_size": size, "epochs": steps // ITERATIONS}
        for classes, intensity, size, steps in STAGES
    ]
    for stage in stages:
        stage |= {"batch_size": 64, "iterations": ITERATIONS, "centroid_edits": 1}
    stages[-1] |= {"last_learning_rate_factor": 0.01}
    return {
        "descriptor": {"backbone": "test_efficientnet", "dimensions": 256},
        "extra_edits": True,
        "precision": "bf16",
        "workers": 1,
        "optimizer": {"learning_rate": 2e-3, "class_learning_rate": 1e-2},
        "scheduler": {"kind": "constant"},
        "stages": stages,
    }


def _in_all_stages(**values: Any) -> Change:
    def change(model: dict[str, Any]) -> None:
        for stage in model["stages"]:
            stage |= values

    return change


def _set(**values: Any) -> Change:
    return lambda model: model.update(values)


def _all_at_once(model: dict[str, Any]) -> None:
    model["stages"] = [model["stages"][-1] | {"epochs": STEPS // ITERATIONS}]


def _compare_pairs(objective: dict[str, Any], **values: Any) -> Change:
    """An objective without class rows: all classes at once, two copies of each image in a batch of the same number of images."""

    def change(model: dict[str, Any]) -> None:
        _all_at_once(model)
        model |= {"objective": objective, "sampling": PAIRS} | values

    return change


def list_trainings() -> dict[str, Change]:
    """What is changed, by name; the first changes nothing."""
    infonce = {"kind": "infonce"}
    return {
        "as it is": lambda model: None,
        "all classes at once, not drip by drip": _all_at_once,
        "without the extra edits": _set(extra_edits=False),
        "intensity 0.6 from the beginning": _in_all_stages(intensity=0.6),
        "48 px from the beginning": _in_all_stages(image_size=48),
        "further edits too (`edits: broad`)": _set(edits="broad"),
        "ArcFace without margin": _set(objective={"kind": "arcface", "margin": 0.0}),
        "MixUp": _set(mix={"kind": "mixup"}),
        "InfoNCE": _compare_pairs(infonce),
        "triplet": _compare_pairs({"kind": "triplet"}),
        "multi-similarity": _compare_pairs({"kind": "multi_similarity"}),
        "margin loss": _compare_pairs({"kind": "margin"}),
    }


def measure_trainings(store: Measurements, root: Path, seeds: int, only: Sequence[str]) -> None:
    data = open_isc_folder(root)
    drawn = [data.training.ids[row] for row in np.random.default_rng(0).permutation(len(data.training))[: LEARNT + OVERLAYS]]
    classes, overlays = data.training.select(drawn[:-OVERLAYS]), data.training.select(drawn[-OVERLAYS:])
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, change) in enumerate(list_trainings().items()):
            if only and name not in only:
                continue
            model = describe_base()
            change(model)
            about = {"part": "training", "data": root.name, "model": model}

            def work(seed: int, model: dict[str, Any] = model, name: str = name, number: int = number) -> dict[str, float]:
                print(f"{name}, seed {seed}", flush=True)
                place = Path(folder) / f"{number}-{seed}"
                settings = ModelSettings.model_validate(model)
                path = Trainer(settings, classes, overlays, place, Path(folder) / "cache", seed, None, name="ablation").train()
                loaded = load_descriptor(path)
                network = require_trained_network(loaded, path)
                return {figure: score(data, network, loaded.image_size, flip) for figure, flip in FIGURES.items()}

            store.measure(name, about, range(seeds), work)


def score(data: IscFolder, descriptor: Descriptor, size: int, flip: bool = False) -> float:
    """Return µAP 0…1 of the data set's queries, of vectors with or without the mirror image's."""
    truth = read_truth(data)
    queries, references = (embed_all(descriptor, size, images, flip) for images in (data.query, data.reference))
    return evaluate(queries, references, truth)[0].micro_average_precision


def read_truth(data: IscFolder) -> GroundTruth:
    if data.ground_truth is None:
        raise SystemExit(f"{data.root} has no public_ground_truth.csv to score against")
    return read_ground_truth(data.ground_truth)


def embed_all(descriptor: Descriptor, size: int, images: ImageSet, flip: bool = False) -> Vectors:
    blocks = list(embed_images(Checkpoint(descriptor, size, {}), images, EmbeddingSettings(flip=flip)))
    return Vectors(images.ids, np.concatenate([b.vectors for b in blocks]), np.concatenate([b.unreadable for b in blocks]))


def measure_run(store: Measurements, folder: Path) -> None:
    run = open_existing_run(folder)
    truth = read_truth(open_isc_folder(run.data))
    chosen, _ = read_choice(run.paths.choice)
    for name, variant in list_variants(chosen, list(run.recipe.models)).items():
        about = {"part": "ensemble", "data": run.data.name, "variant": tabulate_variant(variant)}
        store.measure(name, about, [run.recipe.seed], lambda _, variant=variant: score_variant(run, variant, truth))  # type: ignore[misc]


def list_variants(chosen: Variant, models: Sequence[str]) -> dict[str, Variant]:
    """The variants that differ from the chosen one in one thing, by what it is."""
    weights = chosen.weights or (1.0,) * len(models)
    variants = {"as it was chosen": chosen}
    for number, model in enumerate(models):
        variants[f"{model} alone"] = replace(chosen, weights=tuple(float(other == number) for other in range(len(models))))
        if len(models) > 2:
            variants[f"without {model}"] = replace(chosen, weights=(*weights[:number], 0.0, *weights[number + 1 :]))
    variants |= {f"{d} dimensions": replace(chosen, dimensions=d) for d in (64, 128, 256)}
    variants |= {f"eigenvalue power {p:g}": replace(chosen, eigen_power=p) for p in (0, -0.5)}
    variants["queries not normalised"] = replace(chosen, method="none", beta=0.0)
    return {name: variant for name, variant in variants.items() if name == "as it was chosen" or variant != chosen}


def score_variant(run: Run, variant: Variant, truth: GroundTruth) -> dict[str, float]:
    """µAP of the run's queries, projected and normalised by another variant."""
    training, queries, references = (join_vectors(run, variant, part) for part in ("training", "query", "reference"))
    learnt = training.readable()
    projection = fit_projection(learnt[: run.recipe.ensemble.training_sample])
    kept = min(variant.dimensions, len(projection.axes))
    known, asked, searched = (
        projection.apply(vectors, kept, variant.eigen_power) for vectors in (learnt, queries.vectors, references.vectors)
    )
    moved = normalize_by_variant(asked, known, variant, run.recipe.normalization)
    scores, _ = evaluate(
        Vectors(queries.ids, moved, queries.unreadable), Vectors(references.ids, searched, references.unreadable), truth
    )
    return {"µAP": scores.micro_average_precision}


def join_vectors(run: Run, variant: Variant, part: str) -> Vectors:
    """One set's vectors of the models that the variant uses, each times its weight."""
    models = list(run.recipe.models)
    weights = variant.weights or (1.0,) * len(models)
    used = [(read_vectors(run.paths.embeddings(m, part)), weight) for m, weight in zip(models, weights, strict=True) if weight]
    vectors = np.concatenate([found.vectors * np.float32(weight) for found, weight in used], axis=1)
    return Vectors(used[0][0].ids, vectors, np.logical_or.reduce([found.unreadable for found, _ in used]))


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the tables of experiments.md: what is changed of a run's vectors, and of a training."""
    tables = []
    for part in ("ensemble", "training"):
        rows: dict[str, list[Figures]] = {}
        for entry in store.measurements:
            if entry["about"].get("part") == part:
                rows.setdefault(entry["name"], []).append(entry["figures"])
        figures = list(next(iter(rows.values()))[0])
        cells = [[name, *(show_mean([run[figure] for run in runs]) for figure in figures)] for name, runs in rows.items()]
        tables.append(make_table(["change", *figures], cells))
    return {"experiments.md": "\n\n".join(tables)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainings", type=Path, metavar="DIR", help="train on this folder in the ISC2021 layout")
    parser.add_argument("--run", type=Path, metavar="RUN", help="join this run's vectors")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each kind (default: 1)")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="only these trainings")
    options, store = parse_options(parser, RESULTS, make_tables, COMMAND, with_data=False)
    with report_errors():
        if options.trainings:
            measure_trainings(store, options.trainings, options.seeds, options.only)
        if options.run:
            measure_run(store, options.run)
    print(*make_tables(store).values())


if __name__ == "__main__":
    main()
