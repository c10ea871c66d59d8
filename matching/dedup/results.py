"""What a deduplication reports: lists of the pictures to keep, to remove, to be looked at and unreadable, and a page."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Collection as Container
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import ImageError, line_of
from image_copies.data.files import whole_file, whole_folder
from image_copies.data.sources.containers import Rereader, name_picture
from image_copies.data.sources.tables import import_pyarrow
from image_copies.data.sources.walking import set_aside
from image_copies.matching.dedup.collection import Collection, Numbers
from image_copies.matching.dedup.deciding import Candidates, PairVerdict
from image_copies.submissions.report.gallery import write_thumbnail
from image_copies.submissions.report.inputs import render

TEMPLATE = Path(__file__).parent / "templates" / "dedup.html.jinja"
KEEP, REMOVE, REVIEW, UNREADABLE = LISTS = ("keep", "remove", "review", "unreadable")
INPUTS, PAIRS, PAGE = "inputs.txt", "lists", "page"
WRITTEN = (INPUTS, PAIRS, PAGE, *(f"{name}{ending}" for name in LISTS for ending in (".parquet", ".txt")))  # into the results
SHOWN = 20  # pairs of each class on the page
GRADES = (100, 97, 95, 90, 80, 60, 40, 10)  # certainties of the page's table
ROWS_AT_ONCE = 2**16  # rows of a list that are written together
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Decided:
    """What was decided of pictures.

    Attributes:
        candidates: Those that might go.
        verdicts: The class of each.
        removes: The classes that go.
    """

    candidates: Candidates
    verdicts: Sequence[PairVerdict]
    removes: Container[str]

    def going(self) -> NDArray[np.bool_]:
        """Return whether each candidate goes, bool [n]."""
        return np.fromiter(
            (verdict.kind in self.removes and not verdict.missed for verdict in self.verdicts), bool, len(self.verdicts)
        )

    def find_staying(self) -> Numbers:
        """Return for each candidate the row that names what stays for it [n]: its own, or that of a picture that goes, too."""
        numbers, kept = self.candidates["number"], self.candidates["kept"]
        gone = np.flatnonzero(self.going())
        gone = gone[np.argsort(numbers[gone])]
        again = np.isin(kept, numbers[gone])
        rows = np.arange(len(kept))
        rows[again] = gone[np.searchsorted(numbers[gone], kept[again])]
        return rows


def write_lists(folder: Path, collection: Collection, decided: Decided, problems: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Write the lists as Parquet and as text, one file of vectors after another, and return their lengths.

    `problems` are those of whole containers, after their paths. What is to be looked at is kept.
    """
    candidates, going, counts = decided.candidates, decided.going(), Counter[str]()
    staying = decided.find_staying()
    stays, originals = np.unique(candidates["kept"][staying], return_inverse=True)
    found_names = (name_picture(about["source"], about["id"]) for _, about in collection.look_up(stays, ["id", "source"]))
    names = np.fromiter(found_names, np.dtypes.StringDType(), len(stays))
    ordered = np.argsort(candidates["number"])
    bounds = np.searchsorted(candidates["number"], collection.starts, sorter=ordered).tolist()
    with ExitStack() as held:
        add = {name: held.enter_context(_open_list(folder, name)) for name in LISTS}
        add[UNREADABLE]([{"id": "", "source": source, "error": problem} for source, problem in problems])
        for file in range(int(np.searchsorted(collection.starts, collection.inputs))):
            found: dict[str, Rows] = {name: [] for name in LISTS}
            about: dict[str, Any]
            columns = ["id", "source", "place", "sha256", "error"]
            own = ordered[bounds[file] : bounds[file + 1]].tolist()
            rows = dict(zip(candidates["number"][own].tolist(), own, strict=True))
            for number, about in enumerate(collection.read(file, columns).to_pylist(), int(collection.starts[file])):
                if about["error"] is not None:
                    found[UNREADABLE].append(about)
                    continue
                about["sha256"] = about["sha256"].hex()
                row = rows.get(number)
                if row is not None:
                    told = int(staying[row]) if candidates["same"][row] else row  # what is true of its bytes is true of it
                    one, verdict = candidates[told], decided.verdicts[told]
                    said = {"class": verdict.kind, "reason": verdict.reason, "certainty": verdict.certainty}
                    about |= said | {"group": one["group"], "score": 0.0 - one["distance"], "copy_of": names[originals[row]]}
                    found[REMOVE if going[row] else REVIEW].append(about)
                if row is None or not going[row]:
                    found[KEEP].append(about)
            for name, listed in found.items():
                add[name](listed)
                counts[name] += len(listed)
    return {name: counts[name] for name in LISTS}


@contextmanager
def _open_list(folder: Path, name: str) -> Iterator[Callable[[Rows], None]]:
    """Open a list, as Parquet and as text with a name on each line, and yield what adds rows to it."""
    pa, parquet = import_pyarrow()
    about = [("class", pa.string()), ("certainty", pa.int32()), ("reason", pa.string()), ("copy_of", pa.string())]
    about += [("score", pa.float64()), ("group", pa.int64()), ("place", pa.int64())]
    more = {KEEP: [("sha256", pa.string())], UNREADABLE: [("error", pa.string())]}.get(name, [("sha256", pa.string()), *about])
    schema, waiting = pa.schema([("id", pa.string()), ("source", pa.string()), *more]), list[dict[str, Any]]()
    with ExitStack() as held:
        table, text = (held.enter_context(whole_file(folder / f"{name}{ending}")) for ending in (".parquet", ".txt"))
        writer, lines = (
            held.enter_context(parquet.ParquetWriter(table, schema)),
            held.enter_context(text.open("w", encoding="utf-8")),
        )

        def write() -> None:
            writer.write_table(pa.Table.from_pylist(waiting, schema))
            waiting.clear()

        def add(rows: Rows) -> None:
            lines.writelines(line_of(name_picture(row["source"], row["id"])) + "\n" for row in rows)
            waiting.extend(rows)
            if len(waiting) >= ROWS_AT_ONCE:
                write()

        yield add
        write()


def write_page(
    folder: Path,
    collection: Collection,
    decided: Decided,
    counts: dict[str, int],
    problems: Sequence[tuple[str, str]],
    column: str,
) -> Path:
    """Write a page with counts and a sample of the pairs of each class, and return its path."""
    kinds = Counter(verdict.kind for verdict in decided.verdicts)
    pairs = {}
    for kind in kinds:
        rows = np.flatnonzero([verdict.kind == kind for verdict in decided.verdicts])
        chosen = np.sort(np.random.default_rng(0).permutation(rows)[:SHOWN])
        pairs[kind] = [(decided.candidates[row], decided.verdicts[row]) for row in chosen]
    numbers = {int(one[name]) for own in pairs.values() for one, _ in own for name in ("number", "kept")}
    certainties = np.array([verdict.certainty for verdict in decided.verdicts], np.int64)
    with whole_folder(folder / PAGE) as page, Rereader(column) as rereader:
        set_aside(page)
        pictures = {}
        columns = ["id", "source", "place", "bytes"]
        for number, about in collection.look_up(np.array(sorted(numbers), np.int64), columns):
            pictures[number] = _write_thumbnail(page, number, about, rereader), name_picture(about["source"], about["id"])
        graded = [(grade, int((certainties >= grade).sum())) for grade in GRADES]
        going = Counter(verdict.kind for verdict, goes in zip(decided.verdicts, decided.going(), strict=True) if goes)
        classes = [(kind, count, going[kind]) for kind, count in kinds.most_common()]
        values = {
            "counts": counts,
            "classes": classes,
            "graded": graded,
            "pairs": pairs,
            "pictures": pictures,
            "problems": problems,
        }
        (page / "index.html").write_text(render(TEMPLATE, **values), encoding="utf-8")
    return folder / PAGE / "index.html"


def _write_thumbnail(folder: Path, number: int, about: dict[str, Any], rereader: Rereader) -> str | None:
    try:
        content = rereader.read(about)
    except ImageError:
        return None
    return f"{number}.jpg" if write_thumbnail(content, folder / f"{number}.jpg") else None
