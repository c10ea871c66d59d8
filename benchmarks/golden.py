"""What the commands write, kept and compared: a redesign changes nothing here, or what it changes is known row by row.

    python benchmarks/golden.py --keep FILE.json [--parts sample albums dedup]
    python benchmarks/golden.py --compare FILE.json [--parts …]      exit code 1: something changed

sample: digests of the weights and of the submission of a short run, whose training is stopped once. albums: the rows of plan.csv
and matches.csv of the albums in tests/album_kinds, those that the kept file knows. dedup: the lists of deduplicate.py of the same
albums. Seconds are measured by speed.py.
"""

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import h5py
import pyarrow.parquet as parquet
from PIL import ImageCms
from safetensors.numpy import load_file

from image_copies.data.procedural import write_pictures
from image_copies.models.shipped import SHIPPED

TOP = Path(__file__).parents[1]
sys.path.append(str(TOP))
from tests.album_kinds.families import FAMILIES, make_album  # noqa: E402

PARTS = ("sample", "albums", "dedup")
DATE = 1_714_557_600  # of the albums' files that have none of their own
PLAN = ("action", "kept", "reason", "class", "certainty", "score", "merged", "original", "sha256")
TO_BYTES = ImageCms.ImageCmsProfile.tobytes
STOPPED_AFTER = 15  # seconds
RECIPE = """
queries: {count: 60, copies: 30, augmentation: {intensity: 0.5, extra: true}}
models:
  drip:
    descriptor: &descriptor {backbone: test_efficientnet, dimensions: 32}
    extra_edits: true
    stages: [{<<: &stage {intensity: 0.5, image_size: 48, batch_size: 48, epochs: 1, iterations: 8}, classes: 60}, *stage]
  multigrain: {descriptor: *descriptor, objective: {kind: multigrain, weight: 0.1}, sampling: {kind: repeated}, stages: [*stage]}
  svmax: {descriptor: *descriptor, objective: {kind: triplet}, svmax: {weight: 1}, sampling: &pairs {kind: pk}, stages: [*stage]}
  ideal: {descriptor: {<<: *descriptor, domains: split}, objective: {kind: triplet}, sampling: *pairs, stages: [*stage]}
  gabor: {kind: gabor, dimensions: 32}
embedding: {flip: true}
ensemble: {dimensions: [16, 32], eigen_power: [0, -0.5]}
normalization: {direction_neighbours: 10}
"""
Table = dict[str, dict[str, str]]  # rows by name, of cells by column
Work = Callable[[Path], Iterator[tuple[str, Table]]]


def run_command(name: str, *arguments: object, stop_after: float | None = None) -> None:
    """Run a command of pipeline/; with `stop_after` end it by SIGTERM after so many seconds, unless it has ended."""
    command = [sys.executable, str(TOP / "pipeline" / f"{name}.py"), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(TOP), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            output = process.communicate(timeout=stop_after)[0]
        except subprocess.TimeoutExpired:
            process.terminate()
            process.communicate()
            return
    if process.returncode:
        raise SystemExit(f"{name} ended with {process.returncode}: {output[-2000:]}")


def keep_sample(place: Path) -> Iterator[tuple[str, Table]]:
    """Yield the digests of the weights and of the submission of a run, and its scores."""
    recipe, run, data = place / "recipe.yaml", place / "run", place / "data"
    recipe.write_text(RECIPE, encoding="utf-8")
    list(write_pictures(place / "drawn", "P", 400, seed=1, workers=1))
    run_command("make_data", "--photos", place / "drawn", "--output", data)
    run_command("00_augment", "--run", run, "--data", data, "--recipe", recipe)
    run_command("01_train", "--run", run, stop_after=STOPPED_AFTER)
    for step in ("01_train", "02_embed", "03_ensemble", "04_normalize", "05_submit", "06_score"):
        run_command(step, "--run", run)
    rows: Table = {}
    for path in sorted((run / "models").glob("*/stage-*.safetensors")):
        tensors = load_file(path)
        content = b"".join(tensors[name].tobytes() for name in sorted(tensors) if tensors[name].dtype.kind == "f")
        rows[f"weights of {path.parent.name}, {path.stem}"] = {"sha256": hashlib.sha256(content).hexdigest()}
    with h5py.File(run / "submission.h5") as submission:
        for name in sorted(submission):
            content = repr(submission[name][:].tolist()).encode()
            rows[f"submission: {name}"] = {"sha256": hashlib.sha256(content).hexdigest()}
    scores = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    rows["scores"] = {"micro_average_precision": str(scores["micro_average_precision"])}
    yield "sample", rows


def make_albums(place: Path, kinds: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Write the albums of these kinds; yield each family with its folder."""
    known, begun = set(kinds), time.time()
    for family, names in FAMILIES.items():
        folder = place / family / "album"
        for name in names:
            if name in known:
                with patch.object(ImageCms.ImageCmsProfile, "tobytes", write_dateless):
                    make_album(folder, name, 0)
        for path in folder.rglob("*"):
            if not path.is_symlink() and path.stat().st_mtime >= begun - 60:
                os.utime(path, (DATE, DATE))  # else what is younger depends on the clock
        yield family, folder


def write_dateless(profile: ImageCms.ImageCmsProfile) -> bytes:
    """Return a colour profile without the date at which it was made and the digest that holds it."""
    content = TO_BYTES(profile)
    return content[:24] + bytes(12) + content[36:84] + bytes(16) + content[100:]


def read_rows(path: Path, names: tuple[str, ...], columns: tuple[str, ...] | None, folder: Path) -> Table:
    """Return the rows of a CSV file by the cells of `names`; paths are relative to the folder. All columns: None."""
    rows: Table = {}
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        for line in csv.DictReader(file):
            cells = {column: cell.replace(f"{folder}/", "") for column, cell in line.items()}
            key = " | ".join(cells.pop(name) for name in names)
            rows[key] = {column: cells[column] for column in columns or cells if column in cells}
    return rows


def keep_albums(kinds: Iterable[str], place: Path) -> Iterator[tuple[str, Table]]:
    """Yield the plan and the matches of each family of albums."""
    for family, folder in make_albums(place, kinds):
        results = place / family / "matches"
        run_command("match", folder, "--checkpoint", SHIPPED, "--output", results, "--quiet", "--verify", "--views")
        yield f"{family}/plan.csv", read_rows(results / "plan.csv", ("file",), PLAN, folder)
        yield f"{family}/matches.csv", read_rows(results / "matches.csv", ("query", "reference"), None, folder)


def keep_dedup(kinds: Iterable[str], place: Path) -> Iterator[tuple[str, Table]]:
    """Yield the lists of a deduplication of each family of albums."""
    for family, folder in make_albums(place, kinds):
        results = place / family / "deduplicated"
        run_command("deduplicate", "--input", folder, "--output", results, "--checkpoint", SHIPPED)
        for name in ("keep", "remove", "review", "unreadable"):
            rows: Table = {}
            for line in parquet.read_table(results / f"{name}.parquet").to_pylist():
                cells = {column: str(cell).replace(f"{folder}/", "") for column, cell in line.items()}
                cells = {column: cell.replace(str(folder), ".") for column, cell in cells.items()}  # the source
                cells.pop("group", None)
                rows[f"{cells.pop('id')} | {cells.pop('source')}"] = cells
            yield f"{family}/dedup/{name}", rows


def compare_tables(before: Table, after: Table) -> Iterator[str]:
    """Yield what changed from one table to another, a line for each column that is gone or new and for each row."""
    old, new = ({column for row in table.values() for column in row} for table in (before, after))
    if before and after:
        yield from (f"column {column} is {'gone' if column in old else 'new'}" for column in sorted(old ^ new))
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            row = after.get(name, before.get(name))
            yield f"{name} is {'gone' if name in before else 'new'}: {json.dumps(row, ensure_ascii=False)}"
            continue
        cells = ((column, before[name].get(column, ""), after[name].get(column, "")) for column in sorted(old & new))
        if changed := [f"{column}: {was} → {now}" for column, was, now in cells if now != was]:
            yield f"{name}: {'; '.join(changed)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--keep", type=Path, metavar="FILE.json", help="write what the commands give now; other parts stay")
    what.add_argument("--compare", type=Path, metavar="FILE.json", help="print what differs from what was kept")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    path = options.keep or options.compare
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"kinds": [], "tables": {}}
    kinds = kept["kinds"] if options.compare else [name for names in FAMILIES.values() for name in names]
    changes = 0
    with tempfile.TemporaryDirectory() as place:
        for part in options.parts:
            folder = Path(tempfile.mkdtemp(dir=place)).resolve()
            work: dict[str, Work] = {
                "sample": keep_sample,
                "albums": partial(keep_albums, kinds),
                "dedup": partial(keep_dedup, kinds),
            }
            for name, table in work[part](folder):
                changed = list(compare_tables(kept["tables"].get(name, {}), table)) if options.compare else []
                changes += len(changed)
                print(f"{name}: {len(table)} rows" + (f", {len(changed)} changed" if options.compare else ""), flush=True)
                print("".join(f"  {line}\n" for line in changed), end="", flush=True)
                kept["tables"][name] = table
    if options.keep:
        path.write_text(json.dumps({"kinds": kinds, "tables": kept["tables"]}, indent=1), encoding="utf-8")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
