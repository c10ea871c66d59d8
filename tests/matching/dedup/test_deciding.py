"""Which pictures of pairs might go, and which of them stays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from image_copies.matching.dedup import deciding
from image_copies.matching.dedup.blocks import SAME_BYTES
from image_copies.matching.dedup.deciding import CANDIDATE, EQUAL, UNSEEN, Judging, decide, find_candidates
from image_copies.matching.dedup.deduplication import write_lists
from image_copies.matching.dedup.vectors import Collection
from image_copies.matching.groups.groups import PAIR
from image_copies.matching.verification.judgement import Judgement

SAME = SAME_BYTES
FILES = {"id": ["old.zip/0.jpg", "a.jpg", "z.jpg", "3.jpg"]}  # a.jpg is a link to z.jpg
ROWS = {"id": ["0", "z.jpg", "2", "3"], "source": ["/t.parquet", "/pictures", "/t.parquet", "/t.parquet"]}
TARS = {"source": ["/whole.tar", "/cut.tar", "/cut.tar", "/cut.tar"]}


def make(folder: Path, border: int = 2, **changed: Any) -> Collection:
    """Two files of four pictures; picture 1 is the largest, 2 and 5 are equal, 3 and 6, too.

    `changed`: columns of the first file; contents are numbers.
    """
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for file, contents in enumerate(([0, 1, 2, 3], [4, 2, 3, 7])):
        columns: dict[str, Any] = {
            "id": [f"{4 * file + n}.jpg" for n in range(4)],
            "source": ["/pictures"] * 4,
            "place": [0] * 4,
            "bytes": [100] * 4,
            "sha256": contents,
            "width": [10, 10 if file else 20, 10, 10],
            "height": [10] * 4,
            "error": [None, None, None, "damaged" if file else None],
        }
        columns |= {} if file else changed
        columns["sha256"] = pa.array([bytes([content]) * 32 for content in columns["sha256"]], pa.binary(32))
        parquet.write_table(pa.table(columns), folder / f"{file}.parquet")
    return Collection([folder / "0.parquet", folder / "1.parquet"], np.array([0, 4, 8]), border, ["", ""])


def find_going(collection: Collection, pairs: list[tuple[int, int, float]], damaged: str = "") -> list[tuple[int, int, bool]]:
    """Which pictures might go, for which others, and whether their bytes are equal."""
    found = find_candidates(collection, np.array(pairs, PAIR), {damaged})
    return [(number, kept, same) for number, kept, _, same in found.tolist()]


def test_the_largest_of_a_group_stays_and_of_equal_bytes_the_first(tmp_path: Path) -> None:
    pairs = [(0, 1, -0.1), (1, 2, -0.2), (0, 2, -0.2), (2, 5, SAME), (3, 6, SAME)]
    found = find_candidates(make(tmp_path), np.array(pairs, PAIR))
    assert found.tolist() == [(0, 1, -0.1, False), (2, 1, -0.2, False), (5, 2, 0, True), (6, 3, 0, True)]


FAR, EQUALS = [(0, 1, -0.1), (2, 3, -0.1)], [(0, 1, SAME), (2, 3, SAME)]
LEAKED = [(0, 1, SAME), (2, 3, SAME), (0, 7, -0.2), (2, 5, SAME)]
CASES: list[tuple[dict[str, Any], list[tuple[int, int, float]], str, list[tuple[int, int, bool]]]] = [
    # no file goes for a link or a member of an archive, be it that of a larger picture, nor do members
    (FILES, [(0, 1, -0.1), (0, 2, -0.1), (1, 2, -0.1)], "", [(1, 2, False)]),
    (FILES | {"sha256": [1, 1, 1, 3]}, [(0, 1, SAME), (0, 2, SAME), (1, 2, SAME)], "", [(1, 2, True)]),
    # the row of a table may be the path of the file
    (ROWS | {"sha256": [1, 1, 2, 3]}, [(0, 1, SAME)], "", [(0, 1, True)]),
    # what lies in a damaged tar stays only where there is nothing else
    (TARS, FAR, "", [(0, 1, False), (3, 2, False)]),
    (TARS, FAR, "/cut.tar", [(1, 0, False), (3, 2, False)]),
    (TARS | {"sha256": [1, 1, 2, 2]}, EQUALS, "", [(0, 1, True), (3, 2, True)]),
    (TARS | {"sha256": [1, 1, 2, 2]}, EQUALS, "/cut.tar", [(1, 0, True), (3, 2, True)]),
    # each input is compared with the nearest picture of a test set, and so are its twins
    ({"border": 1}, [(0, 4, -0.3), (0, 7, -0.2), (2, 4, -0.1), (2, 5, SAME)], "", [(0, 7, False), (2, 5, True)]),
    ({"border": 1}, LEAKED, "", [(0, 7, False), (1, 7, False), (2, 5, True), (3, 5, True)]),
]


@pytest.mark.parametrize(("changed", "pairs", "damaged", "going"), CASES)
def test_what_stays(changed: dict[str, Any], pairs: Any, damaged: str, going: Any, tmp_path: Path) -> None:
    (tmp_path / "z.jpg").touch()
    (tmp_path / "a.jpg").symlink_to("z.jpg")
    named = {"id": [str(tmp_path / name) for name in changed["id"]]} if "id" in changed else {}
    assert find_going(make(tmp_path, **(changed | named)), pairs, damaged) == going


def test_of_equal_bytes_the_one_stays_that_is_not_named_as_a_copy_unless_files_belong_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [str(tmp_path / name) for name in ("a (1).jpg", "a.jpg", "b.jpg", "c.jpg")]
    collection, pairs = make(tmp_path, id=names, sha256=[1, 1, 1, 3], width=[10] * 4), [(0, 1, SAME), (1, 2, SAME)]
    assert find_going(collection, pairs) == [(0, 1, True), (2, 1, True)]
    (tmp_path / "b.xmp").touch()
    assert find_going(collection, pairs) == [(0, 2, True), (1, 2, True)]
    (tmp_path / "a.xmp").touch()
    assert find_going(collection, pairs) == [(0, 1, True), (2, 1, False)], "to be looked at"
    monkeypatch.setattr(deciding, "read_attributes", lambda path: {"user.baloo.rating": b"4"} if path.stem == "a (1)" else {})
    assert find_going(collection, pairs) == [(0, 1, False), (2, 1, False)]


def test_lists_hold_every_picture_and_only_sure_copies_go(tmp_path: Path) -> None:
    collection = make(tmp_path)
    candidates = np.array([(0, 1, -0.1, False), (2, 1, -0.2, False), (5, 2, 0.0, True)], CANDIDATE)
    verdicts = [UNSEEN, (Judgement("certain", "", 95), False), EQUAL]
    counts = write_lists(tmp_path, collection, *decide(candidates, verdicts, ("same file", "certain")), [("/x.tar", "is cut")])
    assert counts == {"keep": 5, "remove": 2, "review": 1, "unreadable": 2}
    parquet = pytest.importorskip("pyarrow.parquet")
    tables = {name: parquet.read_table(tmp_path / f"{name}.parquet").to_pydict() for name in counts}
    assert tables["keep"]["id"] == ["0.jpg", "1.jpg", "3.jpg", "4.jpg", "6.jpg"]
    assert tables["remove"]["id"] == ["2.jpg", "5.jpg"] and tables["remove"]["copy_of"] == ["1.jpg", "1.jpg"]  # 2, like 5, goes
    assert list(zip(tables["unreadable"]["source"], tables["unreadable"]["id"], strict=True)) == [
        ("/x.tar", ""),
        ("/pictures", "7.jpg"),
    ]


def test_of_bytes_that_all_go_it_is_said_what_stays_for_them(tmp_path: Path) -> None:
    """It said `same bytes` of a picture with others."""
    collection = make(tmp_path)
    candidates = np.array([(2, 1, -0.2, False), (5, 2, 0.0, True)], CANDIDATE)
    verdicts = [(Judgement("certain", "cropped", 95), False), EQUAL]
    told = {}
    for removes in (("same file", "certain"), ("same file",)):
        write_lists(tmp_path, collection, *decide(candidates, verdicts, removes), [])
        parquet = pytest.importorskip("pyarrow.parquet")
        rows = parquet.read_table(tmp_path / "remove.parquet").to_pylist()
        told[removes] = [(row["id"], row["copy_of"], row["class"], row["reason"], row["score"]) for row in rows]
    certain = ("1.jpg", "certain", "cropped", -0.2)
    assert told["same file", "certain"] == [("2.jpg", *certain), ("5.jpg", *certain)]
    assert told["same file",] == [("5.jpg", "2.jpg", "same file", "the same bytes", 0.0)]


def test_a_judgement_is_that_of_a_picture_in_its_state(tmp_path: Path) -> None:
    """It was kept by the pictures' numbers: others that came to have them were not looked at."""
    (one, other, again) = (Collection([tmp_path / "0.parquet"], np.array([0, 4]), 1, [state]) for state in ("a", "b", "a"))
    paths = [Judging(pictures, tmp_path, "image").path([(0, 1)]) for pictures in (one, other, again)]
    assert paths[0] == paths[2] != paths[1]
