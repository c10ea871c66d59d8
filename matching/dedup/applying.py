"""Filtered copies of tars and Parquet files without the pictures to remove; the inputs stay as they are."""

import csv
import hashlib
import io
import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from image_copies.data.errors import UserError
from image_copies.data.files import is_file, open_regular, whole_file
from image_copies.data.ground_truth import write_table
from image_copies.data.remote import as_path, map_files
from image_copies.data.sources.containers import Container, read_or_say
from image_copies.data.sources.tables import import_pyarrow, is_parquet, open_table
from image_copies.data.sources.tars import Member, is_picture, is_tar, open_tar, sample_of, walk_tar
from image_copies.data.targets import check_target_folder
from image_copies.matching.dedup.inputs import index_path, is_changed, read_index
from image_copies.matching.dedup.results import INPUTS, KEEP, REMOVE

FILES, MANIFEST = "files.txt", "manifest.csv"
COPIED = 2**20  # bytes at once


def write_filtered(folder: Path, target: Path) -> list[Path]:
    """Write to `target` each tar and Parquet file of which pictures go, without them, and return the paths.

    With a picture of a WebDataset the sample's other files go, unless another picture of it stays. `files.txt` lists the loose
    files that stay, `manifest.csv` all inputs and what became of each: what is "unchanged" has no copy in `target`, what is
    "unfinished" none that is whole. What was written to `target` before goes.

    Raises:
        UserError: There are no lists, an input or a file that stays instead of what goes has gone or changed, `target` holds
            anything else, or the disk is full.
    """
    listed = folder / f"{REMOVE}.parquet"
    if not is_file(listed):
        raise UserError(f"{listed} does not exist: run the command without --apply first, which writes what would go.")
    check_target_folder(target, "--apply", [MANIFEST])
    gone: dict[str, set[int]] = defaultdict(set)
    removed: Counter[str] = Counter()
    staying = set[str]()
    with open_table(listed) as table:
        for row in table.read(["source", "place", "copy_of"]).to_pylist():
            removed[row["source"]] += 1
            if _is_packed(row["source"]):
                gone[row["source"]].add(row["place"])
                staying.add(row["copy_of"])
    inputs = _list_inputs(folder)
    if missing := [source for source in sorted(gone) if not is_file(as_path(source))]:
        raise UserError(f"{missing[0]} is not there any more. Run the command without --apply again.")
    if changed := [container.source for container in inputs if _is_packed(container.source) and is_changed(container)]:
        raise UserError(f"{changed[0]} has changed since it was searched. Run the command without --apply again.")
    copies = {source: target / _name_copy(number, source) for number, source in enumerate(sorted(gone), 1)}
    kept: Counter[str] = Counter()
    with whole_file(target / FILES) as temporary, temporary.open("wb") as lines, open_table(folder / f"{KEEP}.parquet") as table:
        for batch in table.iter_batches(columns=["source", "id", "sha256"]):
            rows = batch.to_pylist()
            kept.update(row["source"] for row in rows)
            loose = [row for row in rows if not _is_packed(row["source"])]
            _check_files([row for row in loose if row["id"] in staying])
            lines.writelines(os.fsencode(row["id"]) + b"\n" for row in loose)
    sources = {container.source for container in inputs} | {*kept, *removed}
    before = _list_copies(target)
    _write_manifest(target / MANIFEST, sources, kept, removed, copies, "unfinished")
    for path in before - set(copies.values()):
        path.unlink(missing_ok=True)
    for source, places in gone.items():
        with whole_file(copies[source]) as temporary:
            (_filter_tar if is_tar(source) else _filter_parquet)(as_path(source), places, temporary)
    _write_manifest(target / MANIFEST, sources, kept, removed, copies, "filtered")
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


def _list_copies(target: Path) -> set[Path]:
    """Return the filtered files that an earlier manifest in the folder names."""
    if not is_file(target / MANIFEST):
        return set()
    with open_regular(target / MANIFEST) as content, io.TextIOWrapper(content, "utf-8", "surrogateescape", newline="") as file:
        names = [row.get("file") or "" for row in csv.DictReader(file)]
    return {target / name for name in names if re.fullmatch(r"\d{6}-[^/]+", name)}


def _is_packed(source: str) -> bool:
    return is_tar(source) or is_parquet(source)


def _name_copy(number: int, source: str) -> str:
    name = as_path(source).name
    return f"{number:06d}-{name[: name.lower().rindex('.t')] + '.tar' if is_tar(source) else name}"


def _list_inputs(folder: Path) -> list[Container]:
    """Return what a run searched, also what holds no picture."""
    keys = (folder / INPUTS).read_text().split() if is_file(folder / INPUTS) else []
    indexes = (read_index(index_path(folder, key)) for key in keys)
    return [index.container for index in indexes if index is not None]


def _write_manifest(
    path: Path,
    sources: set[str],
    kept: Mapping[str, int],
    removed: Mapping[str, int],
    copies: Mapping[str, Path],
    state: str,
) -> None:
    def describe(source: str) -> list[object]:
        became, file = "unchanged", source
        if source in copies:
            became, file = state, copies[source].name
        elif not _is_packed(source):
            became, file = "listed", FILES
        return [source, kept.get(source, 0), removed.get(source, 0), became, file]

    write_table(path, ["source", "kept", "removed", "became", "file"], map(describe, sorted(sources)))


def _filter_tar(source: Path, places: set[int], target: Path) -> None:
    """Copy a tar's unpacked bytes but for those of the members that go."""
    with open_tar(source) as stream:
        samples: dict[str, list[Member]] = defaultdict(list)
        pictures: dict[str, set[int]] = defaultdict(set)
        for member in walk_tar(stream):
            if isinstance(member, Member):
                samples[sample_of(member.name)].append(member)
                if is_picture(member, stream):
                    pictures[sample_of(member.name)].add(member.data)
        dropped = []
        for sample, members in samples.items():
            empty = bool(pictures[sample]) and pictures[sample] <= places
            dropped += [member for member in members if member.data in places or (empty and member.data not in pictures[sample])]
        with target.open("wb") as output:
            start = 0
            for member in sorted(dropped, key=lambda member: member.header):
                _copy(stream, start, member.header, output)
                start = member.end
            _copy(stream, start, None, output)


def _copy(stream: IO[bytes], start: int, end: int | None, output: IO[bytes]) -> None:
    stream.seek(start)
    while content := stream.read(COPIED if end is None else min(COPIED, end - start)):
        output.write(content)
        start += len(content)


def _filter_parquet(source: Path, places: set[int], target: Path) -> None:
    """Copy a table's row groups without the rows that go."""
    import numpy as np

    row = 0
    with open_table(source) as table, import_pyarrow()[1].ParquetWriter(target, table.schema_arrow) as output:
        for group in range(table.num_row_groups):
            rows = table.read_row_group(group)
            kept = [place for place in range(len(rows)) if row + place not in places]
            output.write_table(rows.take(np.array(kept, np.int64)))
            row += len(rows)
