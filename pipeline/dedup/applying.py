"""Filtered copies of tars and Parquet files without the pictures to remove; the inputs stay as they are."""

import os
from collections import defaultdict
from pathlib import Path
from typing import IO

from image_copies.data.errors import UserError
from image_copies.data.files import is_file, whole_file
from image_copies.data.remote import as_path
from image_copies.pipeline.dedup.collection import open_table
from image_copies.pipeline.dedup.results import KEEP, REMOVE
from image_copies.pipeline.dedup.tars import Member, is_picture, is_tar, open_tar, sample_of, walk_tar
from image_copies.submissions.vectors.parquet import is_parquet

COPIED = 2**20  # bytes at once


def write_filtered(folder: Path, target: Path) -> list[Path]:
    """Write to `target` each tar and Parquet file of which pictures go, without them, and return the paths.

    With a picture of a WebDataset the sample's other files go, unless another picture of it stays. `files.txt` lists the loose
    files that stay.

    Raises:
        UserError: There are no lists, an input has gone, or the disk is full.
    """
    listed = folder / f"{REMOVE}.parquet"
    if not is_file(listed):
        raise UserError(f"{listed} does not exist: run the command without --apply first, which writes what would go.")
    gone: dict[str, set[int]] = defaultdict(set)
    with open_table(listed) as table:
        for row in table.read(["source", "place"]).to_pylist():
            if is_tar(row["source"]) or is_parquet(row["source"]):
                gone[row["source"]].add(row["place"])
    written = []
    for number, (source, places) in enumerate(sorted(gone.items()), 1):
        path = as_path(source)
        if not is_file(path):
            raise UserError(f"{source} is not there any more. Run the command without --apply again.")
        name = path.name
        written.append(target / f"{number:06d}-{name[: name.lower().rindex('.t')] + '.tar' if is_tar(source) else name}")
        with whole_file(written[-1]) as temporary:
            (_filter_tar if is_tar(source) else _filter_parquet)(path, places, temporary)
    kept = open_table(folder / f"{KEEP}.parquet")
    with whole_file(target / "files.txt") as temporary, temporary.open("wb") as lines, kept as table:
        for batch in table.iter_batches(columns=["source", "id"]):
            loose = [row["id"] for row in batch.to_pylist() if not is_tar(row["source"]) and not is_parquet(row["source"])]
            lines.writelines(os.fsencode(name) + b"\n" for name in loose)
    return written


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
    from pyarrow import parquet

    row = 0
    with open_table(source) as table, parquet.ParquetWriter(target, table.schema_arrow) as output:
        for group in range(table.num_row_groups):
            rows = table.read_row_group(group)
            kept = [place for place in range(len(rows)) if row + place not in places]
            output.write_table(rows.take(np.array(kept, np.int64)))
            row += len(rows)
