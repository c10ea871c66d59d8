"""Lists of PDQ hashes: which pictures they name, in a search and at the service."""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError
from image_copies.matching import hash_lists
from image_copies.matching.hash_lists import read_hash_lists
from image_copies.matching.matches import read_matches_csv
from image_copies.pipeline.match import main
from tests.album_kinds.pictures import scene

pdqhash = pytest.importorskip("pdqhash", reason="pdqhash is not installed: python -m pip install -r requirements-cluster.txt")
HEADER = ("id", "hash", "quality")


def digits_of(path: Path, flipped: int = 0) -> str:
    """The hash of a picture's file as PDQ's tools write it, with so many bits the other way round."""
    bits = pdqhash.compute(decode_rgb(path))[0].astype(bool)
    bits[:flipped] = ~bits[:flipped]
    return np.packbits(bits).tobytes().hex()


def write_list(path: Path, rows: Sequence[Sequence[object]], header: Sequence[str] = HEADER) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows] if header else rows)
    return path


@pytest.fixture
def picture(own_desk: Path) -> Path:
    path = own_desk / "uploads" / "a.jpg"
    path.parent.mkdir()
    scene(np.random.default_rng(4)).save(path, quality=92)
    return path


@pytest.mark.parametrize(("apart", "found"), [(0, True), (31, True), (32, False)])
def test_a_hash_matches_up_to_31_bits(picture: Path, apart: int, found: bool) -> None:
    lists = read_hash_lists([write_list(picture.with_name("l.csv"), [("known", digits_of(picture, apart), 100)])])
    matches = lists.find(picture)
    assert bool(matches) == found
    for match in matches:
        assert match.reference == picture.with_name("l.csv") / "known" and not match.settled
        assert match.judgement is not None and (match.judgement.kind, match.judgement.certainty) == ("likely", 89 - apart)
        assert f" {apart} of 256 bits" in match.judgement.reason


def test_entries_that_cannot_be_matched_are_counted(picture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digits = digits_of(picture)
    rows = [("whole", digits, 100), ("cut", digits[:60], 100), ("none", "", 100), ("low", digits, 49), ()]
    listed = write_list(picture.parents[1] / "l.csv", rows)
    command = ["--queries", str(picture.parent), "--references", str(listed), "--output", str(picture.parents[1] / "matches")]
    assert main(command) == 0
    said = "".join(capsys.readouterr())
    assert "PDQ hashes: 1 (3 other lines hold none that can be matched); matches within 31 of 256 bits: 1" in said
    assert "0 images" not in said and "0 different" not in said, "no pictures were given as references"


def test_entries_and_pictures_of_low_quality_match_nothing(picture: Path) -> None:
    rows = [("low", digits_of(picture), 49), ("high", digits_of(picture, 3), 50), ("unsaid", digits_of(picture, 5), "")]
    lists = read_hash_lists([write_list(picture.with_name("l.csv"), rows)])
    assert [match.reference.name for match in lists.find(picture)] == ["high", "unsaid"], "the nearest first"
    plain = picture.with_name("plain.png")
    Image.new("RGB", (300, 200), "navy").save(plain)
    of_plain = read_hash_lists([write_list(picture.with_name("l.csv"), [("plain", digits_of(plain), 100)])])
    assert of_plain.find(plain) == [] and of_plain.find(picture.with_name("l.csv")) == []


def test_lists_are_read_as_tools_write_them(picture: Path) -> None:
    """threatexchange's command prints other signals, too, some as long; hashes alone have no header."""
    rows = [("raw_sha256", digits_of(picture), "c"), ("pdq", digits_of(picture).upper(), "c"), ("video_md5", "0" * 32, "c")]
    exported = write_list(picture.with_name("e.csv"), rows, ("signal_type", "signal_str", "collab"))
    alone = write_list(picture.with_name("h.csv"), [(digits_of(picture, 2),), (digits_of(picture, 1),)], ())
    by_semicolons = picture.with_name("s.csv")
    by_semicolons.write_text(f"id;hash;quality\nK;{digits_of(picture)};100\n")
    lists = read_hash_lists([exported, picture.parent / ".." / picture.parent.name / alone.name, by_semicolons])
    assert [str(name.relative_to(picture.parent)) for name in lists.names] == ["e.csv/3", "h.csv/1", "h.csv/2", "s.csv/K"]
    assert len(lists.find(picture)) == 4


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no PDQ hash of quality 50"),
        (b"id,hash\n1,12ab\n", "no PDQ hash.* CSV file with 64"),
        (b"id,hash,quality\n1,%s,40\n" % (b"0" * 64), "no PDQ hash of quality 50"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"id,hash,quality\n1,%s,90\n2,%s,high\n" % (b"0" * 64, b"1" * 64), r"line 3: .*'high'.* 0 to 100"),
    ],
)
def test_what_is_no_list_is_refused(own_desk: Path, content: bytes, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the package is missing, which would not help."""
    monkeypatch.setitem(sys.modules, "pdqhash", None)
    (own_desk / "l.csv").write_bytes(content)
    with pytest.raises(UserError, match=rf"l\.csv.*{said}"):
        read_hash_lists([own_desk / "l.csv"])
    with pytest.raises(UserError, match=r"missing\.csv cannot be read"):
        read_hash_lists([own_desk / "missing.csv"])


def test_without_the_package_the_error_says_how_to_install_it(own_desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pdqhash", None)
    hash_lists._load_pdq.cache_clear()
    with pytest.raises(UserError, match=r"pip install .*\[pdq\]"):
        read_hash_lists([write_list(own_desk / "l.csv", [("K", "0" * 64, 100)])])
    hash_lists._load_pdq.cache_clear()


def test_a_search_says_what_pictures_and_what_a_list_found(picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(picture.parents[1])
    Path("originals").mkdir()
    Image.open(picture).save("originals/b.jpg", quality=70)
    write_list(Path("known.csv"), [("K1", digits_of(picture, 7), 100)])
    assert main(["--queries", "uploads", "--references", "originals", "known.csv"]) == 0
    by_pixels, by_hash = read_matches_csv(Path("matches/matches.csv"))
    assert by_pixels.reference.name == "b.jpg" and by_hash.reference == Path("known.csv/K1").absolute()
    assert by_hash.judgement is not None and "PDQ" in by_hash.judgement.reason
    assert "known.csv" not in Path("matches/plan.csv").read_text()
    assert main(["--queries", "uploads", "--references", "known.csv"]) == 0
    assert [match.reference.name for match in read_matches_csv(Path("matches/matches.csv"))] == ["K1"]
    write_list(Path("known.csv"), [("K2", digits_of(picture, 32), 100)])
    assert main(["--queries", "uploads", "--references", "known.csv"]) == 0
    assert read_matches_csv(Path("matches/matches.csv")) == [], "a list that changed is read again"
