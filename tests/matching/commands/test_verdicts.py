"""What was found out of pictures and pairs is kept by their contents: a later search gives what one from nothing gives."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from image_copies.data.procedural import draw_picture
from image_copies.matching import pairs
from image_copies.matching.commands import searching
from image_copies.matching.files import originals
from image_copies.matching.groups import planning
from image_copies.matching.index import verdicts
from image_copies.matching.index.store import digest_of, open_store
from image_copies.matching.index.verdicts import Verdicts
from image_copies.matching.pair import Pair
from image_copies.matching.verification import recompression
from image_copies.matching.verification.edits import Comparison
from image_copies.matching.views import Looks
from image_copies.models.inference import graph
from image_copies.pipeline.match import main
from tests.folders import read_tree

DATABASE = Path("matches/index/references.sqlite")
LOOKS = [  # all that reads pixels after a picture has its vector
    (pairs, "verify"),
    (Pair, "judge"),
    (planning, "read_content_facts"),
    (originals.EditComparer, "_add_detail"),
    (recompression, "follow_by_compression"),
    (recompression, "find_coding"),
    (Looks, "views"),
]


@pytest.fixture
def album(own_desk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four pictures and edited copies of three, and the current folder around it."""
    monkeypatch.chdir(own_desk)
    album = Path("album")
    album.mkdir()
    for seed in range(3):
        picture = Image.fromarray(draw_picture(np.random.default_rng(seed), 256))
        picture.save(album / f"{seed}.png")
        picture.resize((192, 192)).save(album / f"{seed} small.jpg", quality=85)
    Image.open(album / "1.png").crop((16, 16, 240, 256)).save(album / "cut.jpg", quality=90)
    Image.open(album / "2.png").rotate(90).save(album / "turned.png")
    shutil.copy(album / "0.png", album / "same.png")
    Image.fromarray(draw_picture(np.random.default_rng(8), 256)).save(album / "alone.png")
    return album


def search(*options: str, output: str = "matches") -> dict[str, bytes]:
    """Search the album, and return the tables that are written, by their names."""
    assert main(["album", "--verify", "5", "--views", "--quiet", "--output", output, *options]) == 0
    return {name: content for name, content in read_tree(Path(output)).items() if name.endswith(".csv")}


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of LOOKS that were called."""
    called = list[str]()

    def note(name: str, work: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            called.append(name)
            return work(*arguments, **named)

        return call

    for where, name in LOOKS:
        monkeypatch.setattr(where, name, note(name, getattr(where, name)))
    return called


def touch() -> None:
    os.utime("album/2 small.jpg", (1, 1))
    Path("album/1.xmp").write_text("", encoding="utf-8")  # a companion


def change() -> None:
    Image.open("album/2.png").resize((200, 200)).save("album/new.jpg")
    Path("album/0 small.jpg").rename("album/a.jpg")
    Path("album/cut.jpg").unlink()
    Image.fromarray(draw_picture(np.random.default_rng(9), 300)).save("album/1 small.jpg")
    with closing(sqlite3.connect(DATABASE)) as database, database:
        database.execute("UPDATE verdicts SET answer = CAST(replace(CAST(answer AS TEXT), 'certain', 'likely!') AS BLOB)")


def test_a_later_search_gives_what_one_from_nothing_gives_and_forgets_what_is_gone(album: Path, looked: list[str]) -> None:
    search()
    assert set(looked) == {name for _, name in LOOKS}
    touch()
    looked.clear()
    again = search()
    assert looked == [] and again == search(output="fresh")
    change()
    assert search() == search(output="fresh after changes")
    with closing(sqlite3.connect(DATABASE)) as database:
        known = {digest for row in database.execute("SELECT first, second FROM verdicts") for digest in row}
    assert known and known <= {digest_of(path) for path in album.iterdir()}


def test_other_settings_need_few_further_looks(album: Path, looked: list[str]) -> None:
    search()
    looked.clear()
    again = search("--keep", "path:*small*")
    assert not {"verify", "judge", "read_content_facts", "views"} & set(looked)
    assert again == search("--keep", "path:*small*", output="fresh")


def test_verdicts_of_another_version_are_dropped(album: Path, looked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever changes a rule raises `VERSION`; an index of before has no verdicts at all."""
    first = search()
    monkeypatch.setattr(verdicts, "VERSION", verdicts.VERSION + 1)
    looked.clear()
    assert search() == first and set(looked) == {name for _, name in LOOKS}
    with closing(sqlite3.connect(DATABASE)) as database, database:
        database.execute("DROP TABLE verdicts")
        database.execute("DELETE FROM about WHERE key = 'verdicts'")
    assert search() == first


def test_views_of_another_graph_are_made_again(album: Path, looked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    first = search()
    monkeypatch.setattr(graph, "digest_file", lambda path: "of another graph")
    looked.clear()
    assert search() == first and "views" in looked


def test_a_search_that_was_killed_leaves_whole_stages(album: Path, looked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for where, name in ((pairs.PairJudge, "verify_all"), (searching, "make_groups")):
        with monkeypatch.context() as patched:
            patched.setattr(where, name, None)
            with pytest.raises(TypeError):
                search()
        looked.clear()
    again = search()
    assert not {"views", "verify"} & set(looked)
    assert again == search(output="fresh")


FOUND = Comparison(
    np.linspace(0, 1, 9).reshape(3, 3), covered=(True, False), density=(1 / 3, 3.0), new_detail=(0.0, float("nan"))
)


@pytest.mark.parametrize("answer", [None, 0.1 + 0.2, ["a", None], FOUND])
def test_what_was_found_is_found_again(answer: object, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a")
    with open_store(tmp_path / "index", "extractor", 8) as store:
        for round_number in range(2):
            known = Verdicts(store.database, [path])
            known.know([(path, b"digest")])
            found = known.ask((path,), "what?", [FOUND], [lambda: answer, lambda: 1 / 0][round_number], Comparison)
            known.keep()
    assert repr(found) == repr(answer)


@pytest.mark.parametrize("given", [[1], [FOUND]])
@pytest.mark.parametrize("changed", [False, True])
def test_what_was_found_of_a_file_that_has_changed_since_is_not_kept(given: list[object], changed: bool, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a")
    with open_store(tmp_path / "index", "extractor", 8) as store:
        known = Verdicts(store.database, [path])
        known.know([(path, b"digest")])
        if changed:
            path.write_bytes(b"another")
        known.ask((path,), "what?", given, lambda: 1)
        known.keep()
        assert known.ask((path,), "what?", given, lambda: 2) == (2 if changed else 1)
        assert known.ask((path,), "what else?", given, lambda: 3) == known.ask((path,), "what?", ["other"], lambda: 3) == 3
