"""Export of a run's descriptor as one checkpoint: models, projection, threshold, training vectors for query normalisation."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.base import ImageDescriptor
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.joined import JoinedDescriptor
from image_copies.models.network.settings import JoinedSettings, MemberSettings, without_weights_files
from image_copies.pipeline.run.provenance import code_version
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.tools.export_onnx import add_checkpoint_graph, list_photographs
from image_copies.pipeline.tools.run_extractor import (
    calibrate_on_run,
    held_out_ids,
    run_checkpoints,
    run_embeddings,
    run_normalizer,
)
from image_copies.submissions.ensemble.projection import load_projection, scale_to_unit_length
from image_copies.submissions.vectors.files import Vectors

MAX_BACKGROUND = 7_500  # training vectors stored for query normalisation


def export_joined(run: Run, output: Path) -> None:
    """Write a run, finished up to step 03, as one checkpoint, with which `match.py --checkpoint` works as with the run.

    Beside it is its graph, with which that needs no torch.

    Only query normalisation may differ, because at most MAX_BACKGROUND training vectors are stored. The threshold is calibrated
    on queries that are normalised against the stored ones.

    Raises:
        UserError: when a step has not been done.
    """
    projection, normalizer = load_projection(run.require(run.paths.projection)), run_normalizer(run)
    variant = normalizer.variant
    opened = [_open_member(*about) for about in zip(run_checkpoints(run), run_embeddings(run), strict=True)]
    members = tuple(about for _, about in opened)
    chosen = normalizer.training.rows(_choose_background(run, normalizer.training) if variant.method != "none" else [])
    background = torch.from_numpy(chosen.vectors)
    settings = JoinedSettings(members=members, dimensions=variant.dimensions, background=len(background))
    joined = JoinedDescriptor(settings, [descriptor for descriptor, _ in opened])
    joined.projection_mean.copy_(torch.from_numpy(projection.mean))
    joined.projection_axes.copy_(torch.from_numpy(projection.weighted_axes(variant.dimensions, variant.eigen_power).T.copy()))
    joined.background.copy_(background)
    stored = replace(chosen, vectors=scale_to_unit_length(joined.background.float().numpy()))
    notes = {
        "code": code_version(),
        "models": list(run.recipe.models),
        "variant": asdict(variant),
        "normalization": run.recipe.normalization.model_dump(mode="json"),
        "tail": asdict(calibrate_on_run(run, replace(normalizer, training=stored), normalizer.training)),
    }
    save_descriptor(output, joined, max(member.image_size for member in members), notes)
    add_checkpoint_graph(output, list_photographs(run))


def _choose_background(run: Run, training: Vectors) -> list[str]:
    """Return the ids of the training vectors to store, in their order; those that validate only where there is room for all."""
    readable = np.flatnonzero(~training.unreadable)
    shuffled = np.random.default_rng(run.recipe.seed).permutation(readable)
    held_out = set(held_out_ids(run))
    chosen = sorted(shuffled, key=lambda row: training.ids[row] in held_out)[:MAX_BACKGROUND]
    return [training.ids[row] for row in sorted(chosen)]


def _open_member(path: Path, embedding: EmbeddingSettings) -> tuple[ImageDescriptor, MemberSettings]:
    """Return a model of the run as it embeds, and what the checkpoint says of it."""
    checkpoint = load_descriptor(path)
    descriptor = checkpoint.descriptor
    descriptor.pool_with(embedding.pooling_exponent)
    if isinstance(descriptor, JoinedDescriptor):
        descriptor.drop_background()  # it lies in another space than the run's vectors
    if isinstance(descriptor, Descriptor) and not embedding.whiten:
        descriptor.drop_whitening()
    size = embedding.image_size or checkpoint.image_size
    about = {"descriptor": descriptor.settings, "image_size": size, "flips": embedding.flip, "views": embedding.views}
    member = MemberSettings.model_validate(about)
    return descriptor, member.model_copy(update={"descriptor": without_weights_files(member.descriptor)})
