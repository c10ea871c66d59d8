"""What a deduplication reports: lists of the pictures to keep, to remove, to be looked at and unreadable, and a page."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Collection as Container
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.data.files import whole_file, whole_folder
from image_copies.data.names import line_of
from image_copies.pipeline.dedup.collection import Collection
from image_copies.pipeline.dedup.deciding import Candidate, Verdict
from image_copies.pipeline.dedup.pictures import name_picture, read_again
from image_copies.submissions.report.rendering import render
from image_copies.submissions.report.thumbnails import THUMBNAIL_SIDE

TEMPLATE = Path(__file__).parent / "templates" / "dedup.html.jinja"
KEEP, REMOVE, REVIEW, UNREADABLE = LISTS = ("keep", "remove", "review", "unreadable")
SHOWN = 20  # pairs of each class on the page
GRADES = (100, 97, 95, 90, 80, 60, 40, 10)  # certainties of the page's table
ROWS_AT_ONCE = 2**16  # of a list, written together
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Decided:
    """What was decided of pictures.

    Attributes:
        candidates: Those that might go.
        verdicts: The class of each.
        removes: The classes that go.
    """

    candidates: Sequence[Candidate]
    verdicts: Sequence[Verdict]
    removes: Container[str]

    def kept_by_gone(self) -> dict[int, int]:
        """Return, for each picture that goes, the number of the one that stays."""
        judged = zip(self.candidates, self.verdicts, strict=True)
        direct = {one.number: one.kept for one, verdict in judged if verdict.kind in self.removes}
        return {number: direct.get(kept, kept) for number, kept in direct.items()}


def write_lists(folder: Path, collection: Collection, decided: Decided, problems: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Write the lists as Parquet and as text, one file of vectors after another, and return their lengths.

    `problems` are those of whole containers, after their paths. What is to be looked at is kept.
    """
    rows = {one.number: row for row, one in enumerate(decided.candidates)}
    gone, counts = decided.kept_by_gone(), Counter[str]()
    kept = {one.number: gone.get(one.kept, one.kept) for one in decided.candidates}
    names = dict(_name_all(collection, set(kept.values())))
    with ExitStack() as held:
        add = {name: held.enter_context(_open_list(folder, name)) for name in LISTS}
        add[UNREADABLE]([{"id": "", "source": source, "error": problem} for source, problem in problems])
        for file in range(int(np.searchsorted(collection.starts, collection.inputs))):
            found: dict[str, Rows] = {name: [] for name in LISTS}
            about: dict[str, Any]
            columns = ["id", "source", "place", "sha256", "error"]
            for number, about in enumerate(collection.read(file, columns).to_pylist(), int(collection.starts[file])):
                if about["error"] is not None:
                    found[UNREADABLE].append(about)
                    continue
                about["sha256"] = about["sha256"].hex()
                if number in rows:
                    one, verdict = decided.candidates[rows[number]], decided.verdicts[rows[number]]
                    said = {"group": one.group, "class": verdict.kind, "reason": verdict.reason, "certainty": verdict.certainty}
                    about |= said | {"score": 0.0 - one.distance, "copy_of": names[kept[number]]}
                    found[REMOVE if number in gone else REVIEW].append(about)
                if number not in gone:
                    found[KEEP].append(about)
            for name, own in found.items():
                add[name](own)
                counts[name] += len(own)
    return {name: counts[name] for name in LISTS}


def _name_all(collection: Collection, numbers: Container[int]) -> Iterator[tuple[int, str]]:
    for number, about in collection.look_up(np.array(sorted(numbers), np.int64), ["id", "source"]):
        yield number, name_picture(about["source"], about["id"])


@contextmanager
def _open_list(folder: Path, name: str) -> Iterator[Callable[[Rows], None]]:
    """Open a list, as Parquet and as text with a name on each line, and yield what adds rows to it."""
    import pyarrow as pa  # imported here: an extra
    from pyarrow.parquet import ParquetWriter

    about = [("class", pa.string()), ("certainty", pa.int32()), ("reason", pa.string()), ("copy_of", pa.string())]
    about += [("score", pa.float64()), ("group", pa.int64()), ("place", pa.int64())]
    more = {KEEP: [("sha256", pa.string())], UNREADABLE: [("error", pa.string())]}.get(name, [("sha256", pa.string()), *about])
    schema, waiting = pa.schema([("id", pa.string()), ("source", pa.string()), *more]), list[dict[str, Any]]()
    with ExitStack() as held:
        table, text = (held.enter_context(whole_file(folder / f"{name}{ending}")) for ending in (".parquet", ".txt"))
        writer, lines = held.enter_context(ParquetWriter(table, schema)), held.enter_context(text.open("w", encoding="utf-8"))

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
    kinds: dict[str, list[int]] = defaultdict(list)
    for row, verdict in enumerate(decided.verdicts):
        kinds[verdict.kind].append(row)
    shown = {kind: np.random.default_rng(0).permutation(rows)[:SHOWN].tolist() for kind, rows in kinds.items()}
    pairs = {kind: [(decided.candidates[row], decided.verdicts[row]) for row in sorted(rows)] for kind, rows in shown.items()}
    numbers = {number for own in pairs.values() for one, _ in own for number in (one.number, one.kept)}
    certainties = np.array([verdict.certainty for verdict in decided.verdicts], np.int64)
    with whole_folder(folder / "page") as page:
        pictures = {}
        columns = ["id", "source", "place", "bytes"]
        for number, about in collection.look_up(np.array(sorted(numbers), np.int64), columns):
            pictures[number] = _write_thumbnail(page, number, about, column), name_picture(about["source"], about["id"])
        graded = [(grade, int((certainties >= grade).sum())) for grade in GRADES]
        classes = [
            (kind, len(rows), kind in decided.removes) for kind, rows in sorted(kinds.items(), key=lambda kind: -len(kind[1]))
        ]
        values = {
            "counts": counts,
            "classes": classes,
            "graded": graded,
            "pairs": pairs,
            "pictures": pictures,
            "problems": problems,
        }
        (page / "index.html").write_text(render(TEMPLATE, **values), encoding="utf-8")
    return folder / "page" / "index.html"


def _write_thumbnail(folder: Path, number: int, about: dict[str, Any], column: str) -> str | None:
    try:
        picture = Image.fromarray(decode_rgb(read_again(about, column), short_side=THUMBNAIL_SIDE))
    except ImageError:
        return None
    picture.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    picture.save(folder / f"{number}.jpg", quality=80)
    return f"{number}.jpg"
