"""What the clock decided is said: in the training's output, beneath step 06's table, in its scores and its report."""

import json
from pathlib import Path

import pytest

from image_copies.models.training.ceiling import clock_notice, clock_notices
from image_copies.models.training.settings import StageSettings
from image_copies.pipeline.steps.score_table import NOTICES, print_scores

CEILING = StageSettings(epochs=29, minutes=1.5)


def test_a_stage_that_its_ceiling_ended_is_named() -> None:
    notice = clock_notice(CEILING, 3, 12, "minutes")
    assert notice == (
        "stage 3 was ended by its ceiling of 1.5 minutes after 12 of 29 epochs; on a faster machine the result differs"
    )


@pytest.mark.parametrize("ended_by", ["epochs", "loss", "plateau"])
def test_a_stage_within_its_ceiling_is_not(ended_by: str) -> None:
    assert clock_notice(CEILING, 1, 29, ended_by) == ""
    falling = CEILING.model_copy(update={"minutes": None, "last_learning_rate_factor": 0.1})
    assert clock_notice(falling, 1, 29, ended_by) == ""


def test_rates_that_fall_with_the_clock_are_named() -> None:
    falling = CEILING.model_copy(update={"last_learning_rate_factor": 0.1})
    assert "the learning rate of stage 2 followed its 1.5 minutes" in clock_notice(falling, 2, 29, "epochs")


def test_the_curve_says_it_after_the_training(tmp_path: Path) -> None:
    curve = tmp_path / "curve.csv"
    assert clock_notices(curve, [CEILING]) == []
    curve.write_text("stage,epoch,ended_by\n0,0,start\n1,28,\n1,29,epochs\n2,7,minutes\n9,1,minutes\n")
    (notice,) = clock_notices(curve, [CEILING, CEILING])
    assert notice.startswith("stage 2 was ended by its ceiling of 1.5 minutes after 7 of 29 epochs")


def test_the_table_of_scores_ends_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": "submitted", "submitted": True, "micro_average_precision": 0.5}
    row |= {"recall_at_precision_90": 0.5, "recall_at_rank_1": 0.5}
    scores = {"queries": 2, "references": 2, "true_pairs": 1, "variants": [row]}
    for notices in ([], ["one: stage 3 was ended by its ceiling"]):
        (tmp_path / "scores.json").write_text(json.dumps(scores | ({NOTICES: notices} if notices else {})))
        print_scores(tmp_path / "scores.json")
        assert ("its ceiling" in capsys.readouterr().out) == bool(notices)
