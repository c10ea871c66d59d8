"""Learning curves: read by column name, whatever else the file holds."""

import pandas as pd
import pytest

from image_copies.submissions.report.charts import draw_training, list_stages

CURVE = pd.DataFrame(
    {
        "stage": [1, 1, 2],
        "classes": [300, 300, 700],
        "a_new_figure": [30.0, 29.0, 28.0],
        "loss": [20.0, 10.0, 15.0],
        "validation": [None, 0.2, 0.4],
        "mean_cosine": [None, 0.3, 0.2],
        "effective_rank": [None, 20.5, None],
        "ended_by": [None, "loss", "plateau"],
    }
)


def test_stages_are_read_by_name() -> None:
    first, second = list_stages(CURVE)
    assert (first.stage, first.epochs, first.settings, first.loss, first.validation, first.ended_by) == (
        1, 2, {"classes": 300.0}, 10.0, 0.2, "loss",
    )  # fmt: skip
    assert (first.cosine, first.rank, second.cosine, second.rank) == (0.3, 20.5, 0.2, None)
    assert (second.epochs, second.loss, second.validation, second.ended_by) == (1, 15.0, 0.4, "plateau")


def test_stage_starts_are_marked() -> None:
    one, two = (draw_training("net", part).count("stroke-dasharray") for part in (CURVE[:2], CURVE))
    assert two > one


@pytest.mark.parametrize(
    "missing", [["stage"], ["loss"], ["validation"], ["loss", "validation"], ["stage", "ended_by", "classes"]]
)
def test_columns_may_be_missing(missing: list[str]) -> None:
    part = CURVE.drop(columns=missing)
    assert "<svg" in draw_training("net", part)
    assert sum(stage.epochs for stage in list_stages(part)) == 3


def test_figures_that_are_no_numbers_are_left_out() -> None:
    broken = CURVE.assign(loss=["nan", "inf", "oops"], validation=None)
    assert list_stages(broken)[0].loss is None and "<svg" in draw_training("net", broken)


def test_a_name_with_markup_stays_text() -> None:
    chart = draw_training('<img src=x onerror="alert(1)"> $x$', CURVE)
    assert "<img" not in chart
