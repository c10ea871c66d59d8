"""A deduplication from its inputs to its lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from image_copies.data.errors import UserError
from image_copies.data.files import is_file, write_text
from image_copies.data.remote import READERS, is_remote
from image_copies.data.shards import Place, ShardWork, hold, run_shards
from image_copies.data.sources.containers import FILES, Container
from image_copies.data.threads import map_in_threads
from image_copies.matching.dedup.collection import Collection
from image_copies.matching.dedup.deciding import Judging, find_candidates, judge_candidates
from image_copies.matching.dedup.embedding import Embedding, PartName, embed_parts, is_embedded
from image_copies.matching.dedup.inputs import index_container, index_path, is_indexed, list_containers, read_index
from image_copies.matching.dedup.lists import Lists, choose_folder, find_pairs
from image_copies.matching.dedup.results import (
    INPUTS,
    KEEP,
    LISTS,
    PAIRS,
    REMOVE,
    REVIEW,
    UNREADABLE,
    Decided,
    write_lists,
    write_page,
)
from image_copies.matching.extractor import Extractor
from image_copies.matching.matches import Rule
from image_copies.matching.output import Output
from image_copies.models.inference.embedders import list_square_sizes

NAMED = 10  # sources that a message names


@dataclass(frozen=True)
class DedupSettings:
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


def deduplicate(extractor: Extractor, rule: Rule, settings: DedupSettings, output: Output) -> None:
    """Embed what is new, find the pairs, decide, and write lists and page.

    Raises:
        UserError: An input cannot be found or holds no picture, or the work cannot be done for a reason that the user can fix.
    """
    opened = extractor.source
    assert opened is not None, "whatever a command opens has a source"
    embedding = Embedding(opened, extractor.identity, tuple(list_square_sizes(extractor.networks)), settings.folder.absolute())
    problems: list[tuple[str, str]] = []
    embed = partial(embed_inputs, embedding, files=extractor.files, column=settings.column, problems=problems, output=output)
    inputs = embed(sources=settings.inputs)
    tests = embed(sources=settings.test_sets) if settings.test_sets else []
    if both := {part.key for part in inputs} & {part.key for part in tests}:
        index = read_index(index_path(embedding.folder, min(both)))
        raise UserError(f"{index.container.source if index else min(both)} is an input and a test set: name it once.")
    report_vanished(embedding, inputs, output)
    for source, problem in problems[:NAMED]:
        output.say(f"{source}: {problem}")
    starts = np.append(0, np.cumsum([part.count for part in [*inputs, *tests]], dtype=np.int64))
    files = [embedding.vectors_path(part.key, part.number) for part in [*inputs, *tests]]
    states = [part.state for part in [*inputs, *tests]]
    collection = Collection(files, starts, int(starts[len(inputs)]), states)
    if not len(inputs):
        raise UserError(f"no picture was found in {', '.join(map(str, settings.inputs))}.")

    compared = len(collection) - collection.inputs or len(collection)
    threshold = rule.against(collection.sample).threshold(compared)
    if threshold is None:
        raise UserError("nothing calibrates a threshold for this network. Give one with --threshold.")
    output.say(
        f"{collection.inputs:,} pictures{f', {compared:,} of test sets' if settings.test_sets else ''}; score ≥ {threshold:.3f}"
    )
    folder, planned = choose_folder(embedding.folder / PAIRS, embedding.identity, len(collection))
    lists = Lists(opened, -threshold, folder, planned, bool(settings.test_sets))
    candidates = find_candidates(collection, find_pairs(collection, lists), {source for source, _ in problems})
    verdicts = judge_candidates(Judging(collection, folder, settings.column), candidates, settings.judged)
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
    embedding: Embedding,
    files: Sequence[Path],
    sources: Sequence[Path],
    column: str,
    problems: list[tuple[str, str]],
    output: Output,
) -> list[PartName]:
    """Index and embed sources, of which only what has changed; returns their parts. `files` are those of the extractor.

    Raises:
        UserError: A source cannot be found, or an index cannot be read.
    """
    keys, size = list[str](), embedding.part_size()
    at_once = partial(map_in_threads, threads=READERS) if is_remote(embedding.folder) else map
    containers = list_containers(sources, size, embedding.folder, column)

    def remember(container: Container) -> Container:
        keys.append(container.key)
        return container

    def prepare(container: Container) -> Container | None:
        """Index a batch of files, which need no reading; return a tar or Parquet file without an index."""
        path = index_path(embedding.folder, container.key)
        if container.kind == FILES:
            index_container(container, path, size)
            return None
        return None if is_indexed(container, read_index(path)) else container

    unknown = (container for container in at_once(prepare, map(remember, containers)) if container is not None)
    listing: ShardWork[Embedding, Container, None] = ShardWork(
        "listing", "file", partial(hold, embedding), index_alone, lambda container: 1, folder=embedding.folder
    )
    for _ in run_shards(listing, unknown, None):
        pass

    def look(part: PartName) -> bool | None:
        return is_embedded(embedding.vectors_path(part.key, part.number), part.state, embedding.identity, part.count)

    parts, changed = list[PartName](), dict[str, None]()
    for key, index in zip(keys, at_once(read_index, (index_path(embedding.folder, key) for key in keys)), strict=True):
        if index is None:
            raise UserError(f"{index_path(embedding.folder, key)} cannot be read. Remove it, and repeat the command.")
        container = index.container
        problems += [(container.source, problem) for problem in index.problems]
        parts += [PartName(key, number, part.count, container.state) for number, part in enumerate(index.parts)]
    todo = list[PartName]()
    for part, done in zip(parts, at_once(look, parts), strict=True):
        if not done:
            todo.append(part)
        if done is False and (index := read_index(index_path(embedding.folder, part.key))) is not None:
            changed[index.container.source] = None
    if changed:
        output.say(f"changed since the last run, embedded again: {_name_some(list(changed))}")
    left = sum(part.count for part in todo)
    done_before = sum(part.count for part in parts) - left
    if done_before:
        output.say(f"{done_before:,} pictures are embedded already")
    lost = sum(embed_parts(embedding, files, todo, left))
    if lost:
        output.say(f"{lost:,} of the new pictures cannot be read; unreadable.parquet will say why")
    return parts


def index_alone(embedding: Embedding, container: Container, place: Place) -> None:
    """Index a container."""
    index_container(container, index_path(embedding.folder, container.key), embedding.part_size())
    place.advance(1)


def report_vanished(embedding: Embedding, parts: Sequence[PartName], output: Output) -> None:
    """Say which inputs of the last run are not there any more, and remember those of this one."""
    listed, now = embedding.folder / INPUTS, sorted({part.key for part in parts})
    before = set(listed.read_text().split()) if is_file(listed) else set()
    gone = [
        index.container.source or index.container.names[0]
        for key in sorted(before.difference(now))
        if (index := read_index(index_path(embedding.folder, key)))
    ]
    if gone:
        output.say(f"not there any more, or other files in it, since the last run: {_name_some(sorted(set(gone)))}")
    write_text(listed, "\n".join(now))


def _name_some(sources: Sequence[str]) -> str:
    more = f" and {len(sources) - NAMED:,} more" if len(sources) > NAMED else ""
    return ", ".join(sources[:NAMED]) + more
