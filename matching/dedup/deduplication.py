"""A deduplication from its inputs to lists of the pictures to keep, to remove, to be looked at and unreadable."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np

from image_copies.data.arrays import Bools
from image_copies.data.errors import UserError, text_of
from image_copies.data.files import whole_file, write_text
from image_copies.data.sources.containers import name_picture
from image_copies.data.sources.tables import import_pyarrow

from ..extractor import Extractor
from ..matches import Rule, judgement_values
from ..output import Output
from ..threshold import MAX_REFERENCES
from . import blocks, deciding
from .blocks import Lists, find_pairs
from .deciding import Candidates, Judging, Verdict, decide, find_candidates, judge_candidates
from .inputs import list_containers
from .vectors import Collection, Embedded, Embedding, Numbers, Row, embed_containers, make_collection

KEEP, REMOVE, REVIEW, UNREADABLE = LISTS = ("keep", "remove", "review", "unreadable")
INPUTS = "inputs.json"
# into the results
WRITTEN = (INPUTS, blocks.FOLDER, deciding.FOLDER, *(f"{name}.parquet" for name in LISTS))
ROWS_AT_ONCE = 2**16  # rows of a list that are written together
NAMED = 10  # sources that a message names
READ = ["id", "source", "place", "sha256", "error"]
COLUMNS = dict.fromkeys(["id", "source", "sha256", "error", "class", "reason", "copy_of"], "string")
COLUMNS |= dict.fromkeys(["place", "certainty"], "int64") | {"score": "float64"}


@dataclass(frozen=True)
class DedupSettings:
    """What is deduplicated, and how.

    Attributes:
        inputs: Folders, tars, Parquet files, pictures and @lists.
        test_sets: The same, to compare the inputs with; without them the inputs are compared with each other.
        folder: Of the results.
        column: Of Parquet files, in which pictures are.
        removes: The classes of pairs of which one picture goes.
    """

    inputs: Sequence[Path]
    test_sets: Sequence[Path]
    folder: Path
    column: str
    removes: Sequence[str]


def deduplicate(extractor: Extractor, rule: Rule, settings: DedupSettings, output: Output) -> None:
    """Embed what is new, find the pairs, decide, and write the lists.

    Raises:
        UserError: An input cannot be found or holds no picture, or the work cannot be done for a reason that the user can fix.
    """
    assert extractor.source is not None, "whatever a command opens has a source"
    folder = settings.folder.absolute()
    embedding = Embedding(extractor.source, extractor.identity, folder)

    def embed(sources: Sequence[Path], apart: Sequence[Path] = ()) -> list[Embedded]:
        containers = list_containers(sources, folder, apart, settings.column)
        found = embed_containers(embedding, extractor.files, containers, output)
        for source, problem in list_problems(found)[:NAMED]:
            output.say(f"{source}: {problem}")
        if sources and not any(each.counts for each in found):
            left = " that is in no test set" if apart else ""
            raise UserError(f"no picture{left} was found in {', '.join(map(str, sources))}.")
        return found

    (folder / f"{REMOVE}.parquet").unlink(missing_ok=True)  # or --apply took it for what follows
    inputs = embed(settings.inputs, settings.test_sets)
    tests = embed(settings.test_sets)
    write_text(folder / INPUTS, json.dumps({container.source: container.state for container in inputs}))
    problems = list_problems([*inputs, *tests])
    collection = make_collection(embedding, inputs, tests)
    compared = len(collection) - collection.inputs or len(collection)
    first = collection.border if tests else 0
    threshold = rule.against(partial(collection.draw, MAX_REFERENCES, first)).threshold(compared)
    if threshold is None:
        raise UserError("nothing calibrates a threshold for this network. Give one with --threshold.")
    also = f", {compared:,} of test sets" if tests else ""
    output.say(f"{collection.inputs:,} pictures{also}; score ≥ {threshold:.3f}")
    pairs = find_pairs(Lists(embedding, collection, -threshold))
    candidates = find_candidates(collection, pairs, {source for source, _ in problems})
    judging = Judging(collection, folder, settings.column)
    decided = decide(candidates, judge_candidates(judging, candidates), settings.removes)
    counts = write_lists(folder, collection, *decided, problems)
    output.record("dedup", counts)
    output.say(
        f"{counts[KEEP]:,} pictures stay, {counts[REVIEW]:,} of them to be looked at; {counts[REMOVE]:,} would go; "
        f"{counts[UNREADABLE]:,} cannot be read\nlists: {', '.join(f'{name}.parquet' for name in LISTS)} in "
        f"{settings.folder}\nnothing was changed; --apply DIR writes filtered tars and tables"
    )


def list_problems(containers: Sequence[Embedded]) -> list[tuple[str, str]]:
    """Return the paths of damaged containers, each with what is damaged in words."""
    return [(text_of(each.source), problem) for each in containers for problem in each.problems]


def write_lists(
    folder: Path,
    collection: Collection,
    candidates: Candidates,
    verdicts: Sequence[Verdict],
    going: Bools,
    problems: Sequence[tuple[str, str]],
) -> dict[str, int]:
    """Write the lists as Parquet, all with the same columns, the one of what goes last, and return their lengths.

    `problems` are those of whole containers, after their paths. What is to be looked at is kept.
    """
    stays, places = np.unique(candidates["kept"], return_inverse=True)
    found = collection.look_up(stays, ["id", "source"])
    names = np.fromiter(
        (name_picture(about["source"], about["id"]) for _, about in found),
        np.dtypes.StringDType(),
        len(stays),
    )
    gone = np.zeros(collection.inputs, bool)
    gone[candidates["number"][going]] = True

    def list_inputs(readable: bool) -> Iterator[Row]:
        for number, row in collection.list_inputs(READ):
            if (row["error"] is None) == readable and not gone[number]:
                yield row

    def list_copies(rows: Numbers) -> Iterator[Row]:
        known = collection.look_up(candidates["number"][rows], READ)
        for row, (_, about) in zip(rows.tolist(), known, strict=True):
            about |= judgement_values(verdicts[row][0])
            yield about | {"copy_of": names[places[row]], "score": candidates["score"][row]}

    broken = ({"id": "", "source": source, "error": problem} for source, problem in problems)
    rows = {
        KEEP: list_inputs(readable=True),
        REVIEW: list_copies(np.flatnonzero(~going)),
        UNREADABLE: chain(broken, list_inputs(readable=False)),
        REMOVE: list_copies(np.flatnonzero(going)),
    }
    return {name: _write_list(folder / f"{name}.parquet", own) for name, own in rows.items()}


def _write_list(path: Path, rows: Iterable[Row]) -> int:
    """Write a list and return its length."""
    pa, parquet = import_pyarrow()
    schema = pa.schema(COLUMNS)
    left = iter(rows)
    count = 0
    with whole_file(path) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        while some := list(islice(left, ROWS_AT_ONCE)):
            for row in some:
                row["sha256"] = row.get("sha256", b"").hex()
            writer.write_table(pa.Table.from_pylist(some, schema))
            count += len(some)
    return count
