"""Filtered copies of tars and Parquet files without the pictures to remove; the inputs stay as they are."""

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.files import is_file, read_json, whole_file
from image_copies.data.ground_truth import write_table
from image_copies.data.remote import as_path, map_files
from image_copies.data.sources.containers import read_or_say
from image_copies.data.sources.tables import copy_table, is_parquet, open_table
from image_copies.data.sources.tars import copy_tar, is_tar
from image_copies.data.targets import check_target_folder
from image_copies.matching.dedup.collection import list_names
from image_copies.matching.dedup.inputs import is_changed
from image_copies.matching.dedup.results import INPUTS, KEEP, REMOVE

FILES, MANIFEST = "files.txt", "manifest.csv"
COPY = re.compile(r"\d{6}-.+")  # names of filtered files


def write_filtered(folder: Path, target: Path) -> list[Path]:
    """Write to `target` each tar and Parquet file of which pictures go, without them, and return the paths.

    With a picture of a WebDataset the sample's other files go, unless another picture of it stays. `files.txt` lists the loose
    files that stay, `manifest.csv` all inputs and what became of each: what is "unchanged" has no copy in `target`. What was
    written to `target` before goes first; of a run that ends early, copies that the manifest names are not there.

    Raises:
        UserError: There are no lists, an input or a file that stays instead of what goes has gone or changed, `target` holds
            anything else, or the disk is full.
    """
    listed = folder / f"{REMOVE}.parquet"
    if not is_file(listed):
        raise UserError(
            f"{listed} does not exist: run the command without --apply first, which writes what would go."
        )
    check_target_folder(target, "--apply", [MANIFEST])
    gone: dict[str, set[int]] = defaultdict(set)
    staying = set[str]()
    with open_table(listed) as table:
        for row in table.read(["source", "place", "copy_of"]).to_pylist():
            if _is_packed(row["source"]):
                gone[row["source"]].add(row["place"])
                staying.add(row["copy_of"])
    inputs = read_json(folder / INPUTS)
    for source in sorted(filter(_is_packed, gone.keys() | inputs)):
        if is_changed(source, inputs.get(source, "")):
            raise UserError(
                f"{source} has gone or changed since it was searched. Run the command without --apply again."
            )
    with (
        whole_file(target / FILES) as temporary,
        temporary.open("wb") as lines,
        open_table(folder / f"{KEEP}.parquet") as table,
    ):
        for batch in table.iter_batches(columns=["source", "id", "sha256"]):
            loose = [row for row in batch.to_pylist() if not _is_packed(row["source"])]
            _check_files([row for row in loose if row["id"] in staying])
            lines.writelines(os.fsencode(row["id"]) + b"\n" for row in loose)
    copies = {source: target / _name_copy(number, source) for number, source in enumerate(sorted(gone), 1)}
    for name in filter(COPY.fullmatch, list_names(target)):
        (target / name).unlink()
    became = {source: ("unchanged", source) if _is_packed(source) else ("listed", FILES) for source in inputs}
    became |= {source: ("filtered", path.name) for source, path in copies.items()}
    write_table(
        target / MANIFEST,
        ["source", "became", "file"],
        [(source, *became[source]) for source in sorted(became)],
    )
    for source, places in gone.items():
        with whole_file(copies[source]) as temporary:
            (copy_tar if is_tar(source) else copy_table)(as_path(source), places, temporary)
    return list(copies.values())


def _check_files(rows: Sequence[Mapping[str, str]]) -> None:
    """Check that loose files, or members of archives, hold what they held, by their SHA-256; names that are no UTF-8 are not.

    Raises:
        UserError: One does not, or cannot be read.
    """
    named = [row for row in rows if "\\" not in row["id"]]  # others are listed escaped
    contents = map_files(read_or_say, [as_path(row["id"]) for row in named])
    for row, (content, problem) in zip(named, contents, strict=True):
        if content is None or hashlib.sha256(content).hexdigest() != row["sha256"]:
            raise UserError(
                f"{row['id']} {problem or 'has changed since it was searched'}, and others would go for it. Run the command "
                "without --apply again."
            )


def _is_packed(source: str) -> bool:
    return is_tar(source) or is_parquet(source)


def _name_copy(number: int, source: str) -> str:
    name = as_path(source).name
    return f"{number:06d}-{name[: name.lower().rindex('.t')] + '.tar' if is_tar(source) else name}"
