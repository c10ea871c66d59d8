"""What is left of a run: measured and said until all is done."""

import json
import re
import shutil
from pathlib import Path

import pytest

from image_copies.pipeline.steps.definitions import STEPS
from image_copies.pipeline.steps.time_left import report_time_left
from tests.runs import copy_run


def test_what_is_left_is_said_until_all_is_done(small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = copy_run(small_run, tmp_path / "run")

    def left() -> set[str]:
        report_time_left(run)
        return {step[:2] for step, seconds in json.loads(run.paths.time_left.read_text()).items() if seconds}

    assert left() == {"04", "05", "06"}
    capsys.readouterr()
    run.paths.checkpoint("one", 1).unlink()
    run.paths.embeddings("one", "query").unlink()
    assert left() == {"01", "02", "03", "04", "05", "06"}
    said = capsys.readouterr().out
    assert re.fullmatch(r"about .* here, and [0-9.]+ GiB of disk, of [0-9.]+ GiB free\n", said)
    shutil.rmtree(run.paths.queries)
    assert left() == {"00", "01", "02", "03", "04", "05", "06"}
    for product in (product for step in STEPS for product in step.products(run)):
        for path in product.outputs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    capsys.readouterr()
    report_time_left(run)
    assert not run.paths.time_left.exists() and capsys.readouterr().out == ""
