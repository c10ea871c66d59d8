"""What a search says of its plan."""

from dataclasses import replace
from pathlib import Path

import pytest

from image_copies.matching.files.plan import PlanRow
from image_copies.matching.output import Output
from image_copies.matching.results.report import _write_plan


def test_notes_are_offered_to_be_written_beside_files_that_may_be_touched_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--merge-metadata was offered for copies of protected files, next to which nothing is written."""
    kept = PlanRow(1, "keep", tmp_path / "a.jpg", tmp_path / "a.jpg")
    copy = PlanRow(1, "review", tmp_path / "b.jpg", kept.file, merged="a caption")
    for first, offered in ((kept, True), (replace(kept, protected=True), False)):
        _write_plan(tmp_path, [first, copy], Output())
        assert ("1 to look at (1 only for notes" in capsys.readouterr().out) is offered
