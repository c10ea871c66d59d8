"""Objectives are compared at the rate that was best for each on a seed that does not count."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import objectives
import pytest
from measurements import Measurements

SCORES = {"": (0.1, 0.4, 0.3, 0.2), "infonce": (0.1, 0.1, 0.1, 0.2)}  # at each rate


def test_the_rate_is_chosen_on_another_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = []

    def train(_: Any, __: str, seed: int, ___: str, drip: bool, rate: float, **values: Any) -> tuple[str, float, int]:
        assert drip == (not values)
        kind = values["objective"]["kind"] if values else ""
        trained.append((kind, rate, seed))
        return kind, rate, seed

    def measure_training(_: Any, path: tuple[str, float, int]) -> float:
        kind, rate, seed = path
        return SCORES[kind][objectives.RATES.index(rate)] + 0.01 * seed * (kind == "")

    monkeypatch.setattr(objectives, "train", train)
    monkeypatch.setattr(objectives, "measure_training", measure_training)
    bench: Any = SimpleNamespace(root=Path("tiny"), data=SimpleNamespace(training=SimpleNamespace(ids=[])), steps=4, seeds=3)
    bench.data.root = bench.root
    objectives.compare(bench, Measurements.open(tmp_path / "results.json"))
    assert [(rate, seed) for kind, rate, seed in trained if not kind and seed] == [
        (objectives.RATES[1], seed) for seed in (1, 2, 3)
    ]
    printed = capsys.readouterr().out
    assert "drip ArcFace: 0.420 ± 0.010 at rate 0.001" in printed and "InfoNCE: 0.200 ± 0.000 at rate 0.004" in printed
    assert "drip ArcFace − InfoNCE: +0.220 ± 0.025" in printed
    count = len(trained)
    objectives.compare(bench, Measurements.open(tmp_path / "results.json"))
    assert len(trained) == count
