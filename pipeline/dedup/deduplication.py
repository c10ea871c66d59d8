"""A deduplication from its inputs to its lists."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from image_copies.data.errors import UserError
from image_copies.data.files import write_text
from image_copies.matching.extractor import Extractor, onnx_extractor
from image_copies.matching.matches import Rule
from image_copies.matching.output import Output
from image_copies.pipeline.dedup.collection import Collection
from image_copies.pipeline.dedup.deciding import Judging, find_candidates, judge_candidates
from image_copies.pipeline.dedup.embedding import Embedding, embed_parts, find_sizes, is_embedded
from image_copies.pipeline.dedup.engine import Engine, Row
from image_copies.pipeline.dedup.inputs import Container, index_container, list_containers, read_index
from image_copies.pipeline.dedup.lists import EXACT, LISTS_PER_ROOT, NEAREST, Comparison, find_pairs
from image_copies.pipeline.dedup.results import KEEP, LISTS, REMOVE, REVIEW, UNREADABLE, Decided, write_lists, write_page

NAMED = 10  # sources that a message names


@dataclass(frozen=True)
class Settings:
    """What is deduplicated, and how.

    Attributes:
        inputs: Folders, tars, Parquet files, pictures and @lists.
        test_sets: The same, to compare the inputs with; without them the inputs are compared with each other.
        folder: Of the results.
        column: Of Parquet files, in which pictures are.
        judged: How many pairs are judged by their pixels; None for all.
        removes: The classes of pairs of which one picture goes.
    """

    inputs: Sequence[Path]
    test_sets: Sequence[Path]
    folder: Path
    column: str
    judged: int | None
    removes: Sequence[str]


def deduplicate(engine: Engine, extractor: Extractor, onnx: Path | None, rule: Rule, settings: Settings, output: Output) -> None:
    """Embed what is new, find the pairs, decide, and write lists and page.

    Raises:
        UserError: An input cannot be found or holds no picture, or the work cannot be done for a reason that the user can fix.
    """
    opened = extractor.source if onnx is None else partial(onnx_extractor, onnx.absolute())
    if opened is None:
        raise UserError("this network cannot be opened by other processes. Name a run, --checkpoint or --onnx.")
    embedding = Embedding(opened, extractor.identity, find_sizes(extractor), settings.folder.absolute())
    problems: list[tuple[str, str]] = []
    inputs = embed_inputs(engine, embedding, settings.inputs, False, settings.column, problems, output)
    tests = (
        embed_inputs(engine, embedding, settings.test_sets, True, settings.column, problems, output) if settings.test_sets else []
    )
    report_vanished(embedding, [*inputs, *tests], output)
    for source, problem in problems[:NAMED]:
        output.say(f"{source}: {problem}")
    starts = np.append(0, np.cumsum([count for _, _, count in [*inputs, *tests]], dtype=np.int64))
    files = [embedding.vectors_path(key, number) for key, number, _ in [*inputs, *tests]]
    collection = Collection(files, starts, int(starts[len(inputs)]))
    if not len(inputs):
        raise UserError(f"no picture was found in {', '.join(map(str, settings.inputs))}.")

    compared = len(collection) - collection.inputs or len(collection)
    threshold = rule.threshold(compared)
    if threshold is None:
        raise UserError("nothing calibrates a threshold for this network. Give one with --threshold.")
    output.say(
        f"{collection.inputs:,} pictures{f', {compared:,} of test sets' if settings.test_sets else ''}; score ≥ {threshold:.3f}"
    )
    folder = lists_folder(embedding, [*inputs, *tests], len(inputs), threshold)
    pairs = find_pairs(engine, Comparison(collection, opened, -threshold, folder))
    candidates = find_candidates(collection, pairs)
    verdicts = judge_candidates(engine, Judging(collection, folder, settings.column), candidates, settings.judged)
    decided = Decided(candidates, verdicts, settings.removes)
    counts = write_lists(settings.folder, collection, decided, problems)
    page = write_page(settings.folder, collection, decided, counts, problems, settings.column)
    output.record("dedup", counts)
    output.say(
        f"{counts[KEEP]:,} pictures stay, {counts[REVIEW]:,} of them to be looked at; {counts[REMOVE]:,} would go; "
        f"{counts[UNREADABLE]:,} cannot be read\nlists: {', '.join(f'{name}.parquet' for name in LISTS)}, and as .txt, in "
        f"{settings.folder}; page: {page}\nnothing was changed; --apply DIR writes filtered tars and tables"
    )


def embed_inputs(
    engine: Engine,
    embedding: Embedding,
    sources: Sequence[Path],
    against: bool,
    column: str,
    problems: list[tuple[str, str]],
    output: Output,
) -> list[tuple[str, int, int]]:
    """Index and embed sources, of which only what has changed; returns (container's key, part, pictures) of each part.

    Raises:
        UserError: A source cannot be found, or an index cannot be read.
    """
    keys, size = dict[str, None](), embedding.part_size()
    containers = list_containers(sources, size, embedding.folder, against)
    list(
        engine.run(
            _index_jobs(embedding, containers, keys, size, column),
            engine.map(partial(index_job, embedding)),
            "listing",
            None,
            "file",
        )
    )
    parts, todo, changed = list[tuple[str, int, int]](), list[tuple[str, int, int]](), dict[str, None]()
    for key in keys:
        index = read_index(embedding.index_path(key))
        if index is None:
            raise UserError(f"{embedding.index_path(key)} cannot be read. Remove it, and repeat the command.")
        problems += [(index.source, problem) for problem in index.problems]
        for number, part in enumerate(index.parts):
            parts.append((key, number, part.count))
            done = is_embedded(embedding.vectors_path(key, number), index.state, embedding.identity, part.count)
            if not done:
                todo.append(parts[-1])
            if done is False:
                changed[index.source] = None
    if changed:
        output.say(f"changed since the last run, embedded again: {_name_some(list(changed))}")
    done_before = sum(count for *_, count in parts) - sum(count for *_, count in todo)
    if done_before:
        output.say(f"{done_before:,} pictures are embedded already")
    lost = sum(row["unreadable"] for row in embed_parts(engine, embedding, todo, sum(count for *_, count in todo))) if todo else 0
    if lost:
        output.say(f"{lost:,} of the new pictures cannot be read; unreadable.parquet will say why")
    return parts


def _index_jobs(
    embedding: Embedding, containers: Iterable[Container], keys: dict[str, None], size: int, column: str
) -> Iterator[Row]:
    """Yield a job for each tar or Parquet file without an index; batches of files need no reading and are indexed here."""
    for container in containers:
        if container.key in keys:
            continue  # named twice
        keys[container.key] = None
        path = embedding.index_path(container.key)
        known = read_index(path)
        if known is not None and (known.state, known.column) == (container.state, column):
            continue
        if container.kind == "files":
            index_container(container, path, size, column)
        else:
            yield {"container": json.dumps(asdict(container)), "size": size, "column": column}


def index_job(embedding: Embedding, row: Row) -> Row:
    """Index the container of a job."""
    content = json.loads(row["container"])
    container = Container(**content | {"names": tuple(content["names"])})
    index_container(container, embedding.index_path(container.key), row["size"], row["column"])
    return {"count": 1}


def report_vanished(embedding: Embedding, parts: Sequence[tuple[str, int, int]], output: Output) -> None:
    """Say which containers of the last run are not there any more, and remember those of this one."""
    listed, now = embedding.folder / "inputs.txt", sorted({key for key, _, _ in parts})
    before = set(listed.read_text().split()) if listed.is_file() else set()
    gone = [
        index.source or index.names[0]
        for key in sorted(before.difference(now))
        if (index := read_index(embedding.index_path(key)))
    ]
    if gone:
        output.say(f"not there any more, or other files in it, since the last run: {_name_some(sorted(set(gone)))}")
    write_text(listed, "\n".join(now))


def lists_folder(embedding: Embedding, parts: Sequence[tuple[str, int, int]], inputs: int, threshold: float) -> Path:
    """Return the folder of the lists and pairs of these parts in their present states; those of others are removed."""
    digest = hashlib.sha256(f"{embedding.identity} {inputs} {threshold!r} {EXACT} {LISTS_PER_ROOT} {NEAREST}".encode())
    for key in dict.fromkeys(key for key, _, _ in parts):
        index = read_index(embedding.index_path(key))
        digest.update(f"{key} {index.state if index else ''}".encode())
    folder = embedding.folder / "lists" / digest.hexdigest()[:20]
    for other in folder.parent.glob("*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _name_some(sources: Sequence[str]) -> str:
    more = f" and {len(sources) - NAMED:,} more" if len(sources) > NAMED else ""
    return ", ".join(sources[:NAMED]) + more
