"""Filtered copies hold everything but what goes; inputs stay as they are."""

import csv
import hashlib
import json
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from image_copies.data.errors import UserError
from image_copies.data.sources.tars import Member, open_tar, walk_tar
from image_copies.matching.dedup import applying
from image_copies.matching.dedup.applying import write_filtered
from image_copies.matching.dedup.deduplication import DedupSettings, deduplicate
from image_copies.matching.dedup.inputs import list_containers
from image_copies.matching.matches import Rule
from image_copies.matching.output import Output
from tests.matching.dedup.test_inputs import picture
from tests.pictures import write_tar


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Lists by which a tar loses one of two members of the same name, a sample and one of the two pictures of another."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    long = "x" * 150
    pictures = ["twice.png", "gone.png", "gone.seg.png", "half.a.png", "half.b.png", f"{long}.png"]
    files = {name: picture(number) for number, name in enumerate(pictures)}
    write_tar(tmp_path / "in.tar", files | {"gone.json": b"{}", "half.txt": b"text", f"{long}.txt": b""})
    with tarfile.open(tmp_path / "in.tar", "a") as archive:
        archive.add(__file__, "notes/about.bin")
        archive.add(__file__, "twice.png")
    with open_tar(tmp_path / "in.tar") as stream:
        places = [(found.name, found.data) for found in walk_tar(stream) if isinstance(found, Member)]
    going = [place for name, place in places if name in ("gone.png", "gone.seg.png", "half.a.png", f"{long}.png")]
    rows = {"id": ["?"] * 5, "source": [str(tmp_path / "in.tar")] * 4 + ["/a/b.jpg"], "place": [*going, 0]}
    stays = ["/a/x.tar/x.png", "/a/x.tar/x.png", "/a/x.tar/x.png", str(tmp_path / "stays.png"), "/a/c.jpg"]
    (tmp_path / "stays.png").write_bytes(picture(9))
    parquet.write_table(pa.table(rows | {"copy_of": stays}), tmp_path / "remove.parquet")
    kept = {"id": ["/a/c.jpg", "x.png", str(tmp_path / "stays.png")], "source": ["/a", "/a/x.tar", str(tmp_path)]}
    kept["sha256"] = ["", "", hashlib.sha256(picture(9)).hexdigest()]
    parquet.write_table(pa.table(kept), tmp_path / "keep.parquet")
    remember_inputs(tmp_path, "in.tar")
    return tmp_path


def remember_inputs(folder: Path, *tars: str) -> None:
    found = list_containers([folder / name for name in tars], folder / "none")
    (folder / "inputs.json").write_text(json.dumps({container.source: container.state for container in found}))


def test_a_tar_loses_what_goes_and_the_rest_of_its_samples(results: Path) -> None:
    before = (results / "in.tar").read_bytes()
    (written,) = write_filtered(results, results / "new")
    assert (results / "in.tar").read_bytes() == before
    with tarfile.open(written) as archive:
        names = archive.getnames()
        assert names == ["twice.png", "half.b.png", "half.txt", "notes/about.bin", "twice.png"]
        member = archive.extractfile("half.b.png")
        assert member is not None and member.read() == picture(4)


def test_a_manifest_says_what_became_of_each_input(results: Path) -> None:
    write_tar(results / "empty.tar", {"notes.bin": b""})
    remember_inputs(results, "in.tar", "empty.tar")
    known = json.loads((results / "inputs.json").read_text())
    (results / "inputs.json").write_text(json.dumps(known | {"/a": "state"}))
    (written,) = write_filtered(results, results / "new")
    with (results / "new" / "manifest.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["source", "became", "file"],
            ["/a", "listed", "keep.parquet"],
            [str(results / "empty.tar"), "unchanged", str(results / "empty.tar")],
            [str(results / "in.tar"), "filtered", written.name],
        ]
    assert write_filtered(results, results / "new") == [written]  # again, over its own


def test_a_folder_of_other_things_is_left_alone(results: Path) -> None:
    (results / "mine").mkdir()
    (results / "mine" / "000001-in.tar").write_bytes(b"mine")
    with pytest.raises(UserError, match="left alone"):
        write_filtered(results, results / "mine")
    with pytest.raises(UserError, match=r"in\.tar is a file: it is left alone"):
        write_filtered(results, results / "in.tar")
    assert [path.read_bytes() for path in (results / "mine").iterdir()] == [b"mine"]


def test_copies_of_an_earlier_run_that_are_searched_themselves_stay(results: Path) -> None:
    """They have the names of filtered copies, which a run removes first."""
    (written,) = write_filtered(results, results / "new")
    remember_inputs(results, "in.tar", str(written))
    with pytest.raises(UserError, match=r"new holds .*000001-in\.tar, one of the inputs"):
        write_filtered(results, results / "new")
    assert written.is_file()


CHANGED = "has gone or changed since it was searched"
REFUSED = [(name, content, CHANGED) for name in ("in.tar", "other.tar") for content in (None, b"-")]
REFUSED += [("stays.png", None, "No such file"), ("stays.png", b"another picture", "has changed since it was searched")]
REFUSED += [("remove.parquet", None, "run the command without --apply first")]


@pytest.mark.parametrize(("name", "content", "said"), REFUSED)
def test_nothing_goes_by_or_for_what_has_gone_or_changed(results: Path, name: str, content: bytes | None, said: str) -> None:
    """Pictures of a tar may lie in another order, and others would have gone; of another one the numbers would be wrong."""
    write_tar(results / "other.tar", {"a.png": picture(7)})
    remember_inputs(results, "in.tar", "other.tar")
    assert len(write_filtered(results, results / "new")) == 1
    (results / name).unlink()
    if content is not None:
        (results / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name} .*{said}"):
        write_filtered(results, results / "newer")
    assert not (results / "newer").exists()


def test_what_an_earlier_run_wrote_and_this_one_does_not_goes(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A glob over the folder held inputs that had been taken out, and others twice."""
    new = results / "new"
    (written,) = write_filtered(results, new)
    old = new / "000002-old.tar"
    old.write_bytes(b"")
    (new / "mine.tar").write_bytes(b"mine")
    manifest = (new / "manifest.csv").read_text()
    monkeypatch.setattr(applying, "copy_tar", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_filtered(results, new)
    assert not written.exists() and not old.exists()
    monkeypatch.undo()
    assert write_filtered(results, new) == [written] and (new / "manifest.csv").read_text() == manifest
    assert sorted(path.name for path in new.iterdir()) == [written.name, "manifest.csv", "mine.tar"]


def test_no_lists_of_before_are_left_to_a_run_that_ends_early(results: Path) -> None:
    """What goes was taken from tars that had been written again since."""
    (results / "empty").mkdir()
    extractor: Any = SimpleNamespace(source=list, identity="", networks=[], files=())
    settings = DedupSettings([results / "empty"], [], results, "image", ("same file",))
    with pytest.raises(UserError, match="no picture was found"):
        deduplicate(extractor, Rule(None, None, 0.001, 10), settings, Output())
    with pytest.raises(UserError, match="run the command without --apply first"):
        write_filtered(results, results / "new")
