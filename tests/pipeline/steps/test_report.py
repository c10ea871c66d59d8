"""The report lists what the steps before 06 recorded."""

import json
from pathlib import Path

from image_copies.pipeline.steps.report import read_steps


def test_what_a_kill_left_of_a_manifest_is_no_step(tmp_path: Path) -> None:
    record = json.dumps({"seconds": 1.5, "code": "abc"})
    for name in ("00_augment", "01_train one", "06_score", ".06_score.json.host-1-x.part", ".02_embed.json.host-1-x.part"):
        (tmp_path / f"{name}.json").write_text(record)
    assert [step.step for step in read_steps(tmp_path)[0]] == ["00_augment", "01_train one"]
