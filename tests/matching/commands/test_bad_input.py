"""Bad input loses nothing: from search to undo in strange folders, two plans at once; files are counted before and after."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from image_copies.data.errors import UserError
from image_copies.data.locks import hold_lock_file
from image_copies.data.procedural import write_pictures
from image_copies.data.sources import tars
from image_copies.matching import results
from image_copies.matching.files.plan import read_plan
from image_copies.pipeline.match import main
from tests.folders import read_tree

TOP = Path(__file__).parents[3]
ODD = os.fsdecode(b'caf\xe9 "q",\n.jpg')
WAYS = ("move", "hardlink", "symlink", "delete-to-trash")


@pytest.fixture
def album(own_desk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """album/ and a folder inside: copies with odd names, links in circles, unsafe names in an archive, a bomb, a hard link."""
    monkeypatch.setattr(tars, "MIN_SUSPECT_BYTES", 1000)
    monkeypatch.chdir(own_desk)
    inner = own_desk / "album" / "inner folder"
    list(write_pictures(inner, "R", 4, seed=1, workers=1))
    first, second, third, fourth = sorted(inner.iterdir())
    for name in (ODD, "copy of it.jpg"):
        shutil.copy(first, own_desk / "album" / name)
    with Image.open(second) as image:
        image.save(own_desk / "album" / "again.png")
    os.link(third, own_desk / "album" / "hard.jpg")
    (own_desk / "album" / "link.jpg").symlink_to(fourth)
    (own_desk / "album" / "circle").symlink_to(own_desk / "album")
    (inner / "up").symlink_to("..")
    (inner / "self.jpg").symlink_to("self.jpg")
    with zipfile.ZipFile(own_desk / "album" / "unsafe.zip", "w") as archive:
        for name in ("../escape.jpg", "/absolute.jpg", "inside/fine.jpg"):
            archive.writestr(name, first.read_bytes())
    with tarfile.open(own_desk / "album" / "bomb.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("large.jpg")
        member.size = 5_000_000
        tar.addfile(member, io.BytesIO(bytes(member.size)))
    return own_desk / "album"


def contents(folder: Path) -> Counter[bytes]:
    """How many files hold what."""
    return Counter(path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def search(checkpoint: Path, *arguments: str) -> int:
    return main(["--checkpoint", str(checkpoint), "--threshold=-0.02", *arguments])


def test_strange_folders_from_search_to_undo(album: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, all_contents = read_tree(album), contents(album)
    outside = [path.name for path in album.parent.iterdir()]
    search(checkpoint, "--queries", "album", "album/inner folder", "album/../album")
    printed = capsys.readouterr().out
    assert "unsafe name in an archive" in printed and "an archive that cannot be read" in printed and "a broken link" in printed
    rows = read_plan(Path("matches/plan.csv"))
    removed = [row.file for row in rows if row.action == "remove"]
    assert len({row.file for row in rows}) == len(rows) and len(removed) >= 3  # two copies, a re-encoded one
    assert album / "hard.jpg" not in removed
    assert album / ODD in {row.file for row in rows}
    for row in rows:
        assert row.action != "remove" or not (row.file.is_symlink() or ".zip" in str(row.file))
    assert read_tree(album) == before
    for way in WAYS:
        assert main(["--apply", way]) == 0
        assert set(contents(album.parent)) >= set(all_contents), way
        assert all((album / name).exists() for name in ("hard.jpg", "unsafe.zip", "bomb.tar.gz", "link.jpg", "circle"))
        assert main(["--undo"]) == 0 and read_tree(album) == before, way
    made = {path.name for path in album.parent.iterdir()} - set(outside)
    assert all(name in ("matches", "data") or name.startswith("image-copy-detection-") for name in made)


def test_an_unreadable_picture_twice_is_left_alone(album: Path, checkpoint: Path) -> None:
    """Its vector, which it lacks, was looked up again by a thread: the search ended, and called the index damaged."""
    for name in ("broken.jpg", "broken too.jpg"):
        (album / name).write_bytes(b"\xff\xd8\xff\xe0 no picture")
    search(checkpoint, "--queries", "album")
    rows = {row.file.name: row.action for row in read_plan(Path("matches/plan.csv")) if "broken" in row.file.name}
    assert "remove" not in rows.values() and main(["--apply", "move"]) == 0
    assert (album / "broken.jpg").exists() and (album / "broken too.jpg").exists()


def test_one_picture_twice_is_no_pair_to_act_on(album: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, path = read_tree(album), "album/inner folder/R000000.jpg"
    assert main([path, path]) == 0 and "same file" in capsys.readouterr().out
    search(checkpoint, "--queries", path, path)
    assert read_plan(Path("matches/plan.csv")) == [] and main(["--apply", "move"]) == 0
    with pytest.raises(UserError, match="the same bytes"):
        main(["decide", path, path, "not-a-copy"])
    search(checkpoint, "--queries", path, "--references", path)
    assert read_plan(Path("matches/plan.csv")) == [] and read_tree(album) == before


def test_of_two_plans_at_once_the_second_waits_for_the_first(album: Path, checkpoint: Path) -> None:
    before = read_tree(album)
    search(checkpoint, "--queries", "album")
    Path("matches/journal.jsonl").touch()  # of a process that has begun
    with hold_lock_file(results._lock(), "busy"):
        for arguments in (["--apply", "move"], ["--undo"]):
            with pytest.raises(UserError, match=r"another process is carrying out or undoing a plan"):
                main(arguments)
        assert read_tree(album) == before
    command = [sys.executable, str(TOP / "pipeline" / "match.py"), "--apply", "move"]
    places = [album.parent / f"image-copy-detection-{number}" for number in range(2)]
    for place in places:
        place.mkdir()
    both = [
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(place)}) for place in places
    ]
    ended = [(process.communicate()[1], process.returncode) for process in both]
    assert {code for _, code in ended} <= {0, 2} and any(code == 0 for _, code in ended)
    assert all("carrying out" in message for message, code in ended if code == 2)
    gone = [row.file for row in read_plan(Path("matches/plan.csv")) if row.action == "remove" and not row.file.exists()]
    assert gone and all(row.exists() for row in {row.kept for row in read_plan(Path("matches/plan.csv"))})
    assert main(["--undo"]) == 0 and read_tree(album) == before


def test_a_search_without_a_threshold_leaves_no_older_plan_to_carry_out(album: Path, checkpoint: Path) -> None:
    before = read_tree(album)
    search(checkpoint, "--queries", "album")
    main(["--checkpoint", str(checkpoint), "--queries", "album"])
    with pytest.raises(UserError, match="there is no plan"):
        main(["--apply", "move"])
    assert read_tree(album) == before
