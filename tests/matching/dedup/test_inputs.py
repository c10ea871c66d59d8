"""What is found and said of folders, tars and Parquet files."""

import asyncio
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from image_copies.data.errors import StorageError, UserError
from image_copies.data.remote import as_path
from image_copies.data.sources import containers
from image_copies.data.sources.containers import Container, Picture, Rereader
from image_copies.data.sources.tars import Member, open_tar, walk_tar
from image_copies.matching.dedup import inputs
from image_copies.matching.dedup.inputs import list_containers
from image_copies.pipeline.deduplicate import main as deduplicate
from tests.pictures import draw_noise, encode, write_tar

BLOCK = 512


def picture(seed: int, side: int = 40) -> bytes:
    return encode(draw_noise(seed, side, side))


def read_all(source: Path, column: str = "image") -> tuple[list[Picture], list[str]]:
    """The pictures of a source, and what is damaged."""
    (container,) = list_containers([source], source.parent / "out", column=column)
    found = list(container.read())
    return [one for one in found if isinstance(one, Picture)], [one for one in found if isinstance(one, str)]


@pytest.fixture
def sample(tmp_path: Path) -> tuple[Path, dict[str, bytes]]:
    """A WebDataset of twelve pictures, one without an ending and one with a name longer than a header holds."""
    files = {f"{number:03d}.png": picture(number) for number in range(10)}
    files |= {"noending": picture(10), f"{'long' * 40}/x.png": picture(11)}
    with_labels = {name: content for key in files for name, content in ((key, files[key]), (f"{key[:3]}.json", b"{}"))}
    write_tar(tmp_path / "a.tar", with_labels)
    return tmp_path / "a.tar", files


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_a_tar_is_read_whole_and_one_by_one(tmp_path: Path, mode: str, sample: tuple[Path, dict[str, bytes]]) -> None:
    _, files = sample
    path = tmp_path / f"b.tar{mode[1:].replace(':', '.')}"
    write_tar(path, files | {"label.json": b"{}", ".hidden.png": picture(20)}, mode)
    found, problems = read_all(path)
    assert not problems and {one.id: one.content for one in found} == files
    with Rereader("image") as rereader:
        for one in (found[3], found[7], found[2]):
            about = {"id": one.id, "source": str(path), "place": one.place, "bytes": len(one.content or b"")}
            assert rereader.read(about) == one.content


def test_what_is_read_again_in_order_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row cost its whole group, and a member of a compressed tar everything before it."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    contents, wanted = [picture(number) for number in range(6)], list[dict[str, Any]]()
    write_tar(tmp_path / "a.tar.gz", {f"{number}.png": content for number, content in enumerate(contents)}, "w:gz")
    parquet.write_table(pa.table({"image": contents}), tmp_path / "b.parquet", row_group_size=3)
    for path in (tmp_path / "a.tar.gz", tmp_path / "b.parquet"):
        found = read_all(path)[0]
        wanted += [{"id": one.id, "source": str(path), "place": one.place, "bytes": len(one.content or b"")} for one in found]
    seen = list[str]()

    def note(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def do(*given: Any) -> Any:
            seen.append(name)
            return work(*given)

        return do

    for owner, name in ((containers, "open_tar"), (containers, "open_table"), (parquet.ParquetFile, "read_row_group")):
        monkeypatch.setattr(owner, name, note(name, getattr(owner, name)))
    with Rereader("image") as rereader:
        assert [rereader.read(about) for about in wanted] == 2 * contents
    assert seen == ["open_tar", "open_table", "read_row_group", "read_row_group"]


@pytest.mark.parametrize("damage", ["a header", "cut within a member", "cut within a header"])
def test_what_is_around_damage_in_a_tar_is_read(damage: str, sample: tuple[Path, dict[str, bytes]]) -> None:
    path, files = sample
    content, names = path.read_bytes(), list(files)
    with tarfile.open(path) as archive:
        member = archive.getmember("004.png")
    header, end = member.offset, member.offset_data + -(-member.size // BLOCK) * BLOCK
    if damage == "a header":
        path.write_bytes(content[:header] + b"\xff" * 100 + content[header + 100 :])
    else:
        path.write_bytes(content[: (member.offset_data if "member" in damage else header) + 100])
    found, (problem,) = read_all(path)
    assert [one.id for one in found if one.content] == names[:4] + (names[5:] if damage == "a header" else [])
    assert [one.error for one in found if not one.content] == ["the tar is cut within it"] * ("member" in damage)
    lost = f"bytes {header:,} to {end:,} are damaged: the members there are lost"
    assert (problem == lost) == (damage == "a header")


def test_a_damaged_extended_header_loses_one_member(sample: tuple[Path, dict[str, bytes]]) -> None:
    path, files = sample
    write_tar(path, dict(reversed(files.items())))  # the long name comes first
    content = bytearray(path.read_bytes())
    with open_tar(path) as stream:
        first = next(found for found in walk_tar(stream) if isinstance(found, Member))
    content[first.data - BLOCK : first.data - BLOCK + 300] = b"\xff" * 300  # the header after the extended one
    path.write_bytes(content)
    found, problems = read_all(path)
    assert {one.id for one in found} == {name for name in files if not name.startswith("long")} and problems


@pytest.mark.parametrize("content", [b"", b"no tar" * 1000, bytes(10240)])
def test_what_is_no_tar_holds_nothing(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(content)
    found, problems = read_all(tmp_path / "x.tar")
    assert not found and bool(problems) == (content != bytes(10240))


def test_a_damaged_compressed_tar_says_so(tmp_path: Path) -> None:
    write_tar(tmp_path / "x.tar.gz", {f"{n}.png": picture(n, 100) for n in range(5)}, "w:gz")
    content = (tmp_path / "x.tar.gz").read_bytes()
    (tmp_path / "x.tar.gz").write_bytes(content[: len(content) // 2])
    with open_tar(tmp_path / "x.tar.gz") as stream:
        assert isinstance(list(walk_tar(stream))[-1], str)


def test_tables_of_bytes_and_paths_are_read(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "x.png").write_bytes(picture(1))
    cells = [{"bytes": picture(2), "path": "a.png"}, {"bytes": None, "path": "x.png"}, {"bytes": None, "path": None}, None]
    parquet.write_table(pa.table({"image": cells * 2, "n": range(8)}), tmp_path / "t.parquet", row_group_size=3)
    found, _ = read_all(tmp_path / "t.parquet")
    assert [one.content for one in found] == [picture(2), picture(1), None, None] * 2
    assert all(one.error for one in found if one.content is None) and [one.place for one in found] == list(range(8))
    about = {"id": "5", "source": str(tmp_path / "t.parquet"), "place": 5, "bytes": 0}
    with Rereader("image") as rereader:
        assert rereader.read(about) == picture(1)
    assert read_all(tmp_path / "t.parquet", "photo")[1] == ["has no column photo (--column names it), but image, n"]
    (tmp_path / "t.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:-20])
    assert "cannot be read" in read_all(tmp_path / "t.parquet")[1][0]


def test_a_new_file_changes_one_batch_and_results_are_no_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(3000):
        (folder / f"{number:05d}.jpg").touch()
    (folder / "results").mkdir()
    (folder / "results" / "thumbnail.jpg").touch()

    monkeypatch.setattr(inputs, "BATCH_FILES", 50)

    def batches() -> dict[str, Container]:
        return {one.key: one for one in list_containers([folder], folder / "results")}

    before = batches()
    assert sum(len(one.names) for one in before.values()) == 3000 and len(before) > 10
    within = next(one for one in before.values() if 30 < len(one.names) < 199)  # longer than the shortest batch, and not cut off
    names = (f"{within.names[29].removesuffix('.jpg')}-{letter}.jpg" for letter in "abcdefgh")
    Path(next(name for name in names if zlib.crc32(os.fsencode(name.removeprefix(str(folder)))) % 50)).touch()  # ends no batch
    assert len(batches().keys() - before.keys()) == 1


def test_a_file_is_listed_once_whichever_sources_lead_to_it(tmp_path: Path) -> None:
    for name in ("a/1.jpg", "a/b/2.jpg", "a/b/.3.jpg", "a/.c/4.jpg", "a/x.tar", "d/5.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "linked").symlink_to(tmp_path / "a")
    (tmp_path / "d" / "linked.jpg").symlink_to(tmp_path / "a" / "1.jpg")
    for names in (
        ["a", "linked"],
        ["linked/b/2.jpg", "a", "a/b"],
        ["a/b", "linked/x.tar", "linked", "a/x.tar"],
        ["linked/1.jpg", "a"],
    ):
        containers = list(list_containers([tmp_path / name for name in names], tmp_path / "out"))
        listed = [name for one in containers for name in one.names or [one.source]]
        assert sorted(listed) == [f"{tmp_path}/a/{name}" for name in ("1.jpg", "b/2.jpg", "x.tar")], names
    (linked,) = list_containers([tmp_path / "d", tmp_path / "d" / "linked.jpg"], tmp_path / "out")
    assert linked.names == (f"{tmp_path}/d/5.jpg", f"{tmp_path}/d/linked.jpg")  # a link to a file has a name of its own


def test_lists_are_read_line_by_line(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.jpg").touch()
    (tmp_path / "list.txt").write_text("# two\n1.jpg\n\n3.jpg\n")
    (found,) = list_containers([Path(f"@{tmp_path}/list.txt")], tmp_path / "out")
    assert found.names == (f"{tmp_path}/1.jpg", f"{tmp_path}/3.jpg")
    with pytest.raises(UserError, match="does not exist"):
        list(list_containers([tmp_path / "4.jpg"], tmp_path / "out"))


def test_an_object_store_that_fails_is_asked_again_and_then_named(
    object_store: Any,
    sample: tuple[Path, dict[str, bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    forget_connections: Callable[[], None],
) -> None:
    path, files = sample
    loose = {f"loose/{seed}.png": picture(seed) for seed in range(3)}
    url = as_path(object_store.make_bucket("asked-again", loose | {"a.tar": path.read_bytes(), "loose/more/x.txt": b"-"}))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "3")
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: sleep(seconds / 20))  # between attempts
    forget_connections()
    for source, found in ((url / "a.tar", files), (url / "loose", {f"{url}/{name}": loose[name] for name in loose})):
        with object_store.failing(2):
            (container,) = list_containers([source], tmp_path)
        with object_store.failing(2):
            assert {one.id: one.content for one in container.read() if isinstance(one, Picture)} == found
        named = rf"{source}.* the store cannot be reached or fails.*the same command continues"
        with object_store.failing(1000), pytest.raises(StorageError, match=named):
            list(list_containers([source], tmp_path))
        with object_store.failing(1000), pytest.raises(StorageError, match=named):
            list(container.read())
    object_store.files.pipe_file(f"{url}/loose//y.png", picture(4))
    with pytest.raises(StorageError, match="1 names with empty parts"):
        list(list_containers([url / "loose"], tmp_path))


def test_what_is_in_a_test_set_is_no_input(tmp_path: Path) -> None:
    """Its pictures went for each other."""
    (tmp_path / "in" / "test").mkdir(parents=True)
    for name in ("1.jpg", "test/2.jpg", "test/a.tar"):
        (tmp_path / "in" / name).touch()
    (left,) = list_containers([tmp_path / "in"], tmp_path / "out", [tmp_path / "in" / "test"])
    assert left.names == (f"{tmp_path}/in/1.jpg",)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--input in.tar --against in.tar", "no picture that is in no test set was found in in.tar"),
        ("--input in.tar --against empty", "no picture was found in empty"),
        ("--input table.parquet --column photo", "no picture was found in table.parquet"),
        *((f"--input {options}", "does not exist") for options in ("nothere", "empty --against @list.txt")),
        ("--input empty --checkpoint x", "no such checkpoint"),
    ],
)
def test_what_is_not_there_is_named_before_anything_is_made(
    options: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "list.txt").write_text("empty/nothere\n")
    write_tar(tmp_path / "in.tar", {"a.png": picture(1)})
    parquet.write_table(pa.table({"image": [picture(2)]}), "table.parquet")
    with pytest.raises(UserError, match=said):
        deduplicate([*options.split(), "--output", "o"])
    assert (tmp_path / "o").exists() == said.startswith("no picture")
    assert ("has no column photo" in capsys.readouterr().out) == ("--column" in options)
