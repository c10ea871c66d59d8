"""Filtered copies of tars and Parquet files without the pictures to remove; the inputs stay as they are."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.files import is_file, read_json, whole_file
from image_copies.data.ground_truth import write_table
from image_copies.data.remote import as_path, map_files
from image_copies.data.sources.containers import FILES, TAR, kind_of, read_or_say
from image_copies.data.sources.tables import copy_table, open_table
from image_copies.data.sources.tars import copy_tar
from image_copies.data.sources.walking import known_path
from image_copies.data.targets import check_target_folder

from .deduplication import INPUTS, KEEP, REMOVE
from .inputs import is_changed
from .vectors import list_names

MANIFEST = "manifest.csv"
COPY = re.compile(r"\d{6}-.+")  # names of filtered files
AGAIN = "Run the command without --apply again."


def write_filtered(folder: Path, target: Path) -> list[Path]:
    """Write to `target` each tar and Parquet file of which pictures go, without them, and return the paths.

    With a picture of a WebDataset the sample's other files go, unless another picture of it stays. `manifest.csv` names all
    inputs and what became of each: what is "unchanged" has no copy in `target`; the loose files that stay are "listed" in
    `keep.parquet`. What was written to `target` before goes first; of a run that ends early, copies that the manifest names are
    not there.

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
    gone, staying = defaultdict[str, set[int]](set), set[str]()
    with open_table(listed) as table:
        for row in table.read(["source", "place", "copy_of"]).to_pylist():
            if kind_of(row["source"]) != FILES:
                gone[row["source"]].add(row["place"])
                staying.add(row["copy_of"])
    inputs = read_json(folder / INPUTS)
    for source in inputs:
        if known_path(as_path(source)).parent == known_path(target):
            raise UserError(f"--apply {target} holds {source}, one of the inputs. Name another folder.")
    became = dict.fromkeys(inputs, ("listed", f"{KEEP}.parquet"))
    for source in sorted(gone.keys() | inputs):
        if kind_of(source) != FILES:
            if is_changed(source, inputs.get(source, "")):
                raise UserError(f"{source} has gone or changed since it was searched. {AGAIN}")
            became[source] = "unchanged", source
    for number, source in enumerate(sorted(gone), 1):
        became[source] = "filtered", f"{number:06d}-{_name_copy(source)}"
    with open_table(folder / f"{KEEP}.parquet") as table:
        for batch in table.iter_batches(columns=["source", "id", "sha256"]):
            loose = (row for row in batch.to_pylist() if kind_of(row["source"]) == FILES)
            _check_files([row for row in loose if row["id"] in staying])
    for name in filter(COPY.fullmatch, list_names(target)):
        (target / name).unlink()
    manifest = [(source, *became[source]) for source in sorted(became)]
    write_table(target / MANIFEST, ["source", "became", "file"], manifest)
    written = [target / became[source][1] for source in gone]
    for path, (source, places) in zip(written, gone.items(), strict=True):
        with whole_file(path) as temporary:
            copy = copy_tar if kind_of(source) == TAR else copy_table
            copy(as_path(source), places, temporary)
    return written


def _check_files(rows: Sequence[Mapping[str, str]]) -> None:
    """Check that loose files, or members of archives, hold what they held, by their SHA-256; names that are no UTF-8 are not.

    Raises:
        UserError: One does not, or cannot be read.
    """
    named = [row for row in rows if "\\" not in row["id"]]  # others are listed escaped
    contents = map_files(read_or_say, [as_path(row["id"]) for row in named])
    for row, (content, problem) in zip(named, contents, strict=True):
        if content is None or hashlib.sha256(content).hexdigest() != row["sha256"]:
            found = problem or "has changed since it was searched"
            raise UserError(f"{row['id']} {found}, and others would go for it. {AGAIN}")


def _name_copy(source: str) -> str:
    """Return the name of a source; that of a compressed tar ends in .tar."""
    name = as_path(source).name
    return f"{name[: name.lower().rindex('.t')]}.tar" if kind_of(source) == TAR else name
