"""What a copy notes and the kept file lacks is written into a sidecar of the kept file, before the copy goes."""

import io
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from image_copies.data.files import HOST
from image_copies.matching.files import acting, moving
from image_copies.matching.files.facts import picture_facts
from image_copies.matching.files.keeping import KeepSettings
from image_copies.matching.files.notes import KEYWORDS, find_missing, parse_xmp
from image_copies.matching.files.plan import PlanRow, read_plan, write_plan
from image_copies.matching.files.surplus import format_sidecar, read_holdings
from image_copies.matching.groups.group_plan import plan_group
from image_copies.matching.verification.judgement import Judgement
from tests.albums import Killed, apply, kill, kill_at, undo
from tests.folders import read_tree
from tests.matching.files.test_surplus import NOTED, PACKET, Save, draw, pack, place, save
from tests.search_results import know_all_alike

DEAD = 2**30  # no system has so many processes
merge = partial(apply, way="move", merging=True)
KEYWORDS_OF = "><dc:subject><rdf:Bag>{}</rdf:Bag></dc:subject>"


@pytest.fixture
def album(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "album"
    folder.mkdir()
    draw(320).save(folder / "large.jpg")
    return folder


def plan(album: Path) -> list[PlanRow]:
    members = [picture_facts(path) for path in sorted(album.iterdir()) if path.suffix != ".xmp"]
    write_plan(album.parent / "plan.csv", plan_group(1, [each.path for each in members], know_all_alike(members), KeepSettings()))
    return read_plan(album.parent / "plan.csv")


@pytest.mark.parametrize(("write", "what"), NOTED)
def test_what_only_a_copy_notes_is_written_next_to_the_kept_file(album: Path, write: Save, what: str) -> None:
    write(album)
    before, rows = read_tree(album), plan(album)
    noted = read_holdings(rows[1].file).notes
    outcome = merge(album, rows)
    if "of its own" in what or "read" in what:  # what cannot be written
        assert not rows[1].merged and not outcome.done and read_tree(album) == before
        return
    assert rows[1].merged == what and outcome.done[0] == rows[1].file and not outcome.left
    after = read_tree(album)
    assert after.keys() == {"large.jpg", "large.jpg.xmp"} and after["large.jpg"] == before["large.jpg"]
    assert find_missing(read_holdings(album / "large.jpg").notes, noted) == ({}, [])
    assert not merge(album, rows).done
    undo(album)
    assert read_tree(album) == before


def test_what_stays_beside_the_kept_file_gets_the_notes_of_its_own_copies(album: Path) -> None:
    """A is another shot; B, which alone has a rating, is a copy of A, and no chain leads on."""
    for name, side, noted in (("a.jpg", 280, {}), ("b.jpg", 240, pack('xmp:Rating="4">')), ("c.jpg", 200, {})):
        draw(side).save(album / name, **noted)
    members = [picture_facts(path) for path in sorted(album.iterdir())]
    certain, other = Judgement("certain", "the pixels agree", 98), Judgement("same scene", "things moved", 30)

    def judge(one: Path, two: Path) -> Judgement:
        return certain if {one.stem, two.stem} in ({"a", "b"}, {"b", "c"}) else other

    rows = plan_group(1, [each.path for each in members], know_all_alike(members, judge), KeepSettings())
    found = {row.file.stem: (row.action, row.kept.stem, row.merged) for row in rows}
    assert found["a"] == ("keep", "a", "") and found["b"] == ("review", "a", "a rating") and found["c"][0] == "review"
    merge(album, rows)
    assert (album / "a.jpg.xmp").exists() and not (album / "b.jpg").exists() and (album / "c.jpg").exists()


def test_without_the_option_such_a_copy_stays(album: Path) -> None:
    save(exif=place(47))(album)
    before = read_tree(album)
    assert not apply(album, plan(album), "move").done and read_tree(album) == before


def test_keywords_of_the_picture_stay_where_a_sidecar_replaces_them(album: Path) -> None:
    draw(320).save(album / "large.jpg", **pack(KEYWORDS_OF.format("<rdf:li>sea</rdf:li>")))
    save(**pack(KEYWORDS_OF.format("<rdf:li>boat</rdf:li>")))(album)
    merge(album, plan(album))
    assert parse_xmp((album / "large.jpg.xmp").read_bytes())[KEYWORDS] == ("Bag", "sea", "boat")


def test_several_copies_add_to_one_sidecar(album: Path) -> None:
    save("a.jpg", exif=place(47))(album)
    save("b.jpg", **pack('xmp:Rating="4">'))(album)
    draw(200).save(album / "c.jpg", comment=b"Grandma, Basel")
    before, rows, sidecar = read_tree(album), plan(album), album / "large.jpg.xmp"
    assert len(merge(album, rows[:2]).done) == 1
    sidecar.chmod(0o600)
    assert len(merge(album, rows).done) == 2
    assert len(parse_xmp(sidecar.read_bytes())) == 4 and sidecar.stat().st_mode & 0o777 == 0o600
    undo(album)
    assert read_tree(album) == before


FOREIGN = (' crs:Exposure2012="+1.0">', ' xmp:Rating="0">', KEYWORDS_OF.format("<rdf:li>sea</rdf:li>"))


@pytest.mark.parametrize("text", ["no XMP", "\xff", *map(PACKET.format, FOREIGN)])
def test_a_sidecar_to_which_nothing_can_be_added_stays_as_it_is(album: Path, text: str) -> None:
    save(exif=place(47))(album)
    rows = plan(album)
    (album / "large.jpg.xmp").write_bytes(text.encode("latin-1"))
    before = read_tree(album)
    outcome = merge(album, rows)
    assert "notes cannot be added to" in outcome.left[0][1] and str(album / "large.jpg.xmp") in outcome.left[0][1]
    assert not outcome.done and read_tree(album) == before


def test_what_a_file_has_beyond_notes_keeps_it_whatever_the_plan_says(album: Path) -> None:
    save(exif=place(47))(album)
    rows = plan(album)
    (album / "small.mov").write_bytes(b"film")
    outcome = merge(album, rows, way="symlink")
    assert not outcome.done and outcome.left == [(album / "small.jpg", "it has small.mov, unlike the kept file")]


def test_nothing_is_written_next_to_protected_files_or_through_links(album: Path) -> None:
    save(exif=place(47))(album)
    rows = plan(album)
    before = read_tree(album)
    outcome = merge(album, rows, is_protected=lambda path: path.name.startswith("large"))
    assert "is protected, and its notes are not written next to it" in outcome.left[0][1]
    elsewhere = album.parent / "elsewhere"
    elsewhere.touch()
    for target, reason in ((elsewhere, "which this program has not written"), ("/dev/null", "is not a regular file")):
        (album / "large.jpg.xmp").symlink_to(target)
        assert reason in merge(album, rows).left[0][1]
        (album / "large.jpg.xmp").unlink()
    assert read_tree(album) == before


@pytest.mark.parametrize(("module", "refused"), [(moving, "relocate"), (acting, "write_text")])
def test_where_a_right_is_missing_the_copy_stays_and_no_sidecar_is_left(
    album: Path, module: ModuleType, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(exif=place(47))(album)
    before, rows = read_tree(album), plan(album)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "no right", str(album))

    monkeypatch.setattr(module, refused, refuse)
    outcome = merge(album, rows)
    assert not outcome.done and "no right" in outcome.left[0][1] and read_tree(album) == before


def test_a_sidecar_that_has_changed_since_is_left_alone(album: Path) -> None:
    save(exif=place(47))(album)
    merge(album, plan(album))
    with (album / "large.jpg.xmp").open("a") as file:
        file.write("<!-- changed -->")
    outcome = undo(album)
    assert (album / "small.jpg").exists()
    assert outcome.left == [(album / "large.jpg.xmp", "it has changed since notes were added to it")]


def test_the_notes_stay_until_the_file_that_had_them_is_back(album: Path) -> None:
    save(exif=place(47))(album)
    before, small = read_tree(album), album / "small.jpg"
    merge(album, plan(album))
    small.write_bytes(b"another file")
    after = read_tree(album)
    assert [file for file, _ in undo(album).left] == [small, album / "large.jpg.xmp"] and read_tree(album) == after
    small.unlink()
    assert not undo(album).left and read_tree(album) == before


def test_what_a_kill_left_beside_a_sidecar_and_a_note_goes(album: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(exif=place(47))(album)
    before, rows, notes = read_tree(album), plan(album), album.parent / "data" / "Trash" / "info"
    with monkeypatch.context() as patched, suppress(Killed):
        patched.setattr(moving, "write_note", kill)
        merge(album, rows, way="delete-to-trash")
    for folder in (album, notes):
        part = folder / f".large.jpg.xmp.{HOST}-{DEAD}-abc.part"
        part.mkdir(parents=True)
        (part / "half").touch()
    assert not undo(album).left and read_tree(album) == before and not list(notes.iterdir())


def test_killed_at_any_moment_notes_are_in_one_of_two_files(album: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save("a.jpg", exif=place(47))(album)
    save("b.jpg", **pack('xmp:Rating="4">'))(album)
    before, rows = read_tree(album), plan(album)
    at = 0
    while True:
        at += 1
        with monkeypatch.context() as patched:
            calls = kill_at(patched, at)
            with suppress(Killed):
                merge(album, rows)
        if calls[0] < at:
            break
        said = {**read_holdings(album / "large.jpg").notes}
        for name in ("a.jpg", "b.jpg"):
            if (album / name).exists():
                said |= read_holdings(album / name).notes
        assert len(said) == 3, f"killed at change {at}: {said}"
        if at % 3:
            assert not merge(album, rows).left and set(read_tree(album)) == {"large.jpg", "large.jpg.xmp"}
        assert not undo(album).left and read_tree(album) == before, f"killed at change {at}"
        (album.parent / "journal.jsonl").unlink()
    assert at > 10


def test_what_is_written_is_checked_before() -> None:
    with pytest.raises(ValueError):
        format_sidecar({KEYWORDS: ("Bag", "\x01")})


def test_metadata_programs_read_what_is_written(album: Path) -> None:
    """The packet is one that a picture can hold."""
    save(exif=place(47))(album)
    merge(album, plan(album))
    stream = io.BytesIO()
    draw(64).save(stream, "JPEG", xmp=(album / "large.jpg.xmp").read_bytes())
    with Image.open(stream) as image:
        assert b"<exif:GPSLatitude>47,30.600000N</exif:GPSLatitude>" in image.info["xmp"]
