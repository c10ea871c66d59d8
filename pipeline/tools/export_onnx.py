"""Export of a run's descriptor, or of one checkpoint, as an ONNX file."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.models.inference.onnx_export import LinearMap, add_graph, export_onnx
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import load_descriptor
from image_copies.pipeline.run.provenance import code_version
from image_copies.pipeline.run.run import Run, open_existing_run
from image_copies.pipeline.tools.run_extractor import run_checkpoints, run_embeddings
from image_copies.submissions.ensemble.projection import load_projection
from image_copies.submissions.ensemble.variant import read_choice

PHOTOGRAPHS = 100  # training images of a run on which its export is verified


def export(output: Path, checkpoint: Path | None = None, run: Path | None = None, data: Path | None = None) -> None:
    """Write a checkpoint or a run, by default the latest, as an ONNX file; print how much its vectors differ from torch's.

    `data` says where the run's data set has been moved to.

    Raises:
        UserError: when the checkpoint or the run cannot be used, or the file's vectors differ too much from those of torch.
    """
    if checkpoint is not None:
        difference = export_checkpoint(checkpoint, output)
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


def export_checkpoint(checkpoint: Path, output: Path) -> float:
    """Export a single network; return the largest absolute difference from torch in a coordinate."""
    notes = {"code": code_version(), "checkpoint": checkpoint.name}
    return export_onnx([(load_descriptor(checkpoint), EmbeddingSettings())], None, notes, output)


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
