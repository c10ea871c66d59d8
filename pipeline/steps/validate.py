"""Validation, by images that nothing is fitted on: during training, and of all variants and what they must beat.

No query or reference is looked at, so that data without ground truth are warned of, too: step 06 prints table and warnings for
them as well (score_table.py).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

from image_copies.data.errors import UserError, prefix_errors
from image_copies.data.files import whole_file
from image_copies.data.ground_truth import GroundTruth, read_ground_truth
from image_copies.data.images import ImageSet, find_images
from image_copies.data.labels import read_class_folders
from image_copies.data.layout import GROUND_TRUTH, QUERY, REFERENCE
from image_copies.models.inference.embed import embed_images
from image_copies.models.inference.handmade import fit_handmade
from image_copies.models.inference.protocols import View, embed_view
from image_copies.models.inference.settings import EmbeddingSettings, HandmadeModelSettings
from image_copies.models.network.checkpoint import Checkpoint
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.handmade import IMAGE_SIZE
from image_copies.models.network.settings import HandmadeKind, HandmadeSettings
from image_copies.models.training.trainer import Watch
from image_copies.pipeline.run.run import Run, TrainingRoles, assign_training_roles
from image_copies.pipeline.run.step import search_on_gpu
from image_copies.pipeline.steps.augment import family_truths, synthetic_truths
from image_copies.pipeline.steps.ensemble import open_joined, project_candidates
from image_copies.pipeline.steps.score_table import BASELINE, ENSEMBLE, MODEL, SUBMITTED, find_warnings
from image_copies.submissions.ensemble.normalization import METHODS, with_betas
from image_copies.submissions.ensemble.selection import (
    apply_normalizations,
    find_best_beta,
    find_usable_methods,
    score_families,
    score_synthetic,
)
from image_copies.submissions.ensemble.variant import ONE_FAMILY, read_choice
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.scoring.retrieval import recall_at
from image_copies.submissions.vectors.concatenated import open_concatenated
from image_copies.submissions.vectors.files import Vectors, read_vectors


@search_on_gpu()
def score_on_synthetic_queries(
    run: Run, roles: TrainingRoles, descriptor: Descriptor, image_size: int, settings: EmbeddingSettings
) -> float:
    """Compute the µAP 0…1 of a descriptor on the synthetic queries, without ensemble and normalisation.

    The queries are searched in the validation references, as squares of `image_size` pixels. The descriptor is left in training
    mode.

    Raises:
        UserError: when the synthetic queries are missing or their ground truth cannot be read.
    """
    checkpoint = Checkpoint(descriptor, image_size, {})
    found = embed_in_memory(settings, checkpoint, find_images(run.paths.query_images))
    references = embed_in_memory(settings, checkpoint, roles.references)
    descriptor.train()
    scores, _ = evaluate(found, references, read_ground_truth(run.paths.query_ground_truth))
    return scores.micro_average_precision


def embed_in_memory(settings: EmbeddingSettings, checkpoint: Checkpoint, images: ImageSet) -> Vectors:
    """Embed images without a file."""
    blocks = list(embed_images(checkpoint, images, settings))
    return Vectors(
        images.ids, np.concatenate([block.vectors for block in blocks]), np.concatenate([block.unreadable for block in blocks])
    )


MOST_WATCHED = 10_000  # queries, and references: a million would take longer than most epochs


def watch_folder(folder: Path, settings: EmbeddingSettings) -> Watch:
    """Return what measures a descriptor on a folder; the keys of its figures are columns of the curve.

    Raises:
        UserError: The folder has neither queries, references and their ground truth nor class folders.
    """
    return _watch_queries(folder, settings) if (folder / QUERY).is_dir() else _watch_classes(folder)


def _watch_queries(folder: Path, settings: EmbeddingSettings) -> Watch:
    truth = read_ground_truth(folder / GROUND_TRUTH)
    queries = choose_watched(find_images(folder / QUERY).select(truth.query_ids), {query for query, _ in truth.pairs})
    references = choose_watched(find_images(folder / REFERENCE), {reference for _, reference in truth.pairs})
    truth = GroundTruth(queries.ids, truth.pairs)

    def measure(descriptor: Descriptor, image_size: int, classifier: nn.Linear | None) -> dict[str, float]:
        checkpoint = Checkpoint(descriptor, image_size, {})
        found, among = (embed_in_memory(settings, checkpoint, images) for images in (queries, references))
        return {"watched_uap": evaluate(found, among, truth)[0].micro_average_precision}

    return measure


def choose_watched(images: ImageSet, copies: set[str]) -> ImageSet:
    """Return at most MOST_WATCHED images: those of the true pairs first, and others from first to last."""
    order = sorted(images.ids, key=lambda image_id: image_id not in copies)
    paired = sum(image_id in copies for image_id in order)
    step = max(1, -(-(len(order) - paired) // max(1, MOST_WATCHED - paired)))
    return images.select([*order[:paired], *order[paired::step]])


def _watch_classes(folder: Path) -> Watch:
    labelled = read_class_folders(folder)
    labels = torch.from_numpy(labelled.labels)

    def measure(descriptor: Descriptor, image_size: int, classifier: nn.Linear | None) -> dict[str, float]:
        view = View(descriptor.eval(), image_size, "center_crop")
        figures = {"watched_recall": recall_at(embed_view(view, labelled.images), labelled.labels, (1,))[1]}
        if classifier is None:
            return figures
        if classifier.out_features != len(labelled.names):
            raise UserError(f"{folder} has {len(labelled.names)} classes, the classifier {classifier.out_features}.")
        with torch.inference_mode():
            weight, bias = classifier.weight.cpu(), classifier.bias.cpu()
            logits = functional.linear(torch.from_numpy(embed_view(view, labelled.images, raw=True)), weight, bias)
        loss, top1 = functional.cross_entropy(logits, labels), (logits.argmax(1) == labels).float().mean()
        return figures | {"watched_top1": float(top1), "watched_loss": float(loss)}

    return measure


FLOORS: dict[HandmadeKind, str] = {"pixels": "whitened grey pixels", "gabor": "Gabor energies"}
DIMENSIONS, MOST_IMAGES = 256, 4096  # of a baseline; training images that its whitening is fitted on


@search_on_gpu()
def write_synthetic_board(run: Run) -> None:
    """Score everything on the synthetic queries, write the table and print its warnings."""
    names, roles = run.recipe.queries.left_out, assign_training_roles(run)
    (truth, left_out), families = synthetic_truths(run.paths, names), family_truths(run.paths, names)
    rows: list[dict[str, Any]] = [
        {"kind": kind, "name": name}
        | score_synthetic(queries, references, truth, left_out)
        | score_families(queries, references, families)
        for kind, name, queries, references in (*_competitors(run, roles), *_variants(run, roles))
    ]
    with whole_file(run.paths.synthetic_board) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)
    if families:
        alone = ", ".join(f"{name} {rows[-1][f'{ONE_FAMILY}{name}']:.3f}" for name in families)
        print(f"  µAP of the submitted variant on each left-out family alone: {alone}")
    for warning in find_warnings(pd.DataFrame(rows), run.recipe.models):
        print(f"  warning: {warning}")
    if not run.recipe.baselines:
        print(f"  {' and '.join(FLOORS.values())} are not scored (baselines: false): a submission below them is not warned of")


def _competitors(run: Run, roles: TrainingRoles) -> Iterator[tuple[str, str, Vectors, Vectors]]:
    """Kind, name, synthetic queries and the images that they are searched in, of every baseline and model."""
    handmade = {model.kind for model in run.recipe.models.values() if isinstance(model, HandmadeModelSettings)}
    if run.recipe.baselines:
        for floor, name in FLOORS.items():
            if floor not in handmade and len(roles.classes) > 2:
                yield BASELINE, name, *_embed_baseline(run, roles, floor)
    for name, model in run.recipe.models.items():
        kind = BASELINE if isinstance(model, HandmadeModelSettings) else MODEL
        training = open_concatenated([run.paths.embeddings(name, "training")])
        rows = np.sort(training.rows_of(roles.references.ids))
        references = Vectors([training.ids[row] for row in rows], training.rows(rows), training.unreadable[rows])
        yield kind, name, read_vectors(run.paths.embeddings(name, "synthetic")), references


def _embed_baseline(run: Run, roles: TrainingRoles, kind: HandmadeKind) -> tuple[Vectors, Vectors]:
    images = roles.classes.select(roles.classes.ids[:MOST_IMAGES])
    settings = EmbeddingSettings(workers=run.recipe.embedding.workers)
    descriptor, _ = fit_handmade(HandmadeSettings(kind=kind, dimensions=DIMENSIONS), images, settings.workers)
    checkpoint = Checkpoint(descriptor, IMAGE_SIZE, {})
    queries = embed_in_memory(settings, checkpoint, find_images(run.paths.query_images))
    return queries, embed_in_memory(settings, checkpoint, roles.references)


def _variants(run: Run, roles: TrainingRoles) -> Iterator[tuple[str, str, Vectors, Vectors]]:
    """List the ensemble as a competitor without and with each normalisation at its best β; at the end the chosen one again."""
    variant, table = read_choice(run.paths.choice)
    training, synthetic = (open_joined(run.paths, run.recipe.models, part) for part in ("training", "synthetic"))
    most = max(run.recipe.ensemble.dimensions)  # as many as it was chosen with, so that not a bit differs
    candidates = project_candidates(
        training=training, synthetic=synthetic, roles=roles, recipe=run.recipe, dimensions=most, weights=variant.weights
    )
    queries, references, known = candidates.weight(variant.dimensions, variant.eigen_power)
    betas = {method: find_best_beta(table, variant, method) for method in METHODS}
    settings = with_betas(run.recipe.normalization, betas)
    if variant.method not in find_usable_methods(settings, len(known)):
        settings = with_betas(run.recipe.normalization, {variant.method: variant.beta})  # an error says what it lacks
    with prefix_errors(candidates.name):
        normalized = apply_normalizations(queries.vectors, known, settings)
    for method, beta, moved in normalized:
        name = ENSEMBLE if method == "none" else f"{METHODS[method].label} (β {beta:g})"
        yield ENSEMBLE, name, Vectors(queries.ids, moved, queries.unreadable), references
    chosen = next(moved for method, _, moved in normalized if method == variant.method)
    yield SUBMITTED, SUBMITTED, Vectors(queries.ids, chosen, queries.unreadable), references
