"""What a deduplication reports: lists of the pictures to keep, to remove, to be looked at and unreadable, and a page."""

from collections.abc import Collection as Container
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import ImageError
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
INPUTS, PAIRS, JUDGED, PAGE = "inputs.json", "lists", "judged", "page"
WRITTEN = (INPUTS, PAIRS, JUDGED, PAGE, *(f"{name}.parquet" for name in LISTS))  # into the results
ROWS_AT_ONCE = 2**16  # rows of a list that are written together
SHOWN = 20  # pairs of each class on the page
READ = ["id", "source", "place", "sha256", "error"]
COLUMNS = dict.fromkeys(["id", "source", "sha256", "error", "class", "reason", "copy_of"], "string")
COLUMNS |= dict.fromkeys(["place", "certainty", "group"], "int64") | {"score": "float64"}
Row = dict[str, Any]


@dataclass(frozen=True)
class Decided:
    """What was decided of pictures.

    Attributes:
        candidates: Those that might go.
        verdicts: The class of each.
        going: Whether each goes, bool [n].
    """

    candidates: Candidates
    verdicts: Sequence[PairVerdict]
    going: NDArray[np.bool_]

    def find_staying(self) -> Numbers:
        """Return for each candidate the row that names what stays for it [n]: its own, or that of a picture that goes, too."""
        numbers, kept = self.candidates["number"], self.candidates["kept"]
        rows = np.arange(len(kept))
        others = np.searchsorted(numbers, kept).clip(max=len(kept) - 1)
        return np.where((numbers[others] == kept) & self.going[others], others, rows)


def decide(candidates: Candidates, verdicts: Sequence[PairVerdict], removes: Container[str]) -> Decided:
    """Decide that pictures go of classes that are to be removed, but for what a person would miss."""
    going = [verdict.kind in removes and not verdict.missed for verdict in verdicts]
    return Decided(candidates, verdicts, np.array(going, bool))


def write_lists(
    folder: Path, collection: Collection, decided: Decided, problems: Sequence[tuple[str, str]]
) -> dict[str, int]:
    """Write the lists as Parquet, all with the same columns, the one of what goes last, and return their lengths.

    `problems` are those of whole containers, after their paths. What is to be looked at is kept.
    """
    candidates, going, staying = decided.candidates, decided.going, decided.find_staying()
    stays, originals = np.unique(candidates["kept"][staying], return_inverse=True)
    found_names = (
        name_picture(about["source"], about["id"]) for _, about in collection.look_up(stays, ["id", "source"])
    )
    names = np.fromiter(found_names, np.dtypes.StringDType(), len(stays))
    gone = np.zeros(collection.inputs, bool)
    gone[candidates["number"][going]] = True

    def list_copies(rows: Numbers) -> Iterator[Row]:
        for row, (_, about) in zip(
            rows.tolist(), collection.look_up(candidates["number"][rows], READ), strict=True
        ):
            # what is true of its bytes is true of it
            told = int(staying[row]) if candidates["same"][row] else row
            one, verdict = candidates[told], decided.verdicts[told]
            about |= {"class": verdict.kind, "reason": verdict.reason, "certainty": verdict.certainty}
            yield about | {
                "copy_of": names[originals[row]],
                "group": one["group"],
                "score": 0.0 - one["distance"],
            }

    broken = ({"id": "", "source": source, "error": problem} for source, problem in problems)
    lists = {
        KEEP: (
            row for number, row in collection.list_inputs(READ) if row["error"] is None and not gone[number]
        ),
        REVIEW: list_copies(np.flatnonzero(~going)),
        UNREADABLE: chain(
            broken, (row for _, row in collection.list_inputs(READ) if row["error"] is not None)
        ),
        REMOVE: list_copies(np.flatnonzero(going)),
    }
    return {name: _write_list(folder / f"{name}.parquet", rows) for name, rows in lists.items()}


def _write_list(path: Path, rows: Iterable[Row]) -> int:
    """Write a list and return its length."""
    pa, parquet = import_pyarrow()
    schema, left, count = pa.schema(COLUMNS), iter(rows), 0
    with whole_file(path) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        while some := list(islice(left, ROWS_AT_ONCE)):
            for row in some:
                row["sha256"] = row.get("sha256", b"").hex()
            writer.write_table(pa.Table.from_pylist(some, schema))
            count += len(some)
    return count


def write_page(
    folder: Path, collection: Collection, decided: Decided, counts: dict[str, int], column: str
) -> Path:
    """Write a page with counts and a sample of the pairs of each class, and return its path."""
    classes, wanted = list[tuple[str, int, list[Any]]](), set[int]()
    for kind in sorted({verdict.kind for verdict in decided.verdicts}):
        rows = np.random.default_rng(0).permutation(
            np.flatnonzero([verdict.kind == kind for verdict in decided.verdicts])
        )
        pairs = [(decided.candidates[row], decided.verdicts[row]) for row in rows[:SHOWN]]
        classes.append((kind, len(rows), pairs))
        wanted |= {int(one[name]) for one, _ in pairs for name in ("number", "kept")}
    with whole_folder(folder / PAGE) as page, Rereader(column) as rereader:
        set_aside(page)
        pictures = {}
        for number, about in collection.look_up(
            np.array(sorted(wanted), np.int64), ["id", "source", "place", "bytes"]
        ):
            shown = ""
            with suppress(ImageError):
                shown = (
                    f"{number}.jpg" if write_thumbnail(rereader.read(about), page / f"{number}.jpg") else ""
                )
            pictures[number] = shown, name_picture(about["source"], about["id"])
        text = render(TEMPLATE, counts=counts, classes=classes, pictures=pictures)
        (page / "index.html").write_text(text, encoding="utf-8")
    return folder / PAGE / "index.html"
