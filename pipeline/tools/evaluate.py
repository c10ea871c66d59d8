"""Evaluation on public data sets: of one checkpoint by the set's protocol and metrics, of several descriptors side by side."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from image_copies.data import ground_truth, kinds, layout, preprocessing
from image_copies.data.errors import UserError
from image_copies.matching.extractor import checkpoint_extractor, split_size
from image_copies.models.device import best_device
from image_copies.models.inference.protocols import View
from image_copies.models.network.backbones import TIMM
from image_copies.models.network.checkpoint import load_descriptor, require_trained_network
from image_copies.models.network.settings import find_file
from image_copies.submissions.formats.submission import describe_oddities, open_submission
from image_copies.submissions.scoring import any_vectors, metrics
from image_copies.submissions.vectors.files import Vectors, VectorSet

Figures = dict[str, float]  # by name


@dataclass(frozen=True)
class Source:
    """The files of an evaluation."""

    checkpoint: Path  # may have a classifier next to it
    root: Path  # the unpacked data set
    distractors: Path | None  # folder of further images to search in


def evaluate_checkpoint(
    checkpoint_file: Path,
    data_set: str,
    root: Path,
    *,
    distractors: Path | None = None,
    image_size: int | None = None,
    protocol: preprocessing.TestProtocol | None = None,
    pooling_exponent: float | None = None,
) -> None:
    """Print a table of the metrics of one of TEST_SETS, whose archive is unpacked in `root`.

    "copydays" may have distractors, a folder of further images to search in. By default images have the training size, GeM's p is
    the trained one, and the protocol that of MultiGrain, section 4.1: the centre crop up to the training size, the whole image
    above.

    Raises:
        UserError: when the checkpoint cannot be read, or the folder is not the expected data set.
    """
    checkpoint = load_descriptor(checkpoint_file)
    descriptor = require_trained_network(checkpoint, checkpoint_file).eval()
    descriptor.to(best_device(), memory_format=torch.channels_last)  # type: ignore[call-overload]
    descriptor.pool_with(pooling_exponent)
    size = image_size or checkpoint.image_size
    view = View(
        descriptor, size, protocol or ("center_crop" if size <= checkpoint.image_size else "long_side")
    )
    figures: Figures = kinds.load_kind(kinds.TEST_SETS, data_set)(
        view, Source(checkpoint_file, root, distractors)
    )
    exponent = float(descriptor.pooling.exponent.detach())
    print(f"{data_set}: {checkpoint_file}, {view.size} px, {view.protocol}, p {exponent:.2f}")
    table = Table()
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in figures.items():
        table.add_row(name, f"{value:.4f}")
    Console(width=110).print(table)


def compare_descriptors(data: Path, compared: list[str]) -> None:
    """Print a table with a row for each descriptor; the differences are to the first one, on the same resamples of the queries.

    Raises:
        UserError: The folder has no ground truth, or what is compared cannot be used with it.
    """
    for name in compared:
        if not name.startswith(TIMM) and not split_size(find_file(Path(name)))[0].is_file():
            raise UserError(
                f"{name}: there is no such file; give a checkpoint, shipped, timm:NAME, a .onnx, a .h5 or a .npy."
            )
    folder = layout.open_isc_folder(data)
    if folder.ground_truth is None:
        raise UserError(
            f"{data} has no {layout.GROUND_TRUTH}, so nothing can be scored. Add it: query_id,reference_id."
        )
    truth = ground_truth.read_ground_truth(folder.ground_truth)
    table, first = (
        Table(title=f"{data}: {len(truth.query_ids):,} queries, {len(folder.reference):,} references"),
        None,
    )
    for name in (
        "descriptor",
        "µAP",
        "95 % interval",
        "R@P90",
        "R@1",
        "µAP − first",
        "95 % interval",
        "CPU ms",
    ):
        table.add_column(name, justify="left" if name == "descriptor" else "right", overflow="fold")
    # wrong ones are seen at once
    stored = {name: _open(name, folder) for name in compared if _is_stored(name)}
    troubles = list[str]()
    for name in compared:
        queries, references, seconds = stored.get(name) or _open(name, folder)
        scores, ranked = metrics.evaluate(queries, references, truth)
        apart = _format_interval(
            None if first is None else metrics.difference_interval(first, ranked, truth), "+.4f"
        )
        own = _format_interval(metrics.micro_average_precision_interval(ranked, truth), ".4f")
        recalls = f"{scores.recall_at_precision_90:.4f}", f"{scores.recall_at_rank_1:.4f}"
        table.add_row(name, *own, *recalls, *apart, "" if seconds is None else f"{1000 * seconds:.1f}")
        first = first or ranked
        troubles += [f"{name}: {oddity}" for oddity in describe_oddities(queries, references)]
    Console(width=130).print(table)
    for trouble in troubles:
        print(f"warning: {trouble}")


def _is_stored(name: str) -> bool:
    return name.endswith((".h5", ".npy")) and not name.startswith(TIMM)


def _format_interval(interval: metrics.Interval | None, form: str) -> tuple[str, str]:
    if interval is None:
        return "", ""
    return format(interval.value, form), f"{interval.low:{form}} … {interval.high:{form}}"


def _open(name: str, folder: layout.IscFolder) -> tuple[Vectors, VectorSet, float | None]:
    """Return the vectors of queries and references, and processor seconds for each picture where they were made here."""
    if _is_stored(name):
        return *(
            open_submission(Path(name)) if name.endswith(".h5") else _read_array(Path(name), folder)
        ), None
    with tempfile.TemporaryDirectory() as place:
        path = find_file(Path(name))
        if name.startswith(TIMM):
            # imported here: only timm's networks need it
            from .export import write_timm

            path = Path(place) / "timm.safetensors"
            write_timm(name, path)
        start = _processor_seconds()
        extractor = checkpoint_extractor(path)
        queries, references = (extractor.extract_all(images) for images in (folder.query, folder.reference))
        return (
            queries,
            references,
            (_processor_seconds() - start) / (len(folder.query) + len(folder.reference)),
        )


def _processor_seconds() -> float:
    return sum(os.times()[:4])  # of child processes, too


def _read_array(path: Path, folder: layout.IscFolder) -> tuple[Vectors, Vectors]:
    """Read vectors [queries + references, d], in the order of the sorted ids."""
    found = any_vectors.read_set(path)
    counts = (len(folder.query), len(folder.reference))
    if len(found) != sum(counts):
        raise UserError(
            f"{path} has {len(found)} rows; expected a row for each of {counts[0]} queries, then {counts[1]} references."
        )
    return tuple(
        Vectors(images.ids, part, np.zeros(len(part), bool))
        for images, part in zip(
            (folder.query, folder.reference), np.split(found.vectors, [counts[0]]), strict=True
        )
    )  # type: ignore[return-value]  # mypy does not count a generator's items
