"""A pipe in the place of a file is named, not waited for: reading it would never end."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from image_copies.data.errors import UserError
from image_copies.data.files import read_json
from image_copies.data.sources.discovery import discover
from image_copies.matching.files.journal import Journal
from image_copies.matching.files.plan import read_plan
from image_copies.submissions.ensemble.projection import load_projection
from image_copies.submissions.ensemble.variant import read_choice
from image_copies.submissions.formats.submission import open_submission
from image_copies.submissions.scoring.breakdown import read_edits
from image_copies.submissions.vectors.files import read_vectors


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    """A pipe; a test that waits for it ends."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes with names here")

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(10)
    os.mkfifo(tmp_path / "pipe")
    yield tmp_path / "pipe"
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


READERS = [Journal, read_plan, load_projection, read_choice, open_submission, read_edits, read_vectors]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_no_reader_waits_for_a_pipe(pipe: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises(UserError, match="pipe"):
        read(pipe)


def test_lists_and_descriptions_do_not_wait_either(pipe: Path) -> None:
    with pytest.raises(UserError, match="pipe cannot be read"):
        discover([Path(f"@{pipe}")])
    assert read_json(pipe) == {}
