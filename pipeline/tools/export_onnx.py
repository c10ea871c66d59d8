"""export.py's work: what goes into the ONNX file."""

import argparse
from dataclasses import asdict
from pathlib import Path

from models.inference.onnx_export import LinearMap, export_onnx
from models.network.checkpoint import load_descriptor
from models.settings import EmbeddingSettings
from pipeline.run.known_run import open_known_run
from pipeline.run.stage import Run, code_version, require
from pipeline.tools.extractor import run_checkpoints, run_embeddings
from submissions.ensemble.projection import load_projection
from submissions.ensemble.variant import read_choice


def export(options: argparse.Namespace) -> None:
    """Write the file that the options name and say how far it is from torch."""
    if options.checkpoint is not None:
        difference = export_checkpoint(options.checkpoint, options.output)
    else:
        difference = export_run(open_known_run(options.run, options.data), options.output)
    size = options.output.stat().st_size / 1e6
    print(f"{options.output}: {size:.1f} MB, differs from torch by at most {difference:.1e}")


def export_checkpoint(checkpoint: Path, output: Path) -> float:
    """One network's own vectors."""
    notes = {"code": code_version(), "checkpoint": checkpoint.name}
    return export_onnx([(load_descriptor(checkpoint), EmbeddingSettings())], None, notes, output)


def export_run(run: Run, output: Path) -> float:
    """All models of the run, joined and projected as its references are."""
    folder = run.folder / "ensemble"
    checkpoints = [load_descriptor(path) for path in run_checkpoints(run)]
    projection = load_projection(require(folder / "projection.h5", "03_ensemble", run))
    variant, _ = read_choice(folder)
    linear = LinearMap(projection.mean, projection.weighted_axes(variant.dimensions, variant.eigen_power))
    notes = {"code": code_version(), "models": list(run.recipe.models), "variant": asdict(variant)}
    return export_onnx(list(zip(checkpoints, run_embeddings(run), strict=True)), linear, notes, output)
