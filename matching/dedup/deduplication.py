"""A deduplication from its inputs to its lists."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from image_copies.data.errors import UserError, text_of
from image_copies.data.files import write_text
from image_copies.matching.dedup.collection import make_collection
from image_copies.matching.dedup.deciding import Judging, find_candidates, judge_candidates
from image_copies.matching.dedup.embedding import Embedded, Embedding, embed_containers
from image_copies.matching.dedup.inputs import list_containers
from image_copies.matching.dedup.lists import Lists, find_pairs
from image_copies.matching.dedup.results import (
    INPUTS,
    JUDGED,
    KEEP,
    LISTS,
    PAIRS,
    REMOVE,
    REVIEW,
    UNREADABLE,
    decide,
    write_lists,
    write_page,
)
from image_copies.matching.extractor import Extractor
from image_copies.matching.matches import Rule
from image_copies.matching.output import Output

NAMED = 10  # sources that a message names


@dataclass(frozen=True)
class DedupSettings:
    """What is deduplicated, and how.

    Attributes:
        inputs: Folders, tars, Parquet files, pictures and @lists.
        test_sets: The same, to compare the inputs with; without them the inputs are compared with each other.
        folder: Of the results.
        column: Of Parquet files, in which pictures are.
        judged: Whether pairs are judged by their pixels.
        removes: The classes of pairs of which one picture goes.
    """

    inputs: Sequence[Path]
    test_sets: Sequence[Path]
    folder: Path
    column: str
    judged: bool
    removes: Sequence[str]


def deduplicate(extractor: Extractor, rule: Rule, settings: DedupSettings, output: Output) -> None:
    """Embed what is new, find the pairs, decide, and write lists and page.

    Raises:
        UserError: An input cannot be found or holds no picture, or the work cannot be done for a reason that the user can fix.
    """
    opened = extractor.source
    assert opened is not None, "whatever a command opens has a source"
    embedding = Embedding(opened, extractor.identity, settings.folder.absolute())

    def embed(sources: Sequence[Path], apart: Sequence[Path] = ()) -> list[Embedded]:
        containers = list_containers(sources, embedding.folder, apart, settings.column)
        return embed_containers(embedding, extractor.files, containers, output)

    (settings.folder / f"{REMOVE}.parquet").unlink(missing_ok=True)  # or --apply took it for what follows
    inputs, tests = embed(settings.inputs, settings.test_sets), embed(settings.test_sets)
    write_text(
        settings.folder / INPUTS, json.dumps({container.source: container.state for container in inputs})
    )
    problems = [
        (text_of(container.source), problem)
        for container in (*inputs, *tests)
        for problem in container.problems
    ]
    for source, problem in problems[:NAMED]:
        output.say(f"{source}: {problem}")
    collection = make_collection(embedding, inputs, tests)
    if not collection.inputs:
        apart = " that is in no test set" if settings.test_sets else ""
        raise UserError(f"no picture{apart} was found in {', '.join(map(str, settings.inputs))}.")
    if settings.test_sets and not collection.has_test_sets:
        raise UserError(f"no picture was found in {', '.join(map(str, settings.test_sets))}.")

    compared = len(collection) - collection.inputs or len(collection)
    threshold = rule.against(collection.sample).threshold(compared)
    if threshold is None:
        raise UserError("nothing calibrates a threshold for this network. Give one with --threshold.")
    output.say(
        f"{collection.inputs:,} pictures{f', {compared:,} of test sets' if settings.test_sets else ''}; score ≥ {threshold:.3f}"
    )
    parent, across = embedding.folder / PAIRS, bool(settings.test_sets)
    lists = Lists(opened, collection, -threshold, parent, embedding.identity, across)
    candidates = find_candidates(collection, find_pairs(lists), {source for source, _ in problems})
    verdicts = judge_candidates(
        Judging(collection, embedding.folder / JUDGED, settings.column), candidates, settings.judged
    )
    decided = decide(candidates, verdicts, settings.removes)
    counts = write_lists(settings.folder, collection, decided, problems)
    page = write_page(settings.folder, collection, decided, counts, settings.column)
    output.record("dedup", counts)
    output.say(
        f"{counts[KEEP]:,} pictures stay, {counts[REVIEW]:,} of them to be looked at; {counts[REMOVE]:,} would go; "
        f"{counts[UNREADABLE]:,} cannot be read\nlists: {', '.join(f'{name}.parquet' for name in LISTS)} in "
        f"{settings.folder}; page: {page}\nnothing was changed; --apply DIR writes filtered tars and tables"
    )
