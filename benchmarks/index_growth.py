"""An index that grows: time and memory of adding, opening and searching, and the copies that approximate search loses.

    python benchmarks/index_growth.py [--contents 1000000] [--copies QUERIES.h5 REFERENCES.h5 CSV] … [--others FILE.h5 …]
    python benchmarks/index_growth.py --docs                    writes the table of scale.md

There are no pictures and no network: vectors are drawn such that they are as hard to index as real ones (`Population`). Wall and
processor seconds of each part are printed, and its highest resident memory without mapped files. They join index_growth.json.
Up to a million, a runbook follows, as in the streaming track of big-ann-benchmarks: it inserts, deletes and searches 4 : 4 : 1.

Real vectors of the shipped descriptor (`02_embed.py --images DIR --output FILE.h5`) come first; the rest is drawn like them.
Of the copies that a ground truth names and the exact search reports, those are counted that few lists lose.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from measurements import Figures, Measurements
from numpy.typing import NDArray
from page_tables import make_table, parse_options
from rich.console import Console
from rich.table import Table

from image_copies.data.ground_truth import read_ground_truth
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.matching.index import codes as coding
from image_copies.matching.index.search import SearchIndex, find_nearest, find_nearest_of_blocks, open_search
from image_copies.matching.index.segments import open_segments
from image_copies.matching.index.store import Content, Store, add_files, open_store, remove_files, stored_files
from image_copies.models.shipped import SHIPPED
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.vectors.files import read_vectors

DIMENSIONS, BLOCK, QUERIES, ADDED, NEAREST = 256, 10_000, 4000, 1000, 10
COMPARED = 500  # queries that are searched exactly, too
PICTURES_PER_KIND = 30  # on average
MAX_SHARED = 0.5  # largest share of a vector's squared length that its kind has in common
COPY_SHARE = 0.1  # share of the contents that are copies of others
COPY_QUANTILES = (0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1)  # of copies, at the squared distances below to their originals
COPY_DISTANCES = (0, 0.006, 0.033, 0.28, 1.031, 1.561, 1.846, 2)
FALSE_ALARMS = 0.001  # match.py's default, which sets the reporting threshold
PROBES = (0.05, 0.1, 0.2, 0.4, 0.6)  # values of `codes.PROBED_LISTS`
MATCH_DISTANCE = 0.8  # squared distance below which a copy would be reported
ROUNDS, STEP_SHARE, BOOK_CONTENTS = 10, 0.01, 1_000_000  # of a runbook, and in an index at most
RESULTS = Path(__file__).with_name("index_growth.json")
COMMAND = "benchmarks/index_growth.py --docs"
CONSOLE = Console(width=120)
T = TypeVar("T")


class Population:
    """Unit vectors with the measured properties of real descriptors.

    Fitted to 12,000 vectors of photographs (a joined descriptor, PCA to 256 dimensions, not whitened): the spectrum of the
    covariance (first share 2.1 %, last .2 %, participation ratio 126; measured 148), squared distances to the nearest (median
    1.20; measured 1.26) and tenth nearest (1.39; 1.41), and recall at 10 of 128 inverted lists of which 12, 25 and 51 are
    probed (.74, .87, .96; .73, .87, .96). Copies lie as far from their originals as 400 edited photographs do.

    Attributes:
        kinds: Number of kinds of pictures.
    """

    def __init__(self, contents: int, seed: int, real: NDArray[np.float32] | None = None) -> None:
        """Draw the kinds of a collection of `contents` pictures, or take real vectors [n, d] for them."""
        self._rng = np.random.default_rng(seed)
        shares = 0.02 * np.exp(-np.arange(DIMENSIONS) / 25) + 0.002
        self._scale = np.diag(np.sqrt(shares / shares.sum())).astype(np.float32)
        if real is not None:
            self._scale = np.linalg.cholesky(np.cov(real.T) + 1e-7 * np.eye(DIMENSIONS)).T.astype(np.float32)
        self._centres = self._noise(max(1, contents // PICTURES_PER_KIND)) if real is None else real
        self.kinds = len(self._centres)
        self._likeness = MAX_SHARED * self._rng.random((self.kinds, 1), dtype=np.float32)

    def draw(self, count: int) -> NDArray[np.float32]:
        """Return vectors [count, d] of new pictures."""
        kinds = self._rng.integers(0, self.kinds, count)
        likeness = self._likeness[kinds]
        vectors = np.sqrt(likeness) * self._centres[kinds] + np.sqrt(1 - likeness) * self._noise(count)
        return scale_to_unit_length(vectors.astype(np.float32))

    def draw_copies(self, originals: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return vectors [n, d] of edited copies, and their squared distances [n] to the originals."""
        distances = np.interp(self._rng.random(len(originals)), COPY_QUANTILES, COPY_DISTANCES)
        cosines = (1 - distances / 2).astype(np.float32)[:, None]
        away = self._noise(len(originals))
        along: NDArray[np.float32] = (away * originals).sum(axis=1, keepdims=True)
        away = scale_to_unit_length((away - along * originals).astype(np.float32))
        copies = cosines * originals + np.sqrt(1 - cosines**2) * away
        return scale_to_unit_length(copies.astype(np.float32)), distances

    def draw_blocks(self, count: int) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of a collection, of which a share are copies of others in the same block."""
        for first in range(0, count, BLOCK):
            vectors = self.draw(min(BLOCK, count - first))
            copied = int(COPY_SHARE * len(vectors))
            vectors[:copied] = self.draw_copies(vectors[copied : 2 * copied])[0]
            yield vectors

    def _noise(self, count: int) -> NDArray[np.float32]:
        noise: NDArray[np.float32] = self._rng.standard_normal((count, DIMENSIONS), dtype=np.float32) @ self._scale
        return noise


def add(store: Store, vectors: NDArray[np.float32], first: int) -> None:
    """Add vectors as contents with names from `first` on."""
    digests = [(first + row).to_bytes(32, "big") for row in range(len(vectors))]
    files = {Path(f"/pictures/{first + row}.jpg"): digest for row, digest in enumerate(digests)}
    add_files(store, files, [Content(digest, vector) for digest, vector in zip(digests, vectors, strict=True)])


def measure_unmapped_memory() -> float:
    """Return the resident memory that belongs to no file, in GiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 2**20


@contextmanager
def watch_memory() -> Iterator[list[float]]:
    """Record the highest unmapped memory during the block, in GiB, as the only item of the list."""
    seen, ended = [measure_unmapped_memory()], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            seen[0] = max(seen[0], measure_unmapped_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


def compute_recall(found: NDArray[np.int64], true: NDArray[np.int64]) -> float:
    """Return the share of the true contents [n, k] that are among those found [n, k]."""
    return float(
        np.mean([len(set(one) & set(other)) / len(other) for one, other in zip(found.tolist(), true.tolist(), strict=True)])
    )


def compute_loss(found: NDArray[np.int64], originals: NDArray[np.int64], distances: NDArray[np.float64]) -> float:
    """Return the share of copies within MATCH_DISTANCE whose originals [n] are not among the contents found [m ≥ n, k]."""
    near = distances < MATCH_DISTANCE
    return float((found[: len(originals)][near] != originals[near, None]).all(axis=1).mean())


class RealCopies:
    """Copies among real pictures, of which the index holds all or those that come first.

    Attributes:
        references: Vectors [m, d], those that were copied first.
        queries: Normalised vectors [n, d].
        originals: Row of each query's reference [n].
        distances: Squared distances to them [n].
    """

    def __init__(self, copies: Sequence[Sequence[Path]], others: Sequence[Path]) -> None:
        """Read queries, references and ground truth of each data set, and the vectors of other pictures."""
        self.extractor, self.references = checkpoint_extractor(SHIPPED), np.zeros((0, DIMENSIONS), np.float32)
        queries, originals = list[NDArray[np.float32]](), list[int]()
        for asked, held, table in copies:
            found, known, truth = read_vectors(asked), read_vectors(held), read_ground_truth(table)
            rows = {name: len(self.references) + row for row, name in enumerate(known.ids)}
            pairs = sorted(truth.pairs)
            queries.append(found.rows([query for query, _ in pairs]).vectors)
            originals += [rows[reference] for _, reference in pairs]
            self.references = np.concatenate([self.references, known.vectors])
        self.references = np.concatenate([self.references, *(read_vectors(path).readable() for path in others)])
        self.queries, self.originals = self.extractor.normalize(np.concatenate(queries)), np.array(originals)
        self.distances = ((self.queries.astype(np.float64) - self.references[self.originals]) ** 2).sum(axis=1)

    def report_losses(self, index: SearchIndex, exact: SearchIndex) -> None:
        """Print how many of the copies that the exact search reports each number of lists loses, and the time it takes."""
        tail = self.extractor.calibrate()
        assert tail is not None
        limit = tail.against(index.sample).threshold(FALSE_ALARMS, index.ntotal)
        near = np.flatnonzero(self.distances <= limit)
        queries, originals = self.queries[near], self.originals[near, None] + 1
        reported = (find_nearest(exact, queries, NEAREST).contents == originals).any(axis=1)
        for probed in (*PROBES, None):
            coding.PROBED_LISTS = probed or coding.PROBED_LISTS
            began = time.process_time()
            (found,) = find_nearest_of_blocks(index, [queries], NEAREST, near=probed is not None)
            took = 1e3 * (time.process_time() - began) / len(queries)
            lost = (reported & ~(found.contents == originals).any(axis=1)).sum() / reported.sum()
            CONSOLE.print(
                f"{reported.sum():,} copies within {limit:.3f}, {probed or 'any'}: {lost:.2%} lost, {took:.2f} ms a query"
            )


def measure_growth(contents: int, real: RealCopies | None, _seed: int = 0) -> Figures:
    """Fill an index, change and search it; print and return what each part takes, what is lost, and what a runbook finds."""
    coding.MIN_CODED_CONTENTS = min(coding.MIN_CODED_CONTENTS, contents)
    table = Table("part", "seconds", "processor seconds", "GiB at most", title=f"{contents:,} × {DIMENSIONS}")
    figures: Figures = {}

    def time_part(name: str, work: Callable[[], T]) -> T:
        with watch_memory() as memory:
            wall, processor = time.perf_counter(), time.process_time()
            result = work()
            figures[f"{name}: processor s"] = time.process_time() - processor
            figures[f"{name}: GiB"] = memory[0]
            row = f"{time.perf_counter() - wall:.1f}", f"{figures[f'{name}: processor s']:.2f}"
        table.add_row(name, *row, f"{memory[0]:.2f}")
        return result

    population = Population(contents, 0, None if real is None else real.references)
    with tempfile.TemporaryDirectory() as name, open_store(Path(name), "simulated", DIMENSIONS) as store:

        def fill() -> None:
            known = 0 if real is None else min(contents, len(real.references))
            for first in range(0, known, BLOCK):
                add(store, real.references[first : min(known, first + BLOCK)], first)  # type: ignore[union-attr]
            for number, vectors in enumerate(population.draw_blocks(contents - known)):
                add(store, vectors, known + number * BLOCK)

        def add_and_open() -> SearchIndex:
            add(store, fresh, contents)
            return open_search(store)

        def remove_and_open() -> SearchIndex:
            remove_files(store, [Path(f"/pictures/{contents // ADDED * row}.jpg") for row in range(ADDED)])
            return open_search(store)

        time_part("fill", fill)
        time_part("make the files of vectors", lambda: open_segments(store))
        time_part("train the quantiser, make the codes", lambda: open_search(store))
        files = {path.name for path in Path(name).glob("[cqv]*")}
        time_part("open", lambda: open_search(store))
        fresh = population.draw(ADDED)
        time_part(f"add {ADDED:,} and open", add_and_open)
        index = time_part(f"remove {ADDED:,} and open", remove_and_open)
        kept = files <= {path.name for path in Path(name).glob("[cqv]*")}
        originals = index.numbers()[:: contents // (QUERIES // 2)][: QUERIES // 2]
        copies, distances = population.draw_copies(index.vectors_of(originals))
        queries = np.concatenate([copies, population.draw(QUERIES // 2)])
        few, compared = queries[:: QUERIES // COMPARED], open_search(store, exact=True)
        true = time_part("search exactly", lambda: find_nearest(compared, few, NEAREST))
        found = time_part("search by the codes", lambda: find_nearest(index, few, NEAREST))
        (near,) = time_part("look copies up", lambda: find_nearest_of_blocks(index, [queries], NEAREST, near=True))
        figures["lost"] = compute_loss(near.contents, originals, distances)
        time_part("one query, exactly", lambda: find_nearest(compared, queries[:1], NEAREST))
        time_part("one query, by the codes", lambda: find_nearest(index, queries[:1], NEAREST))
        figures["recall"] = compute_recall(found.contents, true.contents)
        if real is not None:
            index = open_search(store)
            real.report_losses(index, open_search(store, exact=True))
        if contents <= BOOK_CONTENTS:
            figures |= run_book(store, population, contents + ADDED, time_part)
    CONSOLE.print(table)
    CONSOLE.print(f"files written before kept as they were: {kept}")
    return figures


def run_book(store: Store, population: Population, added: int, time_part: Callable[[str, Callable[[], Any]], Any]) -> Figures:
    """Insert, delete and search 4 : 4 : 1, in ROUNDS; return the lowest recall, and the largest share of copies lost.

    A step inserts or deletes a STEP_SHARE of the contents, drawn at random. `added` names have been used. Recall is that of
    COMPARED copies; lost are those of QUERIES within MATCH_DISTANCE whose original is not found.
    """
    rng, recalls, lost = np.random.default_rng(1), list[float](), list[float]()
    names = np.array(sorted(int(path.stem) for path in stored_files(store)))
    step = int(STEP_SHARE * len(names))

    def change() -> None:
        nonlocal added, names
        for _ in range(4):
            add(store, population.draw(step), added)
            names, added = np.concatenate([names, np.arange(added, added + step)]), added + step
        chosen = rng.choice(len(names), 4 * step, replace=False)
        remove_files(store, [Path(f"/pictures/{name}.jpg") for name in names[chosen]])
        names = np.delete(names, chosen)

    for number in range(ROUNDS):
        time_part(f"runbook {number}: change", change)
        index = time_part(f"runbook {number}: open", partial(open_search, store))
        originals = rng.choice(index.numbers(), QUERIES, replace=False)
        copies, distances = population.draw_copies(index.vectors_of(originals))
        true = find_nearest(open_search(store, exact=True), copies[:COMPARED], NEAREST)
        recalls.append(compute_recall(find_nearest(index, copies[:COMPARED], NEAREST).contents, true.contents))
        (near,) = time_part(f"runbook {number}: search", partial(find_nearest_of_blocks, index, [copies], NEAREST, near=True))
        lost.append(compute_loss(near.contents, originals, distances))
    return {"runbook: recall": min(recalls), "runbook: lost": max(lost)}


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the table of scale.md: rates, memory and what is lost by number of contents."""
    found = sorted((entry["about"]["contents"], entry["figures"]) for entry in store.measurements)

    def row(name: str, show: Callable[[Figures], str]) -> list[str]:
        return [name, *(show(each) for _, each in found)]

    rows = [
        row(
            "processor seconds: SQLite; files of vectors; quantiser and codes",
            lambda each: "; ".join(
                f"{each[f'{part}: processor s']:.0f}"
                for part in ("fill", "make the files of vectors", "train the quantiser, make the codes")
            ),
        ),
        row(
            "look-ups of copies a second of one core; copies lost",
            lambda each: f"{QUERIES / each['look copies up: processor s']:,.0f}; {each['lost']:.1%}",
        ),
        row(
            "neighbours at any distance, queries a second of one core; recall at 10",
            lambda each: f"{COMPARED / each['search by the codes: processor s']:,.0f}; {each['recall']:.3f}",
        ),
        row("exactly, queries a second of one core", lambda each: f"{COMPARED / each['search exactly: processor s']:,.0f}"),
        row(
            "GiB of memory at most: to make; to search",
            lambda each: (
                f"{max(each['make the files of vectors: GiB'], each['train the quantiser, make the codes: GiB']):.1f}; "
                f"{each['look copies up: GiB']:.1f}"
            ),
        ),
        row(
            "runbook: lowest recall at 10; most copies lost",
            lambda each: f"{each['runbook: recall']:.3f}; {each['runbook: lost']:.1%}" if "runbook: lost" in each else "",
        ),
    ]
    return {"scale.md": make_table(["made-up vectors", *(f"{count:,}" for count, _ in found)], rows)}


def main() -> None:
    """Measure, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contents", type=int, default=1_000_000)
    parser.add_argument("--copies", type=Path, nargs=3, action="append", default=[], metavar=("QUERIES", "REFERENCES", "CSV"))
    parser.add_argument("--others", type=Path, nargs="+", default=[], metavar="FILE", help="vectors of further pictures")
    options, store = parse_options(parser, RESULTS, make_tables, COMMAND, with_data=False)
    if options.copies:
        measure_growth(options.contents, RealCopies(options.copies, options.others))
        return
    store.measure("growth", {"contents": options.contents}, [0], partial(measure_growth, options.contents, None))
    print(*make_tables(store).values())


if __name__ == "__main__":
    main()
