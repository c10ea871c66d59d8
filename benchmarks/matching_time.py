"""How long matching takes next to embedding, and whether the calibrated threshold keeps its promise.

    python benchmarks/matching_time.py                      1,000 queries against 10,000 references, simulated vectors
    python benchmarks/matching_time.py --run DIR [DIR ...]  stated and measured false alarms of runs with a ground truth

Simulated: small image files whose vectors are drawn instead of computed (unit, 256-d, half of the queries are noisy copies), so
that everything but the network is timed: hashing, the database, the Faiss file, calibration, normalisation, search, the CSV and
the gallery. --run: the run's queries that copy nothing, of which some match all the same.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from image_copies.data.discovery import discover
from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import ImageSet
from image_copies.matching.extractor import Extractor, Normalizer
from image_copies.matching.index.filling import add_pictures
from image_copies.matching.index.store import open_store
from image_copies.matching.matches import Rule, write_matches_csv
from image_copies.matching.results.gallery import write_matches_page
from image_copies.matching.search import Search
from image_copies.matching.threshold import fit_tail_of_readable
from image_copies.models.inference.embedders import EmbeddedBlock
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.pipeline.run.run import open_existing_run
from image_copies.pipeline.tools.run_extractor import calibrate_on_run, run_normalizer
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.ensemble.variant import Variant
from image_copies.submissions.settings import NormalizationSettings
from image_copies.submissions.vectors.files import Vectors, read_vectors

QUERIES, REFERENCES, TRAINING, DIMENSIONS = 1000, 10_000, 10_000, 256
FALSE_ALARM_RATES = (0.001, 0.003, 0.01, 0.03, 0.1)
CONSOLE = Console(width=120)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Simulated(Extractor):
    """An extractor that knows every file's vector by its name.

    Attributes:
        by_name: Unit vector [d] of each file name.
    """

    by_name: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def extract(self, images: ImageSet) -> Iterator[EmbeddedBlock]:
        vectors = np.stack([self.by_name[path.name] for path in images.paths])
        yield EmbeddedBlock(0, vectors, np.zeros(len(vectors), bool))


def draw_unit_vectors(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    return scale_to_unit_length(rng.standard_normal((count, DIMENSIONS), dtype=np.float32))


def simulate(folder: Path) -> Simulated:
    """Write the pictures and draw their vectors."""
    rng = np.random.default_rng(0)
    references, queries = draw_unit_vectors(rng, REFERENCES), draw_unit_vectors(rng, QUERIES)
    noise = 0.03 * rng.standard_normal((QUERIES // 2, DIMENSIONS), dtype=np.float32)
    queries[: QUERIES // 2] = scale_to_unit_length(references[: QUERIES // 2] + noise)
    by_name = {}
    for name, vectors in (("references", references), ("queries", queries)):
        (folder / name).mkdir()
        for row, vector in enumerate(vectors):
            file = f"{name[0]}{row:06d}.jpg"
            cv2.imwrite(str(folder / name / file), rng.integers(0, 256, (64, 64, 3), dtype=np.uint8))
            by_name[file] = vector
    ids = [f"t{row}" for row in range(TRAINING)]
    training = Vectors(ids, draw_unit_vectors(rng, TRAINING), np.zeros(TRAINING, bool))
    normalizer = Normalizer(training, Variant(DIMENSIONS, 0.0, "method2", 1.0), NormalizationSettings())
    return Simulated([], EmbeddingSettings(), scale_to_unit_length, DIMENSIONS, "simulated", normalizer, by_name=by_name)


def speed() -> None:
    """Print the time of every part of match.py without the network."""
    table = Table(
        "part", "seconds", title=f"{QUERIES:,} queries × {REFERENCES:,} references, {DIMENSIONS}-d, {TRAINING:,} training"
    )
    total = 0.0

    def timed(name: str, work: Callable[[], Result]) -> Result:
        nonlocal total
        start = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - start
        total += seconds
        table.add_row(name, f"{seconds:.2f}")
        return result

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        extractor = simulate(folder)
        assert extractor.normalizer is not None
        training = extractor.normalizer.training
        held_out = training.rows(training.ids[:2000])
        held, asked = discover([folder / "references"]).paths, discover([folder / "queries"]).paths
        with open_store(folder / "index", "simulated", DIMENSIONS) as store:
            timed(
                "hash and store the references", lambda: add_pictures(store, extractor, discover([folder / "references"]).paths)
            )
            tail = timed("calibrate on 2,000 × 2,000", lambda: fit_tail_of_readable(held_out, held_out, np.arange(2000)))
            rule = Rule(None, tail, 0.001, 10)
            matches = timed(
                "Faiss file, normalise, search, judge",
                lambda: Search(store, extractor, rule).queries(asked).matches,
            )
            timed("CSV", lambda: write_matches_csv(folder / "matches.csv", matches))
            timed("gallery of the best 300", lambda: write_matches_page(folder / "gallery", matches, rule))
            table.add_row("all", f"{total:.2f}", end_section=True)
            found = sum(match.query.name[1:] == match.reference.name[1:] for match in matches.pairs)
            wrong = len({match.query for match in matches.pairs if int(match.query.stem[1:]) >= QUERIES // 2})
            timed("again, nothing new", lambda: add_pictures(store, extractor, held))
            timed("copies within the references", lambda: Search(store, extractor, rule).within())
    CONSOLE.print(table)
    CONSOLE.print(f"{found} of {QUERIES // 2} copies found, {wrong} of {QUERIES // 2} others matched")


def promises(folders: list[Path]) -> None:
    """Print stated and measured false alarms of each run."""
    table = Table("run", "stated", "queries that copy nothing", "of them matched", "measured", "÷ stated", "copies found")
    for folder in folders:
        run = open_existing_run(folder, None)
        tail = calibrate_on_run(run, run_normalizer(run))
        truth = read_ground_truth(run.data / "public_ground_truth.csv")
        queries, references = read_vectors(folder / "normalized" / "query.h5"), read_vectors(folder / "ensemble" / "reference.h5")
        nearest, true = distances(queries, references, truth.pairs)
        copies = {query for query, _ in truth.pairs}
        alone = nearest[[query not in copies for query in queries.ids]]
        for rate in FALSE_ALARM_RATES:
            limit = tail.threshold(rate, int((~references.unreadable).sum()))
            matched = int((alone <= limit).sum())
            measured = matched / len(alone)
            found = f"{int((true <= limit).sum())} of {len(true)}"
            row = str(folder), f"{rate:g}", str(len(alone)), str(matched), f"{measured:.4f}", f"{measured / rate:.2f}", found
            table.add_row(*row, end_section=rate == FALSE_ALARM_RATES[-1])
    CONSOLE.print(table)


def distances(
    queries: Vectors, references: Vectors, pairs: Collection[tuple[str, str]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the squared distances of every query to its nearest reference [n], and those of the true pairs."""
    readable = references.rows([image for image, bad in zip(references.ids, references.unreadable, strict=True) if not bad])
    products = queries.vectors.astype(np.float64) @ readable.vectors.astype(np.float64).T
    squares = (queries.vectors.astype(np.float64) ** 2).sum(axis=1)[:, None] + 1 - 2 * products
    row = {image_id: place for place, image_id in enumerate(queries.ids)}
    column = {image_id: place for place, image_id in enumerate(readable.ids)}
    return squares.min(axis=1), np.array([squares[row[query], column[reference]] for query, reference in pairs])


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--run", type=Path, nargs="+", metavar="DIR", default=[])
    arguments = options.parse_args()
    promises(arguments.run) if arguments.run else speed()
