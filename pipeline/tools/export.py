"""Export: a run's descriptor as one checkpoint or ONNX file, a network of timm's, and the vectors that state false alarms."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from image_copies.augmentations.query_set import make_query_set
from image_copies.augmentations.settings import TableSettings
from image_copies.data import decode, images, layout
from image_copies.data.errors import UserError
from image_copies.data.sources.discovery import discover
from image_copies.matching import threshold
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.matching.views import VIEWS, embed_views_of, smallest_side
from image_copies.models.inference.onnx_export import LinearMap, add_graph, export_onnx
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network import backbones, base
from image_copies.models.network import settings as network
from image_copies.models.network.checkpoint import load_descriptor, save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.joined import JoinedDescriptor
from image_copies.submissions.ensemble.projection import load_projection, scale_to_unit_length
from image_copies.submissions.ensemble.variant import read_choice
from image_copies.submissions.vectors.files import Vectors

from ..run.recipe import QuerySettings
from ..run.run import Run, open_existing_run
from ..run.step import code_version
from .run_extractor import calibrate_on_run, held_out_ids, run_checkpoints, run_embeddings, run_normalizer

PHOTOGRAPHS = 100  # training images of a run on which its export is verified


def export(
    output: Path, checkpoint: Path | None = None, run: Path | None = None, data: Path | None = None
) -> None:
    """Write a checkpoint or a run, by default the latest, as an ONNX file; print how much its vectors differ from torch's.

    `data` says where the run's data set has been moved to.

    Raises:
        UserError: when the checkpoint or the run cannot be used, or the file's vectors differ too much from those of torch.
    """
    if checkpoint is not None:
        notes = {"code": code_version(), "checkpoint": checkpoint.name}
        model = load_descriptor(checkpoint), EmbeddingSettings()
        difference = export_onnx([model], None, notes, output)
    else:
        difference = export_run(open_existing_run(run, data), output)
    print(f"{output}: {output.stat().st_size / 1e6:.1f} MB, differs from torch by at most {difference:.1e}")


def add_checkpoint_graph(checkpoint: Path, photographs: Sequence[Path] = ()) -> None:
    """Write a checkpoint's graph beside it; print how much its vectors differ from torch's, on photographs, too.

    Raises:
        UserError: when the checkpoint cannot be used, or the vectors differ too much from those of torch.
    """
    difference = add_graph(checkpoint, photographs)
    print(f"{checkpoint}: beside it is its graph, which differs from torch by at most {difference:.1e}")


def export_run(run: Run, output: Path) -> float:
    """Export all models of a run with its projection; return the largest absolute difference from torch in a coordinate."""
    checkpoints = [load_descriptor(path) for path in run_checkpoints(run)]
    projection = load_projection(run.require(run.paths.projection))
    variant, _ = read_choice(run.paths.choice)
    linear = LinearMap(projection.mean, projection.weighted_axes(variant.dimensions, variant.eigen_power))
    notes = {"code": code_version(), "models": list(run.recipe.models), "variant": asdict(variant)}
    models = list(zip(checkpoints, run_embeddings(run), strict=True))
    return export_onnx(models, linear, notes, output, list_photographs(run))


def list_photographs(run: Run) -> Sequence[Path]:
    """Return training images on which an export is verified; none where the data set is gone."""
    try:
        return run.training_images.paths[:PHOTOGRAPHS]
    except UserError:
        return []


MAX_BACKGROUND = 7_500  # training vectors stored for query normalisation


def export_joined(run: Run, output: Path) -> None:
    """Write a run, finished up to step 03, as one checkpoint, with which `match.py --checkpoint` works as with the run.

    Beside it is its graph, with which that needs no torch. Weights are in half precision, which changes vectors by less
    than one part in 10,000 (cosine .99999).

    Query normalisation may differ more, because at most MAX_BACKGROUND training vectors are stored. The threshold is calibrated
    on queries that are normalised against the stored ones.

    Raises:
        UserError: when a step has not been done.
    """
    projection = load_projection(run.require(run.paths.projection))
    normalizer = run_normalizer(run)
    variant = normalizer.variant
    opened = [_open_member(*about) for about in zip(run_checkpoints(run), run_embeddings(run), strict=True)]
    members = tuple(about for _, about in opened)
    chosen = normalizer.training.rows(
        _choose_background(run, normalizer.training) if variant.method != "none" else []
    )
    background = torch.from_numpy(chosen.vectors)
    settings = network.JoinedSettings(
        members=members, dimensions=variant.dimensions, background=len(background)
    )
    joined = JoinedDescriptor(settings, [descriptor for descriptor, _ in opened])
    joined.projection_mean.copy_(torch.from_numpy(projection.mean))
    joined.projection_axes.copy_(
        torch.from_numpy(projection.weighted_axes(variant.dimensions, variant.eigen_power).T.copy())
    )
    joined.background.copy_(background)
    stored = replace(chosen, vectors=scale_to_unit_length(joined.background.float().numpy()))
    notes = {
        "code": code_version(),
        "models": list(run.recipe.models),
        "variant": asdict(variant),
        "normalization": run.recipe.normalization.model_dump(mode="json"),
        "tail": asdict(calibrate_on_run(run, replace(normalizer, training=stored), normalizer.training)),
    }
    save_descriptor(output, joined, max(member.image_size for member in members), notes, halved=True)
    add_checkpoint_graph(output, list_photographs(run))


def _choose_background(run: Run, training: Vectors) -> list[str]:
    """Return the ids of the training vectors to store, in their order; those that validate only where there is room for all."""
    readable = np.flatnonzero(~training.unreadable)
    shuffled = np.random.default_rng(run.recipe.seed).permutation(readable)
    held_out = set(held_out_ids(run))
    chosen = sorted(shuffled, key=lambda row: training.ids[row] in held_out)[:MAX_BACKGROUND]
    return [training.ids[row] for row in sorted(chosen)]


def _open_member(
    path: Path, embedding: EmbeddingSettings
) -> tuple[base.ImageDescriptor, network.MemberSettings]:
    """Return a model of the run as it embeds, and what the checkpoint says of it."""
    checkpoint = load_descriptor(path)
    descriptor = checkpoint.descriptor
    descriptor.pool_with(embedding.pooling_exponent)
    if isinstance(descriptor, JoinedDescriptor):
        descriptor.drop_background()  # it lies in another space than the run's vectors
    if isinstance(descriptor, Descriptor) and not embedding.whiten:
        descriptor.drop_whitening()
    size = embedding.image_size or checkpoint.image_size
    about = {
        "descriptor": descriptor.settings,
        "image_size": size,
        "flips": embedding.flip,
    }
    member = network.MemberSettings.model_validate(about)
    return descriptor, member.model_copy(
        update={"descriptor": network.without_weights_files(member.descriptor)}
    )


QUERIES = QuerySettings(
    count=1620,
    augmentation=TableSettings(family="query", intensity=1.0, extra=True),
    left_out=("glitch", "bubble", "swirl"),
)
MIN_PICTURES = 1000


def export_synthetic(checkpoint: Path, source: Path, others: Path) -> Path:
    """Write a checkpoint's synthetic queries next to it; return where.

    One half of the pictures of `source`, which the network has not learnt from, is edited; parts of the other half are pasted.
    MIN_REFERENCES of `others`, pictures that show nothing of `source`, are what few references are compared together with.

    Raises:
        UserError: There are too few pictures, or the checkpoint cannot be used.
    """
    extractor, pictures, further = (
        checkpoint_extractor(checkpoint),
        discover([source]).images(),
        discover([others]).images(),
    )
    if len(pictures) < MIN_PICTURES or len(further) < threshold.MIN_REFERENCES or extractor.dimensions % 2:
        raise UserError(
            f"synthetic queries need at least {MIN_PICTURES} pictures, {threshold.MIN_REFERENCES} others, and vectors "
            f"of an even number of dimensions, but there are {len(pictures)}, {len(further)} and {extractor.dimensions}. "
            "Name more pictures."
        )
    rng = np.random.default_rng(0)
    edited, pasted = (
        pictures.select([pictures.ids[row] for row in sorted(rows)])
        for rows in np.array_split(rng.permutation(len(pictures)), 2)
    )
    kept = further.select(
        [further.ids[row] for row in threshold.choose_sample(len(further), threshold.MIN_REFERENCES)]
    )
    with tempfile.TemporaryDirectory() as place:
        make_query_set(
            references=edited,
            distractors=edited,
            overlays=pasted,
            settings=QUERIES.learnt_edits,
            seed=0,
            count=QUERIES.count,
            copies=0,
            folder=Path(place) / "made",
            left_out=QUERIES.left_out_edits,
        )
        queries = images.find_images(Path(place) / "made" / layout.QUERY)
        whole, views = extractor.extract_all(queries), []
        for path in tqdm(queries.paths, desc="embedding views", unit="image", leave=False):
            drawn = rng.choice(VIEWS, threshold.DRAWN_VIEWS, replace=False)
            views.append(
                embed_views_of(extractor, decode.decode_rgb(path, short_side=smallest_side(extractor)))[
                    drawn
                ]
            )
    normalized = extractor.normalize(np.concatenate(views)).reshape(len(views), threshold.DRAWN_VIEWS, -1)
    references = extractor.extract_all(kept).readable()
    threshold.write_synthetic(
        checkpoint, threshold.SyntheticQueries(extractor.normalize(whole.vectors), normalized, references)
    )
    return threshold.synthetic_path(checkpoint)


DEFAULT_SIDE = 224  # pixels, where timm does not say what a network was trained at


def write_timm(named: str, path: Path) -> None:
    """Write a network of timm's, whose vectors are its pooled features at unit length: timm:NAME or timm:NAME=WEIGHTS.

    Raises:
        UserError: timm has no such network, its weights cannot be fetched or read, or are another one's.
    """
    name, _, weights = named.partition("=")
    if not name.removeprefix(backbones.TIMM):
        raise UserError(
            "timm: names no network; expected timm:NAME, such as timm:resnet50. See timm.list_models()."
        )
    settings = network.DescriptorSettings(backbone=name, weights=weights or "pretrained", dimensions=None)
    descriptor = Descriptor(settings)
    published = getattr(descriptor.backbone, "pretrained_cfg", None) or {}
    side = int(published.get("input_size", (3, DEFAULT_SIDE, DEFAULT_SIDE))[-1])
    kept = network.without_weights_files(settings)
    assert isinstance(kept, network.DescriptorSettings)
    descriptor.settings = kept
    save_descriptor(path, descriptor, side, {"timm": name.removeprefix(backbones.TIMM)})
