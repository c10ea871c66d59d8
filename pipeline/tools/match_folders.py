"""match.py's work: a stored index of references, and which of them the queries copy."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from data.errors import UserError
from data.images import ImageSet, find_images
from pipeline.tools.extractor import Extractor
from submissions.index.matches import Match, Matches, Rule
from submissions.index.search import content_numbers, nearest, open_search, vectors_of
from submissions.index.store import (
    Content,
    Store,
    add_files,
    contents_of,
    digest_of,
    files_of_content,
    remove_files,
    stored_files,
    unreadable_files,
)

TOGETHER = 1024  # images embedded between two commits: what a kill loses at most


@dataclass(frozen=True)
class Added:
    """images: below the folder; embedded: contents that the index lacked; closed: files that could not even be opened."""

    images: int
    embedded: int
    closed: list[Path]


def images_below(folder: Path) -> ImageSet:
    """The images below a folder, with absolute paths, by which the index knows them."""
    return find_images(os.path.realpath(folder), naming="file")


def indexed_path(path: Path) -> Path:
    """The absolute path by which the index knows a file or a folder, which need not be there any more."""
    if path.is_dir():
        return Path(os.path.realpath(path))
    return Path(os.path.realpath(path.parent)) / path.name  # a link to a file is known by its own name


def add_folder(store: Store, extractor: Extractor, folder: Path) -> Added:
    """Add every image below the folder; only contents that the index lacks are embedded."""
    images = images_below(folder)
    known, embedded = stored_files(store), 0
    closed: list[Path] = []
    with tqdm(total=len(images), desc="adding references", unit="image", leave=False) as bar:
        for start in range(0, len(images), TOGETHER):
            paths = images.paths[start : start + TOGETHER]
            digests = {path: _digest(path) for path in paths}
            closed += [path for path, digest in digests.items() if digest is None]
            new = {path: digest for path, digest in digests.items() if digest is not None and known.get(path) != digest}
            lacking = set(new.values()) - contents_of(store, new.values()).keys()
            first = {digest: path for path, digest in reversed(new.items()) if digest in lacking}
            if new:
                add_files(store, new, list(_embedded(extractor, first)))
            embedded += len(first)
            bar.update(len(paths))
    return Added(len(images), embedded, closed)


def forget_missing(store: Store, folder: Path) -> None:
    """Remove every file that is not among the images below the folder."""
    there = set(images_below(folder).paths)
    gone = [path for path in stored_files(store) if path not in there]
    if gone:
        remove_files(store, gone)


def match_folder(store: Store, extractor: Extractor, folder: Path, rule: Rule) -> Matches:
    """Which references the images below the folder copy."""
    images = images_below(folder)
    index = open_search(store)
    threshold = rule.threshold(index.ntotal)
    pairs: list[Match] = []
    unreadable: list[Path] = []
    with tqdm(total=len(images), desc="embedding queries", unit="image", leave=False) as bar:
        for block in extractor.extract(images):
            paths = images.paths[block.first : block.first + len(block.vectors)]
            unreadable += [path for path, bad in zip(paths, block.unreadable, strict=True) if bad]
            readable = np.flatnonzero(~block.unreadable)
            found = nearest(index, extractor.normalize(block.vectors[readable]), rule.most + 1)  # it may find itself
            for row, contents, distances in zip(readable.tolist(), found.contents, found.distances, strict=True):
                judged = _judged(store, paths[row], contents.tolist(), distances.tolist(), rule, threshold, index.ntotal)
                twins = _twins(store, paths[row])
                others = [match for match in judged if match.reference not in {twin.reference for twin in twins}]
                pairs += (twins + others)[: rule.most]
            bar.update(len(paths))
    return Matches(_ordered(pairs), threshold, len(images), index.ntotal, unreadable + unreadable_files(store))


def match_within(store: Store, extractor: Extractor, rule: Rule) -> Matches:
    """Which files of the index are copies of each other; each pair once, with the better of its two scores."""
    index = open_search(store)
    threshold = rule.threshold(index.ntotal)
    best: dict[tuple[Path, Path], Match] = {}
    numbers = content_numbers(index)
    for start in range(0, len(numbers), TOGETHER):
        part = numbers[start : start + TOGETHER]
        found = nearest(index, extractor.normalize(vectors_of(index, part)), rule.most + 1)
        for content, contents, distances in zip(part.tolist(), found.contents, found.distances, strict=True):
            paths = files_of_content(store, content)
            if not paths:
                continue  # removed by another process meanwhile
            own = [Match(paths[0], twin, 0.0, 0.0) for twin in paths[1:]]
            other = [
                (number, distance) for number, distance in zip(contents.tolist(), distances, strict=True) if number != content
            ]
            rows = [number for number, _ in other], [distance for _, distance in other]
            for match in own + _judged(store, paths[0], *rows, rule, threshold, index.ntotal):
                pair = min(match.query, match.reference), max(match.query, match.reference)
                if pair not in best or best[pair].score < match.score:
                    best[pair] = match
    files = len(stored_files(store))
    return Matches(_ordered(list(best.values())), threshold, files, index.ntotal, unreadable_files(store))


def _embedded(extractor: Extractor, files: dict[bytes, Path]) -> Iterator[Content]:
    if not files:
        return
    digests, paths = list(files), list(files.values())
    for block in extractor.extract(ImageSet([str(path) for path in paths], paths)):
        for row, (vector, bad) in enumerate(zip(block.vectors, block.unreadable, strict=True)):
            yield Content(digests[block.first + row], None if bad else vector)


def _judged(
    store: Store, query: Path, contents: list[int], distances: list[float], rule: Rule, threshold: float | None, references: int
) -> list[Match]:
    expected = rule.tail.false_alarms(np.array(distances), references).tolist() if rule.tail else [None] * len(distances)
    return [
        Match(query, path, -distance, alarms)
        for content, distance, alarms in zip(contents, distances, expected, strict=True)
        if threshold is None or -distance >= threshold
        for path in files_of_content(store, content)
        if path != query
    ]


def _twins(store: Store, query: Path) -> list[Match]:
    """Files with the query's very bytes: copies for certain, however far the query was moved by its normalisation."""
    digest = _digest(query)
    content = contents_of(store, [] if digest is None else [digest]).values()
    return [Match(query, path, 0.0, 0.0) for number in content for path in files_of_content(store, number) if path != query]


def _digest(path: Path) -> bytes | None:
    """The digest of the file's bytes; None where it cannot be opened, which stops no one from going on with the others."""
    try:
        return digest_of(path)
    except UserError:
        return None


def _ordered(pairs: list[Match]) -> list[Match]:
    return sorted(pairs, key=lambda match: (-match.score, match.query, match.reference))
