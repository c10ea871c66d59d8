"""A run's descriptor, or one checkpoint, as an ONNX file."""

from dataclasses import asdict
from pathlib import Path

from models.inference.onnx_export import LinearMap, export_onnx
from models.network.checkpoint import load_descriptor
from models.settings import EmbeddingSettings
from pipeline.run.provenance import code_version
from pipeline.run.run import Run, open_existing_run
from pipeline.tools.extractor import run_checkpoints, run_embeddings
from submissions.ensemble.projection import load_projection
from submissions.ensemble.variant import read_choice


def export(output: Path, checkpoint: Path | None = None, run: Path | None = None, data: Path | None = None) -> None:
    """Write the file and print how far its vectors are from torch's.

    Args:
        output: The ONNX file.
        checkpoint: The network to export; without it a run.
        run: The run's folder; without it the latest one.
        data: Where the run's data set has moved to.
    """
    if checkpoint is not None:
        difference = export_checkpoint(checkpoint, output)
    else:
        difference = export_run(open_existing_run(run, data), output)
    print(f"{output}: {output.stat().st_size / 1e6:.1f} MB, differs from torch by at most {difference:.1e}")


def export_checkpoint(checkpoint: Path, output: Path) -> float:
    """One network's own vectors."""
    notes = {"code": code_version(), "checkpoint": checkpoint.name}
    return export_onnx([(load_descriptor(checkpoint), EmbeddingSettings())], None, notes, output)


def export_run(run: Run, output: Path) -> float:
    """All models of the run, joined and projected as its references are."""
    checkpoints = [load_descriptor(path) for path in run_checkpoints(run)]
    projection = load_projection(run.require(run.paths.projection))
    variant, _ = read_choice(run.paths.choice)
    linear = LinearMap(projection.mean, projection.weighted_axes(variant.dimensions, variant.eigen_power))
    notes = {"code": code_version(), "models": list(run.recipe.models), "variant": asdict(variant)}
    return export_onnx(list(zip(checkpoints, run_embeddings(run), strict=True)), linear, notes, output)
