"""The journal and the notes of the trash are whole, whatever happens while they are written."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from image_copies.data.errors import UserError
from image_copies.matching.files.journal import FileStep, Journal
from image_copies.matching.files.moving import write_note


def begin(journal: Journal, name: str) -> None:
    journal.begin(FileStep("move", Path(f"/a/{name}"), Path(f"/b/{name}"), Path("/a/kept"), "0" * 64))


def test_a_full_disk_leaves_no_half_line_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line stayed in a buffer, and closing the journal failed again, with a traceback."""
    journal = Journal(tmp_path / "journal.jsonl")
    begin(journal, "first")
    written, taken = (tmp_path / "journal.jsonl").read_bytes(), list[int]()
    file = journal._file

    class Full:
        """A file that takes 10 bytes and no more."""

        def write(self, content: bytes) -> int:
            if taken:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            taken.append(file.write(content[:10]))
            return taken[-1]

        def __getattr__(self, name: str) -> Any:
            return getattr(file, name)

    monkeypatch.setattr(journal, "_file", Full())
    with pytest.raises(UserError, match=r"journal\.jsonl cannot be written: the disk is full.*make room"):
        begin(journal, "second")
    journal.close()
    assert taken == [10] and (tmp_path / "journal.jsonl").read_bytes() == written
    assert [step.file for step in Journal(tmp_path / "journal.jsonl").in_state("begin")] == [Path("/a/first")]


def test_a_note_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill left an empty note, which the next run took for a finished one."""

    def fail(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        write_note(tmp_path / "info" / "a.jpg.trashinfo", tmp_path / "a.jpg")
    assert not list((tmp_path / "info").iterdir())


DONE = '{{"state": "done", "number": {}}}'
WRONG = [(DONE.format(number), "") for number in ("1e999", "1.5", "null", '"1"')]
WRONG += [("7", "it is no object"), (DONE.format(7), "step 7 was not begun"), ('{"state": "lost", "number": 7}', "")]


@pytest.mark.parametrize(("line", "said"), WRONG)
def test_a_line_that_is_none_of_a_journal_is_named_in_one_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(UserError, match=f"line 1 is not a line of a journal .*{said}") as caught:
        Journal(path)
    assert "\n" not in str(caught.value)
