"""Descriptors side by side on one data set: checkpoints, timm's networks, TorchScript files, and vectors made elsewhere."""

import os
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError, UserError
from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import ImageSet
from image_copies.data.layout import GROUND_TRUTH, IscFolder, open_isc_folder
from image_copies.data.squares import resize_square
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.models.network.backbones import TIMM
from image_copies.models.network.settings import find_file
from image_copies.submissions.formats.submission import describe_oddities, open_submission
from image_copies.submissions.scoring.any_vectors import read_set
from image_copies.submissions.scoring.bootstrap import Interval, difference_interval, micro_average_precision_interval
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.vectors.files import Vectors, VectorSet

SCRIPT_SIDE, SCRIPT_BATCH = 320, 16  # pixels of the squares that TorchScript files get, as SSCD's authors advise; images at once
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def compare_descriptors(data: Path, compared: list[str]) -> None:
    """Print a table with a row for each descriptor; the differences are to the first one, on the same resamples of the queries.

    Raises:
        UserError: The folder has no ground truth, or what is compared cannot be used with it.
    """
    for name in compared:
        if not name.startswith(TIMM) and not find_file(Path(name)).is_file():
            raise UserError(
                f"{name}: there is no such file; give a checkpoint, shipped, timm:NAME, a TorchScript file, a .h5 or a .npy."
            )
    folder = open_isc_folder(data)
    if folder.ground_truth is None:
        raise UserError(f"{data} has no {GROUND_TRUTH}, so nothing can be scored. Add it: query_id,reference_id.")
    truth = read_ground_truth(folder.ground_truth)
    table, first = Table(title=f"{data}: {len(truth.query_ids):,} queries, {len(folder.reference):,} references"), None
    for name in ("descriptor", "µAP", "95 % interval", "R@P90", "µAP − first", "95 % interval", "CPU s/picture"):
        table.add_column(name, justify="left" if name == "descriptor" else "right", overflow="fold")
    stored = {name: _open(name, folder) for name in compared if _is_stored(name)}  # wrong ones are seen at once
    troubles = list[str]()
    for name in compared:
        queries, references, seconds = stored.get(name) or _open(name, folder)
        scores, ranked = evaluate(queries, references, truth)
        apart = _format_interval(None if first is None else difference_interval(first, ranked, truth), "+.4f")
        own = _format_interval(micro_average_precision_interval(ranked, truth), ".4f")
        table.add_row(name, *own, f"{scores.recall_at_precision_90:.4f}", *apart, "" if seconds is None else f"{seconds:.4f}")
        first = first or ranked
        troubles += [f"{name}: {oddity}" for oddity in describe_oddities(queries, references)]
    Console(width=130).print(table)
    for trouble in troubles:
        print(f"warning: {trouble}")


def _is_stored(name: str) -> bool:
    return name.endswith((".h5", ".npy")) and not name.startswith(TIMM)


def _format_interval(interval: Interval | None, form: str) -> tuple[str, str]:
    if interval is None:
        return "", ""
    return format(interval.value, form), f"{interval.low:{form}} … {interval.high:{form}}"


def _open(name: str, folder: IscFolder) -> tuple[Vectors, VectorSet, float | None]:
    """Return the vectors of queries and references, and processor seconds for each picture where they were made here."""
    if _is_stored(name):
        return *(open_submission(Path(name)) if name.endswith(".h5") else _read_array(Path(name), folder)), None
    with tempfile.TemporaryDirectory() as place:
        path = find_file(Path(name))
        if name.startswith(TIMM):
            # imported here: only timm's networks need it
            from image_copies.pipeline.tools.timm_checkpoint import write_timm

            network, _, weights = name.partition("=")
            path = Path(place) / "timm.safetensors"
            write_timm(network, Path(weights) if weights else None, path)
        start = _processor_seconds()
        if path.suffix in (".pt", ".torchscript"):
            queries, references = (_run_script(path, images) for images in (folder.query, folder.reference))
        else:
            extractor = checkpoint_extractor(path)
            queries, references = (extractor.extract_all(images) for images in (folder.query, folder.reference))
        return queries, references, (_processor_seconds() - start) / (len(folder.query) + len(folder.reference))


def _processor_seconds() -> float:
    return sum(os.times()[:4])  # of child processes, too


def _read_array(path: Path, folder: IscFolder) -> tuple[Vectors, Vectors]:
    """Read vectors [queries + references, d], in the order of the sorted ids."""
    found, counts = read_set(path), (len(folder.query), len(folder.reference))
    if len(found) != sum(counts):
        raise UserError(
            f"{path} has {len(found)} rows; expected a row for each of {counts[0]} queries, then {counts[1]} references."
        )
    return tuple(
        Vectors(images.ids, part, np.zeros(len(part), bool))
        for images, part in zip((folder.query, folder.reference), np.split(found.vectors, [counts[0]]), strict=True)
    )  # type: ignore[return-value]  # mypy does not count a generator's items


def _run_script(path: Path, images: ImageSet) -> Vectors:
    """Embed pictures with a TorchScript file: squares with ImageNet's mean and deviation in, vectors out, here of unit length."""
    import torch  # imported here: vectors are compared without it

    try:
        network = torch.jit.load(str(path), map_location="cpu").eval()
    except RuntimeError as error:
        raise UserError(f"{path} is no TorchScript file. Give what torch.jit.save writes.") from error
    rows: list[NDArray[np.float32]] = []
    unreadable = np.zeros(len(images), bool)
    for start in tqdm(range(0, len(images), SCRIPT_BATCH), desc=f"embedding with {path.name}", leave=False):
        squares = np.zeros((len(images.paths[start : start + SCRIPT_BATCH]), SCRIPT_SIDE, SCRIPT_SIDE, 3), np.float32)
        for place, picture in enumerate(images.paths[start : start + SCRIPT_BATCH]):
            try:
                squares[place] = resize_square(decode_rgb(picture, short_side=SCRIPT_SIDE), SCRIPT_SIDE)
            except ImageError:
                unreadable[start + place] = True
        shown = torch.from_numpy((squares / 255 - IMAGENET_MEAN) / IMAGENET_STD).permute(0, 3, 1, 2).float()
        with torch.inference_mode():
            rows.append(torch.nn.functional.normalize(network(shown).float()).numpy())
    vectors = np.concatenate(rows)
    vectors[unreadable] = 0
    return Vectors(images.ids, vectors, unreadable)
