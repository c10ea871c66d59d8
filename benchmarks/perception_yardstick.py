"""perception's documented benchmark of perceptual hashes, with our vectors beside its hashes.

    python benchmarks/perception_yardstick.py PICTURES --name NAME --python PYTHON [--every N]   joins perception.json
    python benchmarks/perception_yardstick.py --docs                                             writes the table of quality.md

PICTURES: a folder of .jpg or .webp files, none a copy of another. PYTHON: of an environment with perception, which needs NumPy
below 2 for imgaug (perception_hashes.py says which). A copy counts as found if its original is nearer than the threshold at which
99.99 % of the nearest pictures are the right ones. Seconds are processor time from a file to its hash or vector.
"""

import argparse
import base64
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from measurements import Figures, Measurements
from page_tables import make_table, write_tables

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.run.cli import report_errors

COMMAND = "benchmarks/perception_yardstick.py --docs"
RESULTS = Path(__file__).with_name("perception.json")
HASHES = Path(__file__).with_name("perception_hashes.py")
OURS = "what ships"


def run_hashes(python: str, *arguments: str) -> str:
    """Run perception_hashes.py in its environment and return what it prints.

    Raises:
        UserError: It failed.
    """
    done = subprocess.run([python, str(HASHES), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"{python} {HASHES.name} {arguments[0]} failed: {(done.stderr.strip().splitlines() or [''])[-1]}")
    return done.stdout


def write_vectors(work: Path) -> float:
    """Write vectors.csv as perception writes its hashes; return the seconds that a picture takes."""
    extractor = checkpoint_extractor(SHIPPED)
    files = pd.read_csv(work / "files.csv")
    paths = [Path(path) for path in files["filepath"]]
    extractor.extract_all(ImageSet([paths[0].stem], paths[:1]))  # the network is loaded
    started = time.process_time()
    vectors = extractor.extract_all(ImageSet([path.stem for path in paths], paths)).vectors
    seconds = (time.process_time() - started) / len(paths)
    about: dict[str, Any] = {"hasher_name": OURS, "hasher_dtype": "float32", "hasher_distance_metric": "euclidean", "error": None}
    coded = [base64.b64encode(vector.tobytes()).decode() for vector in vectors]
    files.assign(hash=coded, hasher_hash_length=vectors.shape[1], **about).to_csv(work / "vectors.csv", index=False)
    return seconds


def measure(pictures: Path, python: str, every: int, _seed: int) -> Figures:
    """Return recalls by descriptor and transform, in %, and the milliseconds that a picture takes by descriptor."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        run_hashes(python, "make", str(pictures), name, "--every", str(every))
        made = json.loads((work / "hashes.json").read_text(encoding="utf-8"))
        seconds = made["seconds"] | {OURS: write_vectors(work)}
        recalls = json.loads(run_hashes(python, "score", name, str(work / "vectors.csv")))
    figures = {f"{of}: {transform}": recall for of, found in recalls.items() for transform, recall in found.items()}
    return {"pictures": made["pictures"]} | figures | {f"{of}: ms": 1000 * spent for of, spent in seconds.items()}


def make_tables(store: Measurements) -> dict[str, str]:
    """Return the table of quality.md: a row for each transform, a column for each set and descriptor."""
    of = [OURS, "PDQ", "PHash", "DHash"]
    sets = {f"{entry['about']['set']}, {entry['figures']['pictures']:.0f}": entry["figures"] for entry in store.measurements}
    kinds = dict.fromkeys(key.partition(": ")[2] for figures in sets.values() for key in figures if ": " in key)
    rows = []
    for kind in sorted(kinds, key=lambda kind: (kind == "ms", kind != "pooled", kind)):
        cells = [f"{figures[f'{one}: {kind}']:.{1 if kind == 'ms' else 2}f}" for figures in sets.values() for one in of]
        rows.append([kind if kind != "ms" else "ms of processor time a picture", *cells])
    heads = ["recall at 99.99 % precision", *(f"{name}: {one}" for name in sets for one in of)]
    return {"quality.md": make_table(heads, rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", type=Path, nargs="?", metavar="PICTURES")
    parser.add_argument("--name", help="of the pictures in the table (default: the folder's)")
    parser.add_argument("--python", default=sys.executable, help="of perception's environment (default: this one's)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every Nth picture (default: %(default)s)")
    parser.add_argument("--docs", action="store_true", help="also write the table of quality.md")
    options = parser.parse_args()
    with report_errors():
        store = Measurements.open(RESULTS)
        if options.pictures:
            about = {"set": options.name or options.pictures.resolve().name, "every": options.every}
            store.measure("perception", about, [0], partial(measure, options.pictures, options.python, options.every))
        tables = make_tables(store)
        print(*tables.values())
        if options.docs:
            write_tables(tables, COMMAND)


if __name__ == "__main__":
    main()
