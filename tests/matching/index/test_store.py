"""The stored index: contents known by their hash, all-or-nothing changes."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.matching.index.search import open_search
from image_copies.matching.index.store import (
    Store,
    add_files,
    count_changes,
    digest_of,
    files_of,
    keep_queries,
    open_store,
    remove_files,
    stored_files,
    unreadable_files,
    vectors_by_digest,
)

RNG = np.random.default_rng(0)
VECTORS = RNG.standard_normal((20, 8)).astype(np.float32)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "index", "extractor", 8) as opened:
        yield opened


def add(store: Store, *rows: int, prefix: str = "/a") -> None:
    digests = {Path(f"{prefix}/{row}.jpg"): b"%d" % row for row in rows}
    add_files(store, digests, {b"%d" % row: VECTORS[row] for row in rows})


def test_nearest_names_the_files_and_exact_distances(store: Store) -> None:
    add(store, *range(20))
    index = open_search(store)
    found = index.nearest(VECTORS[:5], 3)
    assert [files_of(store, index.digests[row])[0].name for row in found.rows[:, 0]] == [f"{i}.jpg" for i in range(5)]
    difference = VECTORS[None, :5].astype(np.float64) - VECTORS[:, None].astype(np.float64)
    assert np.allclose(found.values, np.sort((difference**2).sum(-1), axis=0)[:3].T, atol=1e-12)
    assert np.array_equal(index.vectors, VECTORS)
    assert index.nearest(VECTORS[:2], 50).rows.shape == (2, 20)
    assert index.nearest(VECTORS[:0], 3).rows.shape == (0, 0)


def test_the_same_bytes_are_kept_once(store: Store) -> None:
    add(store, 1, 2)
    add(store, 1, prefix="/b")
    assert len(stored_files(store)) == 3 and open_search(store).ntotal == 2
    assert files_of(store, b"1") == [Path("/a/1.jpg"), Path("/b/1.jpg")]
    assert remove_files(store, [Path("/a/1.jpg"), Path("/a/7.jpg")]) == {Path("/a/1.jpg"): 1, Path("/a/7.jpg"): 0}
    assert open_search(store).ntotal == 2
    assert remove_files(store, [Path("/b")]) == {Path("/b"): 1}
    assert open_search(store).ntotal == 1 and not vectors_by_digest(store, [b"1"])


def test_a_changed_file_takes_its_new_content(store: Store) -> None:
    add(store, 1, 2)
    add_files(store, {Path("/a/1.jpg"): b"new"}, {b"new": VECTORS[3]})
    assert stored_files(store)[Path("/a/1.jpg")] == b"new" and not vectors_by_digest(store, [b"1"])
    assert open_search(store).ntotal == 2


def test_removing_a_folder_spares_its_namesakes(store: Store) -> None:
    add(store, 1, prefix="/a")
    add(store, 2, prefix="/a%")
    add(store, 3, prefix="/ab")
    assert remove_files(store, [Path("/a")]) == {Path("/a"): 1}
    assert set(stored_files(store)) == {Path("/a%/2.jpg"), Path("/ab/3.jpg")}


def test_unreadable_and_strangely_named_files(store: Store) -> None:
    strange = Path(os.fsdecode(b"/a/\xff'; DROP TABLE files; --.jpg"))
    add_files(store, {strange: b"x"}, {b"x": None})
    assert unreadable_files(store) == [strange] and open_search(store).ntotal == 0
    assert vectors_by_digest(store, [b"x"]) == {b"x": None}


def test_another_extractor_is_refused(store: Store) -> None:
    with pytest.raises(UserError, match="another run or checkpoint"), open_store(store.folder, "other", 8):
        pass


def test_an_index_that_may_be_replaced_is_emptied_for_another_extractor(store: Store) -> None:
    add(store, 1, 2)
    open_search(store)
    with open_store(store.folder, "other", 4, replace=True) as other:
        assert open_search(other).ntotal == 0 and not vectors_by_digest(other, [b"1"])
        add_files(other, {Path("/a/1.jpg"): b"1"}, {b"1": VECTORS[1, :4]})
        assert open_search(other).ntotal == 1
    with open_store(store.folder, "other", 4, replace=True) as again:
        assert open_search(again).ntotal == 1


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE about SET value = 'some' WHERE key = 'changes'",
        "UPDATE about SET value = x'38' WHERE key = 'dimensions'",
        "DELETE FROM about WHERE key = 'changes'",
        "DROP TABLE contents",
    ],
)
def test_a_database_that_makes_no_sense_is_named(store: Store, damage: str) -> None:
    add(store, 1, 2)
    store.database.execute("PRAGMA foreign_keys = OFF")
    store.database.execute(damage)
    with pytest.raises(UserError, match="cannot be used"), open_store(store.folder, "extractor", 8) as opened:
        open_search(opened), count_changes(opened)


@pytest.mark.parametrize("content", [b"", None])
def test_an_empty_database_is_no_index_of_nothing(tmp_path: Path, content: bytes | None) -> None:
    """It was taken for a new one: a search found 0 references."""
    if content is None:
        with closing(sqlite3.connect(tmp_path / "references.sqlite")) as database:
            database.execute("PRAGMA journal_mode = WAL")
    else:
        (tmp_path / "references.sqlite").write_bytes(content)
    with pytest.raises(UserError, match=r"references\.sqlite is empty"), open_store(tmp_path, "extractor", 8, new=False):
        pass
    with open_store(tmp_path, "extractor", 8) as store:
        add(store, 1)
    with open_store(tmp_path, "extractor", 8, new=False) as store:
        assert len(stored_files(store)) == 1


def test_a_full_disk_is_no_damage(store: Store) -> None:
    add(store, 1)
    pages = store.database.execute("PRAGMA page_count").fetchone()[0]
    full = pytest.raises(UserError, match=r"the disk is full\. .* same command again")
    with full as caught, open_store(store.folder, "extractor", 8) as other:
        other.database.execute(f"PRAGMA max_page_count = {pages}")
        add(other, *range(2, 20), prefix="/a long name" * 40)
    assert "remove" not in str(caught.value)
    assert len(stored_files(store)) == 1


def test_a_transaction_that_sqlite_has_ended_hides_no_full_disk(store: Store) -> None:
    """On a disk that is really full SQLite rolls back by itself; the message was that the index is damaged and to be removed."""
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL

    class Failing(dict[bytes, Any]):
        def items(self) -> Any:
            other.database.execute("ROLLBACK")
            raise full

    with pytest.raises(UserError, match="the disk is full"), open_store(store.folder, "extractor", 8) as other:
        add_files(other, {}, Failing())
    with pytest.raises(UserError, match="the disk is full"), open_store(store.folder, "extractor", 8) as other:
        keep_queries(other, Failing())


def test_another_process_that_writes_is_no_damage(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("image_copies.matching.index.store.LOCK_TIMEOUT_SECONDS", 0.1)
    store.database.execute("BEGIN IMMEDIATE")
    waiting = pytest.raises(UserError, match=r"another process has been writing for 0\.1 s")
    with waiting as caught, open_store(store.folder, "extractor", 8):
        pass
    assert "remove" not in str(caught.value)


def test_flipped_bytes_of_a_vector_are_found(store: Store) -> None:
    add(store, 1, 2)
    bytes_of_2 = VECTORS[2].tobytes()
    flipped = bytes([bytes_of_2[0] ^ 1]) + bytes_of_2[1:]
    store.database.execute("UPDATE contents SET vector = ? WHERE digest = x'32'", (flipped,))
    with pytest.raises(UserError, match=r"damaged vector, of /a/2\.jpg.*match remove"):
        open_search(store)
    remove_files(store, [Path("/a/2.jpg")])
    add(store, 2)
    assert open_search(store).ntotal == 2


def test_a_failed_change_leaves_nothing(store: Store) -> None:
    add(store, 1)
    with pytest.raises(ValueError, match="not finite"):
        add_files(store, {Path("/a/2.jpg"): b"2"}, {b"2": VECTORS[2], b"3": np.full(8, np.nan, np.float32)})
    assert not vectors_by_digest(store, [b"2"]) and len(stored_files(store)) == 1


WRITER = """
import sys
from pathlib import Path
import numpy as np
from image_copies.matching.index.search import open_search
from image_copies.matching.index.store import *
with open_store(Path(sys.argv[1]), "extractor", 8) as store:
    print("open", flush=True)
    for turn in range(100_000):
        rows = range(turn * 50, turn * 50 + 50)
        vectors = np.repeat(np.array(rows, np.float32)[:, None], 8, axis=1)
        files = {Path(f"/{turn}/{row}.jpg"): b"%d" % row for row in rows}
        add_files(store, files, {b"%d" % row: vector for row, vector in zip(rows, vectors)})
        open_search(store)
        if turn % 3 == 2:
            remove_files(store, [Path(f"/{turn - 1}")])
"""


def test_a_kill_at_any_moment_leaves_a_whole_state(tmp_path: Path) -> None:
    """Each turn adds 50 files or removes 50: any other number would be half a change."""
    for delay in (0.0, 0.05, 0.3):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"open\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with sqlite3.connect(tmp_path / "references.sqlite") as plain:
            assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        with open_store(tmp_path, "extractor", 8) as store:
            files = stored_files(store)
            assert len(files) % 50 == 0
            index = open_search(store)
            assert index.ntotal == len(files)
            for path, digest in list(files.items())[::37]:
                found = index.nearest(np.full((1, 8), int(digest), np.float32), 1)
                assert found.values[0, 0] == 0 and files_of(store, index.digests[found.rows[0, 0]]) == [path]


def test_what_changed_is_searched_in_its_new_state(store: Store) -> None:
    add(store, *range(16))
    add_files(store, {Path("/a/bad.jpg"): b"bad"}, {b"bad": None})
    remove_files(store, [Path("/a/3.jpg"), Path("/a/12.jpg"), Path("/a/bad.jpg")])
    add(store, 3)  # under a new number
    index = open_search(store)
    kept = [row for row in range(16) if row != 12]
    assert index.ntotal == len(set(index.digests)) == 15
    found = index.nearest(VECTORS[kept], 15)
    names = [files_of(store, index.digests[row])[0].name for row in found.rows[:, 0]]
    assert names == [f"{row}.jpg" for row in kept] and np.allclose(found.values[:, 0], 0)
    assert all(sorted(row) == list(range(15)) for row in found.rows.tolist())


def test_an_index_of_other_tables_is_refused(store: Store) -> None:
    add(store, 1, 2, 3)
    store.database.execute("ALTER TABLE contents DROP COLUMN checksum")
    refused = pytest.raises(UserError, match=r"no such column: .*add the images again")
    with refused, open_store(store.folder, "extractor", 8, new=False) as opened:
        open_search(opened)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jpg")
    with pytest.raises(UserError, match="is not a regular file"):
        digest_of(tmp_path / "a.jpg")


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="the kernel's log cannot be read here")
@pytest.mark.parametrize("name", ["a.jpg", "a.tar"])
def test_a_link_to_a_file_that_never_ends_is_not_read_to_its_end(tmp_path: Path, name: str) -> None:
    """A search for copies waited for the kernel's next message."""
    (tmp_path / name).symlink_to("/proc/kmsg")
    (tmp_path / "b.jpg").touch()
    code = (
        "import sys; from pathlib import Path; from image_copies.data.sources.discovery import discover\n"
        "from image_copies.matching.index.store import digest_of\n"
        "for path in discover([Path(sys.argv[1])]).paths: digest_of(path)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)


def test_an_index_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match=r"nothere holds no index\. Make it with: .* add DIR --index"),
        open_store(tmp_path / "nothere", "extractor", 8, new=False),
    ):
        pass
    assert not (tmp_path / "nothere").exists()
