"""Which pictures of pairs might go, and which of them stays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from image_copies.matching.dedup import deciding
from image_copies.matching.dedup.blocks import SAME_BYTES
from image_copies.matching.dedup.deciding import (
    CANDIDATE,
    EQUAL,
    UNSEEN,
    Candidates,
    Judging,
    PairVerdict,
    decide,
    find_candidates,
)
from image_copies.matching.dedup.deduplication import write_lists
from image_copies.matching.dedup.vectors import Collection
from image_copies.matching.groups.groups import PAIR, Pairs

PAIRS = [(0, 1, -0.1), (1, 2, -0.2), (0, 2, -0.2), (2, 5, SAME_BYTES), (3, 6, SAME_BYTES)]


def make(folder: Path, border: int = 2, changed_file: int = 0, **changed: Any) -> tuple[Collection, Pairs]:
    """Two files of four pictures; picture 1 is the largest, 2 and 5 are equal, 3 and 6, too.

    `changed`: columns of one of the files; contents are numbers.
    """
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    contents = [0, 1, 2, 3, 4, 2, 3, 7]
    for file in range(2):
        rows = slice(4 * file, 4 * file + 4)
        columns: dict[str, Any] = {
            "id": [f"{n}.jpg" for n in range(8)][rows],
            "source": ["/pictures"] * 4,
            "place": [0] * 4,
            "bytes": [100] * 4,
            "sha256": contents[rows],
            "width": [20 if n == 1 else 10 for n in range(8)][rows],
            "height": [10] * 4,
            "error": [None, None, None, "damaged" if file else None],
        }
        columns |= changed if file == changed_file else {}
        columns["sha256"] = pa.array([bytes([content]) * 32 for content in columns["sha256"]], pa.binary(32))
        parquet.write_table(pa.table(columns), folder / f"{file}.parquet")
    return Collection([folder / "0.parquet", folder / "1.parquet"], np.array([0, 4, 8]), border, ["", ""]), np.array(PAIRS, PAIR)


def list_going(found: Candidates) -> list[tuple[int, int, bool]]:
    """Which pictures might go, for which others, and whether their bytes are equal."""
    return [(number, kept, same) for number, kept, _, same in found.tolist()]


def test_the_largest_of_a_group_stays_and_of_equal_bytes_the_first(tmp_path: Path) -> None:
    collection, pairs = make(tmp_path)
    found = find_candidates(collection, pairs)
    assert list_going(found) == [(0, 1, False), (2, 1, False), (5, 2, True), (6, 3, True)]
    assert found["score"].tolist() == [-0.1, -0.2, 0, 0]


@pytest.mark.parametrize("far", [False, True])
def test_no_file_goes_for_a_link_and_none_for_a_member_of_an_archive(tmp_path: Path, far: bool) -> None:
    """Whether bytes are equal or the link is that of a larger picture."""
    (tmp_path / "z.jpg").touch()
    (tmp_path / "a.jpg").symlink_to("z.jpg")
    names = [str(tmp_path / name) for name in ("old.zip/0.jpg", "a.jpg", "z.jpg", "3.jpg")]
    collection, _ = make(tmp_path, id=names, sha256=[0, 1, 2, 3] if far else [1, 1, 1, 3])
    pairs = np.array([(*pair, -0.1 if far else SAME_BYTES) for pair in ((0, 1), (0, 2), (1, 2))], PAIR)
    assert list_going(find_candidates(collection, pairs)) == [(1, 2, not far)]


def test_of_equal_bytes_the_one_stays_that_is_not_named_as_a_copy_unless_files_belong_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [str(tmp_path / name) for name in ("a (1).jpg", "a.jpg", "b.jpg", "c.jpg")]
    collection, _ = make(tmp_path, id=names, sha256=[1, 1, 1, 3], width=[10] * 4)
    pairs = np.array([(0, 1, SAME_BYTES), (1, 2, SAME_BYTES)], PAIR)
    assert list_going(find_candidates(collection, pairs)) == [(0, 1, True), (2, 1, True)]
    (tmp_path / "b.xmp").touch()
    assert list_going(find_candidates(collection, pairs)) == [(0, 2, True), (1, 2, True)]
    (tmp_path / "a.xmp").touch()
    assert list_going(find_candidates(collection, pairs)) == [(0, 1, True), (2, 1, False)], "to be looked at"
    monkeypatch.setattr(deciding, "read_attributes", lambda path: {"user.baloo.rating": b"4"} if path.stem == "a (1)" else {})
    assert list_going(find_candidates(collection, pairs)) == [(0, 1, False), (2, 1, False)]


def test_each_input_is_compared_with_the_nearest_picture_of_a_test_set(tmp_path: Path) -> None:
    collection, pairs = make(tmp_path, border=1)
    pairs = np.array([(0, 4, -0.3), (0, 7, -0.2), (2, 4, -0.1), (2, 5, SAME_BYTES)], PAIR)
    assert list_going(find_candidates(collection, pairs)) == [(0, 7, False), (2, 5, True)]
    twins = np.array([(0, 1, SAME_BYTES), (2, 3, SAME_BYTES), (0, 7, -0.2), (2, 5, SAME_BYTES)], PAIR)
    assert list_going(find_candidates(collection, twins)) == [(0, 7, False), (1, 7, False), (2, 5, True), (3, 5, True)]


def test_lists_hold_every_picture_and_only_sure_copies_go(tmp_path: Path) -> None:
    collection, _ = make(tmp_path)
    candidates = np.array([(0, 1, -0.1, False), (2, 1, -0.2, False), (5, 2, 0.0, True)], CANDIDATE)
    verdicts = [UNSEEN, PairVerdict("certain", "", 95), EQUAL]
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


def test_a_file_does_not_go_for_the_row_of_a_table_that_may_be_its_path(tmp_path: Path) -> None:
    (tmp_path / "b.jpg").touch()
    names, sources = ["0", str(tmp_path / "b.jpg"), "2", "3"], ["/t.parquet", str(tmp_path), "/t.parquet", "/t.parquet"]
    collection, _ = make(tmp_path, id=names, source=sources, sha256=[1, 1, 2, 3])
    assert list_going(find_candidates(collection, np.array([(0, 1, SAME_BYTES)], PAIR))) == [(0, 1, True)]


@pytest.mark.parametrize("same", [True, False])
def test_what_lies_in_a_damaged_tar_stays_only_where_there_is_nothing_else(tmp_path: Path, same: bool) -> None:
    sources = ["/whole.tar", "/cut.tar", "/cut.tar", "/cut.tar"]
    collection, _ = make(tmp_path, source=sources, sha256=[1, 1, 2, 2] if same else [0, 1, 2, 3])
    pairs = np.array([(*pair, SAME_BYTES if same else 0) for pair in ((0, 1), (2, 3))], PAIR)
    assert list_going(find_candidates(collection, pairs)) == [(0, 1, same), (3, 2, same)]
    assert list_going(find_candidates(collection, pairs, {"/cut.tar"})) == [(1, 0, same), (3, 2, same)]


def test_of_bytes_that_all_go_it_is_said_what_stays_for_them(tmp_path: Path) -> None:
    """It said `same bytes` of a picture with others."""
    collection, _ = make(tmp_path)
    candidates = np.array([(2, 1, -0.2, False), (5, 2, 0.0, True)], CANDIDATE)
    verdicts = [PairVerdict("certain", "cropped", 95), EQUAL]
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
