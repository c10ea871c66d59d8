"""Whether the threshold keeps its promise: stated and counted false alarms of queries that copy none of the references.

    python benchmarks/false_alarms.py [DATA] [--most 1200]      DATA: else the folder that COPYSETS names; joins false_alarms.json
    python benchmarks/false_alarms.py --docs                    writes the table of matching.md

Queries of DATA/photos, photos-wide.zip and tiny.zip, of copies without the pair of their original, and every eighth picture of
training-photos-2.zip (the references of kinds.py, which nothing learnt from or was fitted on), against the references of
`photos`, at most so many of each. A query counts once, whichever of its references is too near; intervals are Poisson's, 95 %.
"""

import argparse
import tempfile
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
from measurements import Figures, Measurements
from page_tables import make_table, parse_options
from scipy.stats import chi2

from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import ImageSet, find_images
from image_copies.matching.extractor import Extractor, checkpoint_extractor
from image_copies.matching.threshold import choose_sample, find_minima
from image_copies.matching.views import VIEWS, embed_views
from image_copies.models.shipped import SHIPPED

RESULTS = Path(__file__).with_name("false_alarms.json")
COMMAND = "benchmarks/false_alarms.py --docs"
RATES = 0.1, 0.01, 0.001
SETS = "photos", "photos-wide", "tiny", "training-photos-2"
KINDS = WHOLE, BOTH = "whole pictures alone", "with views"


def count_alarms(extractor: Extractor, queries: ImageSet, references: ImageSet, originals: dict[str, str]) -> Figures:
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
    figures = {"queries": float(len(queries))}
    for rate in RATES:
        limit = tail.threshold(rate, len(references))
        alone, of_views = whole <= limit, tail.as_whole(views, VIEWS) <= limit
        figures |= {f"{WHOLE} at {rate:g}": float(alone.sum()), f"{BOTH} at {rate:g}": float((alone | of_views).sum())}
    return figures


def measure(data: Path, name: str, most: int, _seed: int) -> Figures:
    """Return how many queries of a set are looked at, and how many raise false alarms by the whole picture and with views."""
    with tempfile.TemporaryDirectory() as place:
        root = data / "photos"
        if name != "photos":
            root = Path(place)
            with zipfile.ZipFile(data / f"{name}.zip") as archive:
                archive.extractall(root)
        made = name == "training-photos-2"
        queries = find_images(root / ("training_images" if made else "query_images"))
        if made:
            queries = queries.select(queries.ids[::8])
        queries = queries.select([queries.ids[row] for row in choose_sample(len(queries), most)])
        references = find_images((root if name == "tiny" else data / "photos") / "reference_images")
        originals = {} if made else dict(read_ground_truth(root / "public_ground_truth.csv").pairs)
        return count_alarms(checkpoint_extractor(SHIPPED), queries, references, originals)


def describe(count: float, stated: float) -> str:
    """Return a count with its interval, and how many times what is stated it is."""
    low, high = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0, chi2.ppf(0.975, 2 * count + 2) / 2
    return f"{count:.0f} ({low:.1f} to {high:.1f}), × {count / stated:.2f}"


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the table of matching.md: stated and counted false alarms over all sets."""
    found = [entry["figures"] for entry in store.measurements]
    queries = sum(figures["queries"] for figures in found)
    rows = []
    for rate in RATES:
        counts = [sum(figures[f"{kind} at {rate:g}"] for figures in found) for kind in KINDS]
        rows.append([f"{rate:g}", f"{rate * queries:.3g}", *(describe(count, rate * queries) for count in counts)])
    return {"matching.md": make_table(["stated rate", f"stated of {queries:.0f} queries", *KINDS], rows)}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=1200, metavar="N", help="queries of each set (default: 1200)")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="SET", help=f"of {', '.join(SETS)}")
    options, store = parse_options(parser, RESULTS, make_tables, COMMAND)
    for name in options.sets:
        store.measure(name, {"most": options.most}, [0], partial(measure, Path(options.data), name, options.most))
    print(*make_tables(store).values())


if __name__ == "__main__":
    main()
