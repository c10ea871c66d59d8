"""Whether the threshold keeps its promise: stated and counted false alarms of queries that copy none of the references.

    python benchmarks/false_alarms.py [DATA] [--most 1200]      DATA: else the folder that COPYSETS names

Queries of DATA/photos, photos-wide.zip and tiny.zip, of copies without the pair of their original, and pictures of
training-photos-2.zip with odd numbers (the others were fitted on), against the references of `photos`, at most so many of each. A
query counts once, whichever of its references is too near; intervals are Poisson's, 95 %.
"""

import argparse
import os
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import chi2

from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import ImageSet, find_images
from image_copies.matching.extractor import Extractor, checkpoint_extractor
from image_copies.matching.threshold import choose_sample, find_minima
from image_copies.matching.views import VIEWS, embed_views
from image_copies.models.shipped import SHIPPED

RATES = 0.1, 0.01, 0.001


@dataclass(frozen=True)
class Alarms:
    """How many queries raise a false alarm at each of RATES: by the whole picture alone, and with views."""

    queries: int
    whole: NDArray[np.int64]
    both: NDArray[np.int64]


def count_alarms(extractor: Extractor, queries: ImageSet, references: ImageSet, originals: dict[str, str]) -> Alarms:
    """Count the queries that raise false alarms; `originals` are the ids of the references that they copy, which do not count."""
    held = extractor.extract_all(references)
    tail = extractor.calibrate()
    assert tail is not None
    tail, place = tail.against(held.readable), {image_id: row for row, image_id in enumerate(held.ids)}
    own = np.array([place.get(originals.get(image_id, ""), -1) for image_id in queries.ids])
    whole = find_minima(extractor.normalize(extractor.extract_all(queries).vectors), held.vectors, own)
    made = embed_views(extractor, queries.paths)
    views = np.full(len(queries), np.inf)
    for row, vectors in enumerate(made):
        if vectors is not None:
            views[row] = find_minima(extractor.normalize(vectors), held.vectors, np.full(len(vectors), own[row])).min()
    limits = [tail.threshold(rate, len(references)) for rate in RATES]
    alone = [whole <= limit for limit in limits]
    of_views = [views <= tail.as_view(limit, VIEWS) for limit in limits]
    both = [(one | other).sum() for one, other in zip(alone, of_views, strict=True)]
    return Alarms(len(queries), np.array([one.sum() for one in alone]), np.array(both))


def describe(count: int, stated: float) -> str:
    """Return a count with its interval, and how many times what is stated it is."""
    low, high = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0, chi2.ppf(0.975, 2 * count + 2) / 2
    return f"{count} ({low:.1f} to {high:.1f}), × {count / stated:.2f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", default=os.environ.get("COPYSETS"))
    parser.add_argument("--most", type=int, default=1200, metavar="N", help="queries of each set (default: 1200)")
    options = parser.parse_args()
    if options.data is None:
        parser.error("name DATA, or set COPYSETS")
    data, extractor, total = Path(options.data), checkpoint_extractor(SHIPPED), list[Alarms]()
    table = Table("queries", "stated", "whole pictures alone", "with views")
    with tempfile.TemporaryDirectory() as place:
        roots = {"photos": data / "photos"}
        for name in ("photos-wide", "tiny", "training-photos-2"):
            roots[name] = Path(place) / name
            with zipfile.ZipFile(data / f"{name}.zip") as archive:
                archive.extractall(roots[name])
        for name, root in roots.items():
            made = name == "training-photos-2"
            queries = find_images(root / ("training_images" if made else "query_images"))
            if made:
                queries = queries.select([image_id for image_id in queries.ids if int(image_id[1:]) % 2])
            queries = queries.select([queries.ids[row] for row in choose_sample(len(queries), options.most)])
            references = find_images((root if name == "tiny" else data / "photos") / "reference_images")
            originals = {} if made else dict(read_ground_truth(root / "public_ground_truth.csv").pairs)
            total.append(count_alarms(extractor, queries, references, originals))
            add_rows(table, name, total[-1])
    add_rows(table, "all", Alarms(*(sum(getattr(one, field) for one in total) for field in ("queries", "whole", "both"))))
    Console(width=120).print(table)


def add_rows(table: Table, name: str, alarms: Alarms) -> None:
    """Add what was counted of a set to the table."""
    for rate, whole, both in zip(RATES, alarms.whole.tolist(), alarms.both.tolist(), strict=True):
        stated = rate * alarms.queries
        about = f"{name}: {alarms.queries}", f"{stated:g} at {rate:g}"
        table.add_row(*about, describe(whole, stated), describe(both, stated), end_section=rate == RATES[-1])


if __name__ == "__main__":
    main()
