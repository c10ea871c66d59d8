"""The network that match.py uses, and the rule by which it calls a pair a copy."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from image_copies.data.discovery import discover
from image_copies.data.errors import UserError
from image_copies.matching.calibration import calibrate_on_images, calibrate_on_run
from image_copies.matching.extractor import Extractor, checkpoint_extractor, onnx_extractor, run_extractor
from image_copies.matching.index.calibration import Tail
from image_copies.matching.index.matches import Rule
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.run.run import Run, list_runs, open_existing_run


@dataclass(frozen=True)
class Model:
    """The network that turns pictures into vectors.

    Attributes:
        extractor: Networks, projection and query normalisation.
        run: The run they come from; None for a checkpoint or an ONNX file.
    """

    extractor: Extractor
    run: Run | None


def open_model(run: Path | None, data: Path | None, checkpoint: Path | None, onnx: Path | None) -> Model:
    """Open a checkpoint or an ONNX file if one is given, otherwise a run.

    Args:
        run: Folder of the run; None for the latest run or, if there is none, the descriptor that ships with the project.
        data: Where the run's data set has been moved to; None if it has not.
        checkpoint: A .safetensors file; None for none.
        onnx: An .onnx file of `export.py`; None for none.

    Raises:
        UserError: when the file or run is missing or cannot be used.
    """
    if checkpoint is not None:
        return Model(checkpoint_extractor(checkpoint), None)
    if onnx is not None:
        return Model(onnx_extractor(onnx), None)
    if run is None and not list_runs() and SHIPPED.is_file():
        return Model(checkpoint_extractor(SHIPPED), None)
    opened = open_existing_run(run, data)
    return Model(run_extractor(opened), opened)


def make_rule(model: Model, threshold: float | None, rate: float, most: int, unrelated: Sequence[Path] = ()) -> Rule:
    """Make the rule by which a pair counts as a copy.

    Args:
        model: The network.
        threshold: Lowest score of a copy; None to calibrate it.
        rate: Expected false alarms per query that copies nothing, between 0 and 1.
        most: Maximum number of references per query.
        unrelated: Sources of pictures to calibrate on, not copies of each other; () for the run's own.

    Raises:
        UserError: when calibration fails and no threshold is given.
    """
    return Rule(threshold, _tail(model, unrelated, threshold is not None), rate, most)


def _tail(model: Model, unrelated: Sequence[Path], optional: bool) -> Tail | None:
    if unrelated:
        return calibrate_on_images(model.extractor, discover(unrelated).images())
    try:
        return calibrate_on_run(model.run, model.extractor) if model.run is not None else model.extractor.tail
    except UserError:
        if optional:
            return None  # the rates are not known; the threshold is the user's own
        raise
