"""Pictures are found in folders, lists and archives, by name or by content; what is skipped is counted by reason."""

import importlib
import os
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from image_copies.data import formats
from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError, UserError
from image_copies.data.formats import PLUGINS, detect_format, readable_formats
from image_copies.data.images import find_images
from image_copies.data.layout import open_isc_folder
from image_copies.data.sources import archives, tars
from image_copies.data.sources.archives import list_archive, read_bytes, read_member
from image_copies.data.sources.discovery import SET_ASIDE, discover, format_skipped_counts
from image_copies.data.sources.walking import MARK, expand_sources
from tests.pictures import encode, write_tar, write_zip

PIXELS = np.add.outer(np.arange(48), np.arange(64)).astype(np.uint8)[:, :, None].repeat(3, axis=2)
WRITTEN = ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM", "QOI", "HEIF", "JXL"]


def encoded(form: str = "PNG") -> bytes:
    if form == "HEIF":
        return (Path(__file__).parents[1] / "pictures" / "ramp.heic").read_bytes()  # what decodes it cannot write it
    readable_formats({"JXL": b"\xff\x0a"}.get(form, b""))
    return encode(Image.fromarray(PIXELS), form)


@pytest.mark.parametrize("form", WRITTEN)
def test_every_format_is_recognised_by_its_content_and_decoded_under_any_name(tmp_path: Path, form: str) -> None:
    content = encoded(form)
    assert detect_format(content[:64]) == form
    for name in ("picture.txt", "picture.jpg", "picture"):
        (tmp_path / name).write_bytes(content)
    assert len(discover([tmp_path]).paths) == 3
    decoded = decode_rgb(tmp_path / "picture.txt")
    assert decoded.shape == PIXELS.shape and np.abs(decoded.astype(int) - PIXELS).mean() < 8


@pytest.mark.parametrize(("form", "package"), [("HEIF", "pi-heif"), ("JXL", "pylibjxl")])
def test_a_picture_without_a_decoder_names_the_package(monkeypatch: pytest.MonkeyPatch, form: str, package: str) -> None:
    content = encoded(form)
    monkeypatch.setattr("image_copies.data.formats._load_plugin", lambda _: False)
    monkeypatch.setattr(Image, "ID", [name for name in Image.ID if name != form])
    with pytest.raises(ImageError, match=f"is {form}, which no installed package decodes: python -m pip install {package}"):
        decode_rgb(content)


@pytest.mark.parametrize("form", PLUGINS)
def test_other_decoders_are_taken_where_the_required_ones_are_missing(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    required, other = PLUGINS[form]
    pytest.importorskip(other)
    tried: list[str] = []

    def find(name: str) -> object:
        tried.append(name)
        if name == required:
            raise ImportError(name)
        return importlib.import_module(name)

    monkeypatch.setattr("image_copies.data.formats.importlib", SimpleNamespace(import_module=find))
    assert formats._load_plugin.__wrapped__(form) and tried == [required, other]
    assert decode_rgb(encoded(form)).shape == PIXELS.shape


@pytest.mark.parametrize(
    "content", [b"", b"%!PS-Adobe-3.0 EPSF", b"<svg></svg>", b"BM too short", b"P6-series notes", b"%PDF-1.7"]
)
def test_other_content_is_not_a_picture(content: bytes) -> None:
    assert detect_format(content) is None


def test_skipped_files_are_counted_by_reason(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded())
    (tmp_path / "notes.txt").write_bytes(b"text")
    (tmp_path / ".hidden.png").write_bytes(encoded())
    (tmp_path / "loop.png").symlink_to("loop.png")
    (tmp_path / "circle").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.png")
    found = discover([tmp_path])
    assert [path.name for path in found.paths] == ["a.png"]
    assert {reason: len(paths) for reason, paths in found.skipped.items()} == {
        "not a picture": 1,
        "hidden": 1,
        "a broken link": 1,
        "no regular file": 1,
    }
    assert "1 a broken link" in format_skipped_counts(found.skipped)


@pytest.mark.parametrize(
    ("place", "beside"),
    [
        (".Trash", "a"),
        (".Trash-1000/files", "a"),
        (".Trashes/501", "a"),
        ("$RECYCLE.BIN/S-1-5", "a"),
        (".local/share/Trash/files", "../info/a"),
        (".thumbnails/normal", "a"),
        ("moved/elsewhere", f"../{MARK}"),
    ],
)
def test_what_was_removed_is_passed_over_unless_it_is_named(tmp_path: Path, place: str, beside: str) -> None:
    """A plan kept what lay in the trash, and removed the last one elsewhere."""
    folder = tmp_path / "album" / place
    for path in (folder / "a.png", folder / beside, tmp_path / "album" / "Trash" / "b.png"):  # a name alone is no trash
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded())
    found = discover([tmp_path])
    assert [path.name for path in found.paths] == ["b.png"] and len(found.skipped[SET_ASIDE]) == 1
    assert folder / "a.png" in discover([folder]).paths


def test_sources_are_folders_files_and_lists_and_each_picture_counts_once(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    for path in (inner / "a.png", inner.parent / "b.png"):
        path.write_bytes(encoded())
    (tmp_path / "list.txt").write_text("# two\nouter/b.png\r\nouter/inner\n")
    assert [path.name for path in discover([inner, inner.parent]).paths] == ["a.png", "b.png"]
    assert [path.name for path in discover([Path(f"@{tmp_path}/list.txt")]).paths] == ["b.png", "a.png"]
    assert [path.name for path in discover([inner.parent], excluded=[inner]).paths] == ["b.png"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("none", "does not exist"), ("empty", "holds no image"), ("@none.txt", "cannot be read"), ("@empty.txt", "names nothing")],
)
def test_a_source_without_pictures_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("empty.txt").touch()
    with pytest.raises(UserError, match=message):
        discover([Path(name)])


@pytest.mark.parametrize("name", ["pictures.zip", "pictures.tar", "pictures.tar.gz"])
def test_an_archive_is_read_without_unpacking(tmp_path: Path, name: str) -> None:
    members = {
        "a.png": encoded(),
        "sub/picture.dat": encoded("WEBP"),
        "../escape.png": encoded(),
        "/absolute.png": encoded(),
        "notes.txt": b"text",
        "more.zip": b"PK",
    }
    path = tmp_path / "in" / name
    path.parent.mkdir()
    if name.endswith(".zip"):
        write_zip(path, members)
    else:
        write_tar(path, members, "w:gz" if name.endswith(".gz") else "w")
    before = sorted(tmp_path.rglob("*"))
    found = discover([path.parent])
    assert [str(picture.relative_to(path)) for picture in found.paths] == ["a.png", "sub/picture.dat"]
    assert {reason: len(paths) for reason, paths in found.skipped.items()} == {
        "unsafe name in an archive": 2,
        "not a picture": 1,
        "an archive within an archive": 1,
    }
    assert decode_rgb(found.paths[1]).shape == PIXELS.shape and read_bytes(found.paths[0]) == members["a.png"]
    assert discover([path]).paths == found.paths and sorted(tmp_path.rglob("*")) == before
    with pytest.raises(ImageError, match=r"none\.png"):
        decode_rgb(path / "none.png")


def test_what_is_too_large_unpacked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBER_BYTES", 1000)
    write_zip(tmp_path / "bomb.zip", {"a.png": bytes(10_000)})
    with pytest.raises(UserError, match="larger than"):
        read_member(tmp_path / "bomb.zip", "a.png")
    with pytest.raises(ImageError):
        decode_rgb(tmp_path / "bomb.zip" / "a.png")
    (tmp_path / "bomb.zip").unlink()
    monkeypatch.setattr(tars, "MIN_SUSPECT_BYTES", 1000)
    write_tar(tmp_path / "bomb.tar.gz", {f"{number}.png": bytes(1_000_000) for number in range(3)}, "w:gz")
    with pytest.raises(UserError, match=r"unpacks from .* to more"):
        list_archive(tmp_path / "bomb.tar.gz")
    with pytest.raises(UserError, match="1 an archive that cannot be read"):
        discover([tmp_path])
    with pytest.raises(UserError, match=r"unpacks from .* to more"):
        discover([tmp_path / "bomb.tar.gz"])


def test_a_tar_of_a_folder_from_inside_it_is_read(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"./a.png": encoded(), "./sub/b.png": encoded(), "./../c.png": encoded()})
    found = discover([tmp_path / "a.tar"])
    assert [str(path.relative_to(tmp_path)) for path in found.paths] == ["a.tar/a.png", "a.tar/sub/b.png"]
    assert read_bytes(found.paths[0]) == encoded() and len(found.skipped["unsafe name in an archive"]) == 1


@pytest.mark.parametrize("name", ["broken.zip", "broken.tar", "broken.tar.gz"])
def test_a_damaged_archive_is_counted_and_does_not_stop_the_search(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.png").write_bytes(encoded())
    (tmp_path / name).write_bytes(b"no archive at all")
    found = discover([tmp_path])
    assert len(found.paths) == 1 and "an archive that cannot be read" in found.skipped


def test_of_a_damaged_tar_the_members_that_can_be_found_are_read(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {f"{number}.png": encoded() for number in range(4)})
    with tarfile.open(tmp_path / "a.tar") as archive:
        damaged, cut = archive.getmember("1.png"), archive.getmember("3.png")
    content = bytearray((tmp_path / "a.tar").read_bytes()[: cut.offset_data + 100])
    content[damaged.offset : damaged.offset + 100] = b"\xff" * 100
    (tmp_path / "a.tar").write_bytes(content)
    found = discover([tmp_path])
    assert [path.name for path in found.paths] == ["0.png", "2.png", "3.png"]
    assert format_skipped_counts(found.skipped) == "2 a damaged part of an archive"
    assert read_bytes(found.paths[1]) == encoded()
    with pytest.raises(ImageError, match="the tar is cut within it"):
        decode_rgb(found.paths[2])


def test_a_name_that_no_file_can_have_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("9" * 5000)
    for sources in ([Path(f"@{tmp_path / 'list.txt'}")], [tmp_path / ("9" * 5000)]):
        with pytest.raises(UserError, match="does not exist"):
            discover(list(expand_sources(sources)))
    for open_folder in (find_images, open_isc_folder):
        with pytest.raises(UserError, match="does not exist"):
            open_folder(tmp_path / ("9" * 5000))


def test_a_member_without_a_name_is_refused_and_the_others_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    write_zip(path, {"x": b"", "a.png": encoded()})
    content = path.read_bytes()
    central = content.index(b"PK\1\2")  # the list at the archive's end: 46 bytes, then the name
    entry = bytearray(content[central : central + 47])
    entry[28:30] = b"\0\0"  # the name's length
    end = bytearray(content[content.index(b"PK\5\6") :])
    end[12:16] = (int.from_bytes(end[12:16], "little") - 1).to_bytes(4, "little")  # the list's length
    path.write_bytes(content[:central] + entry[:46] + content[central + 47 : content.index(b"PK\5\6")] + end)
    listing = list_archive(path)
    assert listing.members == ["a.png"] and listing.refused == {"unsafe name in an archive": [""]}


def test_an_archive_that_changes_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    write_zip(path, {"a.png": encoded()})
    assert list_archive(path).members == ["a.png"]
    write_zip(path, {"b.png": encoded("JPEG"), "c.png": encoded()})
    assert list_archive(path).members == ["b.png", "c.png"]
