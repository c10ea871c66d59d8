"""A second search of an unchanged folder says what the first one said; whatever has changed is searched again."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from image_copies.data.procedural import draw_picture
from image_copies.matching.commands import searching
from image_copies.pipeline.match import main
from tests.folders import read_tree

STANDS = "nothing has changed since the last search"
RESULTS = Path("matches")


@pytest.fixture
def search(own_desk: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Search the folder `album` of five pictures, one of them a copy, on a desk of its own."""
    monkeypatch.chdir(own_desk)
    Path("album").mkdir()
    Path("album/3.xmp").write_text("a", encoding="utf-8")
    for seed in range(4):
        Image.fromarray(draw_picture(np.random.default_rng(seed), 200)).save(f"album/{seed}.png")
    Image.open("album/1.png").resize((150, 150)).save("album/copy.png")

    def run(*options: str) -> int:
        return main(["album", "--checkpoint", str(checkpoint), "--threshold", "-0.02", *options])

    return run


def refuse(*_: object) -> None:
    raise AssertionError("searched again")


def test_what_has_not_changed_is_not_searched_again(
    search: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    search("--json")
    first, before = capsys.readouterr(), read_tree(RESULTS)
    monkeypatch.setattr(searching, "_find_and_group", refuse)
    search("--json")
    second = capsys.readouterr()
    assert STANDS in second.err and STANDS not in first.err and read_tree(RESULTS) == before
    said, again = ([line for line in each.out.splitlines() if '"added"' not in line] for each in (first, second))
    assert said == again and any('"match"' in line for line in said), "the index is said to have embedded nothing"
    assert "1 group of 2 files" in first.err and "1 group of 2 files" in second.err


def touch() -> None:
    os.utime("album/2.png", (1, 1))


def edit() -> None:
    Image.fromarray(draw_picture(np.random.default_rng(9), 200)).save("album/2.png")


def add_companion() -> None:
    Path("album/copy.xmp").write_text("", encoding="utf-8")


def edit_companion() -> None:
    state = Path("album/3.xmp").stat()
    Path("album/3.xmp").write_text("b", encoding="utf-8")
    os.utime("album/3.xmp", ns=(state.st_atime_ns, state.st_mtime_ns))


def damage_results() -> None:
    (RESULTS / "plan.csv").write_text("", encoding="utf-8")


def lose_page() -> None:
    shutil.rmtree(RESULTS / "gallery")


def damage_notes() -> None:
    (RESULTS / "unchanged.json").write_text("{}", encoding="utf-8")


def decide() -> None:
    assert main(["decide", "album/1.png", "album/copy.png", "not-a-copy"]) == 0


@pytest.mark.parametrize("change", [touch, edit, add_companion, edit_companion, damage_results, lose_page, damage_notes, decide])
def test_whatever_has_changed_is_searched_again(
    change: Callable[[], None], search: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    search()
    change()
    capsys.readouterr()
    search()
    assert STANDS not in capsys.readouterr().out
    search()
    assert STANDS in capsys.readouterr().out


@pytest.mark.parametrize("way", ["move", "delete-to-trash"])
def test_a_plan_that_was_taken_back_changes_nothing(
    way: str, search: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The journal passed for a result, and a film that went with its picture for a changed one."""
    shutil.copy("album/2.png", "album/same.png")
    for name in ("2", "same"):
        Path(f"album/{name}.mov").write_bytes(b"film")
    search()
    assert main(["--apply", way]) == 0 and main(["--undo"]) == 0
    assert re.search(r"undo: [12] files? done, 0 left alone", capsys.readouterr().out)
    search()
    assert STANDS in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--keep", "oldest"], ["--threshold", "-0.01"], ["--stack"], ["--no-self"]])
def test_other_settings_are_another_search(
    options: list[str], search: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    search()
    capsys.readouterr()
    search(*options)
    assert STANDS not in capsys.readouterr().out


def test_a_search_that_was_killed_leaves_nothing_to_reuse(
    search: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(searching, "write_notes", refuse)
        with pytest.raises(AssertionError):
            search()
    capsys.readouterr()
    search()
    assert STANDS not in capsys.readouterr().out
