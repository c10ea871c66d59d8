"""Places on object stores: paths, listings, reading and writing, and what happens when the store fails."""

import io
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from image_copies.data.decode import decode_rgb, list_unreadable
from image_copies.data.errors import ImageError, StorageError, UserError
from image_copies.data.files import whole_file, write_text
from image_copies.data.ground_truth import read_table
from image_copies.data.images import find_images
from image_copies.data.layout import open_isc_folder
from image_copies.data.preprocessing import PreprocessedImages
from image_copies.data.remote import READERS, RemotePath, as_path, is_remote, map_files, open_store_of
from image_copies.data.sources.discovery import discover
from image_copies.data.sources.walking import walk
from tests.pictures import encode
from tests.sending import send


def picture(shade: int, form: str = "PNG") -> bytes:
    return encode(Image.new("RGB", (24, 16), (shade, 0, 0)), form)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("photos", "photos"),
        ("file:///tmp/a%20b", "/tmp/a b"),
        ("/tmp/s3:", "/tmp/s3:"),
        ("unknown-store://a", "unknown-store:/a"),
    ],
)
def test_what_is_on_this_machine_is_a_plain_path(place: str, path: str) -> None:
    assert as_path(place) == Path(path)
    assert not is_remote(place)


def test_a_url_stays_one_through_everything_that_is_done_with_paths() -> None:
    folder = as_path("s3://bucket/photos/")
    path = folder / "a" / "b.JPG"
    assert isinstance(path, RemotePath)
    assert isinstance(path, Path)
    assert str(path) == f"{path}" == os.fspath(path) == "s3://bucket/photos/a/b.JPG"
    assert (path.name, path.suffix, str(path.parent.parent)) == ("b.JPG", ".JPG", str(folder))
    assert str(path.with_suffix(".h5")) == "s3://bucket/photos/a/b.h5"
    assert folder in path.parents
    assert path.relative_to(folder) == Path("a/b.JPG")
    assert as_path(os.fsdecode(os.fsencode(path))) == as_path(Path(str(path))) == path
    assert {path: 1}[send(path)] == 1
    assert sorted([path, folder]) == [folder, path]


def test_a_listing_tells_sizes_and_times_and_leaves_nothing_to_ask(object_store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    url = object_store.make_bucket(
        "listing", {"x/b.png": picture(1), "x/a[1]*.png": picture(2), "x/.hidden.png": b"", "y.png": b""}
    )
    images = find_images(as_path(url + "/x"), naming="file")
    assert images.ids == ["a[1]*.png", "b.png"]
    monkeypatch.setattr("image_copies.data.remote.open_store_of", lambda place: pytest.fail("the store was asked again"))
    assert images.paths[1].stat().st_size == len(picture(1))
    assert images.digest() == images.digest()
    assert images.paths[1].is_file()


def test_a_listing_level_by_level_is_that_of_one_request_after_the_other(object_store: Any) -> None:
    """Among the names are those that a store's console makes for folders, and a file and a folder of one name."""
    names = ["a.png", "deep/er/and/deeper/b.png", "deep/er/c.png", "x", "x/d.png", "made/", "made/e.png", "own/"]
    names += [f"many/{number}/{number}.png" for number in range(READERS + 3)]
    url = object_store.make_bucket("levels", {f"top/{name}": picture(1) for name in ["", *names]})
    for below in ("", "/top", "/top/", "/top/many", "/top/deep/er", "/top/x", "/top/own"):
        folder = as_path(url + below)
        assert isinstance(folder, RemotePath)
        files, name = open_store_of(folder)
        found = {key for key in files.find(name) if not key.endswith("/")}
        assert {str(path).removeprefix("s3://") for path in walk(folder)} == found, below
    assert len(list(walk(as_path(url)))) == len(names) - 2
    odd = object_store.make_bucket("odd", {"a/b.png": b"", "a//c.png": b""})
    for place in (odd, f"{odd}/a"):
        with pytest.raises(StorageError, match="names with empty parts"):
            find_images(as_path(place))


def test_many_folders_of_a_store_are_listed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(READERS)

    class Slow:
        def info(self, folder: str) -> dict[str, Any]:
            return {"name": folder, "type": "directory"}

        def ls(self, folder: str, detail: bool) -> list[dict[str, Any]]:
            if folder == "bucket":
                return [{"name": f"{folder}/{number}", "type": "directory"} for number in range(READERS)]
            together.wait(20)  # BrokenBarrierError unless so many ask at once
            return [{"name": f"{folder}/a.png", "type": "file", "size": 1}]

    monkeypatch.setattr("image_copies.data.remote.open_store_of", lambda place: (Slow(), str(place).removeprefix("s3://")))
    assert len(find_images(as_path("s3://bucket"), naming="path")) == READERS


def test_pictures_are_read_in_place_like_local_ones(object_store: Any, tmp_path: Path) -> None:
    for shade in range(5):
        (tmp_path / f"{shade}.png").write_bytes(picture(40 * shade))
    (tmp_path / "broken.png").write_bytes(b"no picture")
    (tmp_path / "empty.png").touch()
    url = object_store.make_bucket("pictures", {path.name: path.read_bytes() for path in tmp_path.iterdir()})
    here, there = find_images(tmp_path), find_images(as_path(url))
    assert here.ids == there.ids
    rows = list(range(len(here)))
    first, second = (PreprocessedImages(images, 16).__getitems__(rows) for images in (here, there))
    for one, other in zip(first, second, strict=True):
        assert one[1] == other[1]
        assert np.array_equal(one[0].numpy(), other[0].numpy())
    for place in (here, there):
        list_unreadable(tmp_path / "listed.txt", place.paths)
        listed = [line.split("\t")[1] for line in (tmp_path / "listed.txt").read_text().splitlines()]
        assert listed == [*["can be read now"] * 5, "is not an image that can be read", "is empty"]


def test_a_folder_in_the_isc_layout_is_opened(object_store: Any) -> None:
    files = {f"set/{part}_images/{part[0]}1.png": picture(1) for part in ("training", "reference", "query")}
    table = "query_id,reference_id\nq1,r1\n"
    url = object_store.make_bucket("layout", files | {"set/public_ground_truth.csv": table.encode()})
    found = open_isc_folder(as_path(url + "/set"))
    assert (found.training.ids, found.reference.ids, found.query.ids) == (["t1"], ["r1"], ["q1"])
    assert found.ground_truth is not None
    assert read_table(found.ground_truth, ["query_id", "reference_id"], "a table") == [["q1", "r1"]]
    with pytest.raises(UserError, match="lacks training_images/"):
        open_isc_folder(as_path(url + "/set/query_images"))


def test_pictures_in_archives_are_found_and_read(object_store: Any) -> None:
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("in/a.png", picture(9))
    with tarfile.open(fileobj=tarred, mode="w") as tar:
        about = tarfile.TarInfo("b.png")
        about.size = len(picture(8))
        tar.addfile(about, io.BytesIO(picture(8)))
    files = {"a.zip": zipped.getvalue(), "b.tar": tarred.getvalue(), "without-ending": picture(7), "note.txt": b"note"}
    url = object_store.make_bucket("archives", files | {"broken.zip": b"no archive"})
    found = discover([as_path(url)])
    assert [str(path) for path in found.paths] == [
        f"{url}/{name}" for name in ("a.zip/in/a.png", "b.tar/b.png", "without-ending")
    ]
    assert {reason: len(paths) for reason, paths in found.skipped.items()} == {
        "not a picture": 1,
        "an archive that cannot be read": 1,
    }
    assert [int(decode_rgb(path)[0, 0, 0]) for path in found.paths] == [9, 8, 7]


def test_a_list_names_places_on_stores_and_here(object_store: Any, tmp_path: Path) -> None:
    url = object_store.make_bucket("listed", {"a.png": picture(1)})
    (tmp_path / "b.png").write_bytes(picture(2))
    (tmp_path / "list.txt").write_text(f"{url}/a.png\nb.png\n")
    assert [path.name for path in discover([Path(f"@{tmp_path / 'list.txt'}")]).paths] == ["a.png", "b.png"]


def test_a_file_appears_whole_or_not_at_all(object_store: Any) -> None:
    url = object_store.make_bucket("whole", {})
    target = as_path(url) / "below" / "a.txt"
    write_text(target, "first")
    with pytest.raises(ZeroDivisionError), whole_file(target) as temporary:
        temporary.write_text("second")
        raise ZeroDivisionError
    assert target.read_text() == "first"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("s3://no-such-bucket/photos", "no such bucket or folder.*s3://no-such-bucket must exist"),
        ("s3://errors/nothing-here", "s3://errors/nothing-here does not exist"),
        ("gs://bucket", "needs a package that is not installed.*pip install"),
    ],
)
def test_what_is_not_there_is_named(object_store: Any, place: str, message: str) -> None:
    if not object_store.files.exists("errors"):
        object_store.make_bucket("errors", {"a.png": picture(1)})
    with pytest.raises(UserError, match=message):
        find_images(as_path(place))


def test_missing_credentials_are_named(
    object_store: Any, monkeypatch: pytest.MonkeyPatch, forget_connections: Callable[[], None]
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    forget_connections()
    with pytest.raises(StorageError, match=r"s3://photos cannot be read: there are no credentials.*AWS_ACCESS_KEY_ID"):
        find_images(as_path("s3://photos"))


def test_a_network_that_is_gone_is_no_unreadable_picture(
    object_store: Any, monkeypatch: pytest.MonkeyPatch, forget_connections: Callable[[], None], tmp_path: Path
) -> None:
    paths = find_images(as_path(object_store.make_bucket("gone", {"a.png": picture(1)}))).paths
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody listens there
    forget_connections()
    for read in (
        lambda: decode_rgb(paths[0]),
        lambda: list_unreadable(tmp_path / "list.txt", paths),
        lambda: discover([paths[0].parent]),
        lambda: write_text(paths[0].parent / "b.txt", "text"),
    ):
        with pytest.raises(StorageError, match=r"s3://gone.* the store cannot be reached.*the same command continues"):
            read()


def test_a_picture_that_vanishes_is_listed_as_one_that_cannot_be_read(object_store: Any) -> None:
    path = find_images(as_path(object_store.make_bucket("vanished", {"a.png": picture(1)}))).paths[0]
    path.unlink()
    with pytest.raises(ImageError, match=r"s3://vanished/a.png: cannot be read \(no such file\)"):
        decode_rgb(path)


def test_refused_credentials_are_named(
    object_store: Any, monkeypatch: pytest.MonkeyPatch, forget_connections: Callable[[], None]
) -> None:
    url = object_store.make_bucket("refused", {"a.png": picture(1)})

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError("Access Denied")

    monkeypatch.setattr("s3fs.S3FileSystem.cat_file", refuse, raising=False)
    forget_connections()
    with pytest.raises(StorageError, match=r"the store refuses it \(PermissionError: Access Denied\)"):
        decode_rgb(find_images(as_path(url)).paths[0])


def test_an_error_of_the_store_keeps_its_message_through_a_worker_of_torch() -> None:
    wrapped = (
        "Caught StorageError in DataLoader worker process 0.\nOriginal Traceback:\ndata.errors.StorageError: s3://b is gone\n"
    )
    assert str(StorageError(wrapped)) == "s3://b is gone"


@pytest.mark.parametrize(
    ("places", "at_once"),
    [(["a"] * (READERS - 1) + ["s3://bucket/b"], True), (["a"] * READERS, False), (["s3://bucket/b"], False)],
)
def test_files_are_read_at_once_where_one_is_on_a_store(places: list[str], at_once: bool) -> None:
    paths, threads = [as_path(place) for place in places], set[threading.Thread]()
    together = threading.Barrier(READERS if at_once else 1, timeout=30)  # breaks unless so many are read at once

    def read(path: Path) -> Path:
        threads.add(threading.current_thread())
        together.wait()
        return path

    assert list(map_files(read, paths)) == paths
    assert (threading.current_thread() in threads) != at_once
