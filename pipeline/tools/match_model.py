"""Which network match.py works with, and from which score on it calls a pair a copy."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data.discovery import discover
from data.errors import UserError
from models.shipped import SHIPPED
from pipeline.run.run import Run, known_runs, open_existing_run
from pipeline.tools.extractor import Extractor, checkpoint_extractor, onnx_extractor, run_extractor
from pipeline.tools.match_calibration import calibrate_on_images, calibrate_on_run
from submissions.index.calibration import Tail
from submissions.index.matches import Rule


@dataclass(frozen=True)
class Model:
    """What turns pictures into vectors.

    Attributes:
        extractor: the networks.
        run: the run they come from; None for a checkpoint or an ONNX file.
    """

    extractor: Extractor
    run: Run | None


def open_model(run: Path | None, data: Path | None, checkpoint: Path | None, onnx: Path | None) -> Model:
    """Open a checkpoint or an ONNX file where one is named, otherwise a run, by default the latest one.

    Where no run is named and there is none, it is the descriptor that ships with the project.

    Raises:
        UserError: there is no such file or run.
    """
    if checkpoint is not None:
        return Model(checkpoint_extractor(checkpoint), None)
    if onnx is not None:
        return Model(onnx_extractor(onnx), None)
    if run is None and not known_runs() and SHIPPED.is_file():
        return Model(checkpoint_extractor(SHIPPED), None)
    opened = open_existing_run(run, data)
    return Model(run_extractor(opened), opened)


def make_rule(model: Model, threshold: float | None, rate: float, most: int, unrelated: Sequence[Path] = ()) -> Rule:
    """Make the rule by which a pair counts as a copy.

    Args:
        model: opened.
        threshold: the lowest score of a copy; None to have it calibrated.
        rate: false alarms to expect per query that copies nothing.
        most: references per query at most.
        unrelated: pictures to calibrate on, no copies of each other, instead of the run's.

    Raises:
        UserError: the run cannot be calibrated and no threshold is given.
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
