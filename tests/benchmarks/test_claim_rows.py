"""The rows of claims 2 to 9 without their trainings: arms that are valid models, each measured once, and a row for each claim."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.settings import ModelSettings

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from claim_rows import ideal, multigrain, svmax, training
from claim_rows.store import Figures, Store, as_markdown

FIGURES = ("domain", "joined", "upright", "recall", "spread", "copies", "best_p", "larger_best", "larger_3")
OF_CLASSES = ("top1", "top1_best_p", "top1_3", "top1_own_p", "whitened_top1", "whitened_recall", "whitened_copies")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> training.Bench:
    for name, value in {"CLASSES": 3, "TRAINING_PER_CLASS": 2, "HELD_OUT_PER_CLASS": 4, "COPIED_IMAGES": 4}.items():
        monkeypatch.setattr(training, name, value)
    return training.Bench(tmp_path, 10, range(5), training.draw_shapes(tmp_path / "shapes"), Store(tmp_path / "claims.json"))


def test_every_row_is_made_of_arms_that_can_be_trained(bench: training.Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    arms: dict[tuple[str, int], Any] = {}
    rng = np.random.default_rng(0)

    def measured(
        self: Store, name: str, about: dict[str, Any], seeds: Sequence[int], work: Callable[[int], Figures]
    ) -> list[Figures]:
        assert arms.setdefault((name, about.get("steps", 0)), about) == about  # one name, one training
        if "settings" in about:
            stage = {"image_size": 48, "batch_size": about["batch"]}
            ModelSettings.model_validate({"descriptor": {"backbone": "b"}} | about["settings"] | {"stages": [stage]})
        return [{figure: float(rng.uniform(0.6, 0.9)) for figure in FIGURES + OF_CLASSES} for _ in seeds]

    monkeypatch.setattr(Store, "measure", measured)
    for group in (multigrain, svmax, ideal):
        bench.store.put(group.rows(bench))
    rows = bench.store.rows
    assert {row.number.split(",")[0] for row in rows} == {
        "2", "3", "4a", "4b", "4c", "5a", "5b", "6", "7", "7b", "7c", "8", "8b", "8c", *(f"9{letter}" for letter in "abcdefghi")
    }  # fmt: skip
    assert [row.number for row in rows if "cause" in row.number] == ["2, cause", "9d, cause"]
    assert len({(row.number, row.claim) for row in rows}) == len(rows)
    assert len(as_markdown(bench.store).splitlines()) > len(rows)


def test_the_images_of_a_domain_are_turned_as_the_test_images_are(bench: training.Bench) -> None:
    from data.decode import decode_rgb

    upright = decode_rgb(bench.shapes.train.images.paths[0])
    turned = ideal._turned(bench, 1).train
    assert (decode_rgb(turned.images.paths[0]) == np.rot90(upright)).all() and turned.images.ids == bench.shapes.train.images.ids


def test_the_cost_of_the_regulariser_is_a_share_of_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svmax, "TIMING_REPEATS", 1)
    monkeypatch.setattr(svmax, "COST_SIZES", svmax.COST_SIZES[:1])
    shares = svmax._time_regulariser(0)
    assert len(shares) == 1 and all(0 < share < 10 for share in shares.values())
