"""The rows of claims 2 to 9 without their trainings: arms that are valid models, each measured once, and a row for each claim."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from measurements import Measurements

from image_copies.data.errors import UserError
from image_copies.models.training.model_settings import ModelSettings
from image_copies.studies.claims import isc2021, training
from image_copies.studies.claims.claim import Arm, Claim, Figures, Measured
from image_copies.studies.claims.row import Difference, Row
from image_copies.studies.claims.training import read_photographs
from image_copies.studies.ideal import claims as ideal
from image_copies.studies.measure_claims import is_asked_for, make_parser, measure_claims
from image_copies.studies.measure_claims import list_claims as list_all_claims
from image_copies.studies.multigrain import claims as multigrain
from image_copies.studies.svmax import claims as svmax

OF_CLASSES = ("top1", "top1_best_p", "top1_3", "whitened_top1", "whitened_recall", "whitened_copies")
OF_ALL = (
    "domain",
    "joined",
    "upright",
    "recall",
    "spread",
    "copies",
    "best_p",
    "larger_best",
    "larger_3",
    "0°",
    "90°",
    "180°",
    "270°",
    "turned",
)
FIGURES = (*OF_CLASSES, *OF_ALL, "gradient_first", "gradient_last")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> training.Bench:
    for name, value in {
        "CLASSES": 3,
        "TRAINING_PER_CLASS": 4,
        "HELD_OUT_PER_CLASS": 4,
        "OVERLAYS": 2,
        "DIMENSIONS": 8,
    }.items():
        monkeypatch.setattr(training, name, value)
    monkeypatch.setattr(multigrain, "COPIED_IMAGES", 4)
    return training.Bench(tmp_path, 10, 5, None, descriptor={"backbone": "test_efficientnet"}, side=32, batch=12)


@pytest.fixture
def photographs(bench: training.Bench, tmp_path: Path) -> training.Bench:
    """Class folders that stand for photographs: four classes of four images."""
    found = [*bench.sets.train.images.paths, *bench.sets.held_out.images.paths]
    for number, path in enumerate(found[:16]):
        folder = tmp_path / "photographs" / f"class {number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name).write_bytes(path.read_bytes())
    return training.Bench(tmp_path, 10, 5, tmp_path / "photographs", descriptor={"backbone": "test_resnet"}, side=32, batch=12)


def list_claims(bench: training.Bench) -> list[Claim]:
    groups = (multigrain, svmax, ideal) if bench.photographs is None else (ideal,)
    return [claim for group in groups for claim in group.list_claims(bench)]


def judge_all(bench: training.Bench) -> list[Row]:
    """The rows of drawn figures; every arm is a valid model, and one name is one training."""
    arms: dict[str, Any] = {}
    rng, rows = np.random.default_rng(0), list[Row]()
    for claim in list_claims(bench):
        for arm in claim.arms:
            assert arms.setdefault(arm.name, arm.about) == arm.about
            json.dumps(arm.about)
            if "settings" in arm.about:
                stage = {"image_size": 48, "batch_size": arm.about["batch"]}
                ModelSettings.model_validate(arm.about["settings"] | {"stages": [stage]})
        rows.append(
            claim.judge({arm.name: {figure: rng.uniform(0.6, 0.9, 5).tolist() for figure in FIGURES} for arm in claim.arms})
        )
        assert (rows[-1].number, rows[-1].claim) == (claim.number, claim.text)
    assert len({(row.number, row.claim) for row in rows}) == len(rows)
    return rows


def test_every_row_is_made_of_arms_that_can_be_trained(bench: training.Bench) -> None:
    rows = judge_all(bench)
    assert {row.number.split(",")[0] for row in rows} == {
        "2", "3", "4a", "4b", "5a", "5b", "5c", "5d", "6a", "6b", "6c", "7", "8", "8b", "8c", "9b", "9d",
    }  # fmt: skip
    assert all("10 steps of" in row.ran or row.number == "8c" for row in rows)  # the budget is stated


def test_claim_9_has_rows_on_photographs(photographs: training.Bench) -> None:
    rows = judge_all(photographs)
    assert {row.number for row in rows} == {f"9{number}, photographs" for number in ("a", "b", "d", "h", "i", "k, premise")}
    assert all(row.number.endswith(", photographs") and "photographs, 2 classes with " in row.ran for row in rows)
    assert photographs.classes == (2, 2)
    assert 0 < len(photographs.sets.held_out) < len(photographs.sets.train)


def test_an_arm_is_trained_and_measured(bench: training.Bench, tmp_path: Path) -> None:
    """λ .5 at a tiny budget: all figures of MultiGrain's rows, among them the classes' share of the gradient (figure C.1)."""
    claim = next(claim for claim in multigrain.list_claims(bench) if claim.number == "5c")
    arm = next(arm for arm in claim.arms if arm.name == "repeated, λ 0.5")
    store = Measurements.open(tmp_path / "claims.json")
    figures = store.measure(arm.name, arm.about, range(1), arm.measure)[0]
    assert 0 < figures["gradient_first"] < 1 and 0 < figures["gradient_last"] < 1 and 0 <= figures["top1"] <= 1
    assert store.measure(arm.name, arm.about, range(1), lambda seed: {})[0] == figures


def test_the_class_of_a_photograph_is_the_folder_it_had(tmp_path: Path) -> None:
    sources = [
        ("P1", "Caltech101", "101_ObjectCategories/panda/1.jpg"),
        ("P2", "Caltech101", "101_ObjectCategories/BACKGROUND_Google/2.jpg"),
        ("P3", "clothing-dataset-small", "test/hat/3.jpg"),
        ("P4", "clothing-dataset-small", "train/hat/4.jpg"),
        ("P5", "others", "train/hat/5.jpg"),
    ]
    rows = "".join(f"{name}.jpg\ta/{repository}\t{path}\n" for name, repository, path in sources)
    (tmp_path / "SOURCES.tsv").write_text(f"file\trepository\tpath\n{rows}")
    found = read_photographs(tmp_path)
    assert found.images.ids == ["P3", "P4", "P1"] and found.names == ["hat", "panda"] and found.labels.tolist() == [0, 0, 1]


def test_the_cost_of_the_regulariser_is_a_share_of_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svmax, "TIMING_REPEATS", 1)
    monkeypatch.setattr(svmax, "COST_SIZES", svmax.COST_SIZES[:1])
    shares = svmax._time_regulariser(0, "test_efficientnet", 48)
    assert len(shares) == 1 and all(0 < share < 10 for share in shares.values())


def test_a_claim_that_cannot_be_measured_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def diverge(seed: int) -> Figures:
        raise UserError("the loss is NaN")

    def judge(measured: Measured) -> Row:
        return Row("7", "it helps", "table 1", "shapes", "a, b", Difference.of(measured["sound"]["recall"]), 0.02)

    sound = Arm("sound", {}, lambda seed: {"recall": 0.5 + seed / 100})
    claims = [
        Claim("7", "it diverges", (Arm("diverging", {}, diverge),), judge),
        Claim("7", "it helps", (sound,), judge),
    ]
    store = Measurements.open(tmp_path / "claims.json")
    rows, failed = measure_claims(store, claims, 5)
    assert failed == ["7: it diverges"]
    assert "the loss is NaN" in capsys.readouterr().out and [row.verdict for row in rows] == ["holds"]


@pytest.mark.parametrize(
    ("only", "chosen"),
    [
        (["9"], {"9d", "9k, premise", "9d, photographs"}),
        (["9d"], {"9d", "9d, photographs"}),
        (["9k,premise"], {"9k, premise"}),
        (["photographs"], {"9d, photographs", "7, photographs"}),
        (["7"], {"7", "7b", "7, photographs"}),
        (["7b", "10"], {"7b", "10"}),
        (["1"], {"1"}),
    ],
)
def test_rows_are_asked_for_by_number_or_by_images(only: list[str], chosen: set[str]) -> None:
    numbers = {"1", "7", "7b", "7, photographs", "9d", "9k, premise", "9d, photographs", "10"}
    assert {number for number in numbers if is_asked_for(number, only)} == chosen


def test_a_claim_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no claim is called 99\. There are 1 2 3"):
        list_all_claims(tmp_path, make_parser().parse_args(["--only", "99"]), 5)


def test_claims_10_to_12_come_from_the_same_runs(tmp_path: Path) -> None:
    for part in ("training_images", "reference_images", "query_images"):
        (tmp_path / part).mkdir()
        (tmp_path / part / f"{part[0].upper()}00000.png").write_bytes(b"")
    claims = isc2021.list_claims(isc2021.CopyBench(tmp_path, tmp_path, 400, 5))
    assert [claim.number for claim in claims] == ["10", "11", "12a", "12b"]
    assert {arm.name for claim in claims for arm in claim.arms} == {"copies"}
    figures: tuple[str, ...] = ("drip", "direct", "nfnet", "none", "best_member", "method1", "method2")
    figures += ("method1_small", "method2_small")
    rows = [claim.judge({"copies": {figure: [0.1 * number] * 5 for number, figure in enumerate(figures)}}) for claim in claims]
    assert [row.difference.mean for row in rows] == pytest.approx([-0.1, -0.1, 0.2, 0.1])
    assert "ensemble 0.300 ± 0.000, efficientnet 0.000 ± 0.000, nfnet 0.200 ± 0.000, the better one 0.400" in rows[1].measured
    assert all("400 steps of 96" in row.ran and row.learnt == pytest.approx((0.3, 0.03, "best µAP")) for row in rows)
