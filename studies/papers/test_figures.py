"""The figures of the papers on a few drawn pictures and untrained networks."""

import re
from pathlib import Path
from types import SimpleNamespace

import figures
import pytest
import torch
from claim_rows.shapes import write_disjoint_shapes
from figures import main

from image_copies.data.errors import UserError
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.models.training.curve import read_rows
from image_copies.pipeline.run.recipe import read_recipe

RECIPE = """
models:
  plain: &plain
    descriptor: {backbone: test_efficientnet, dimensions: 16}
    objective: {kind: contrastive}
    sampling: {kind: pk, per_class: 2, iterations: 2}
    edits: crop_and_flip
    workers: 0
    stages: [{image_size: 32, batch_size: 4, epochs: 2}]
  ideal: {<<: *plain, descriptor: {backbone: test_efficientnet, dimensions: 16, domains: split}}
"""


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """Four class folders of three pictures each."""
    root = tmp_path / "classes"
    for path in write_disjoint_shapes(tmp_path / "shapes", 2, 2, 3, seed=0, size=48, workers=1):
        for image_id, image in zip(path.images.ids, path.images.paths, strict=True):
            folder = root / image_id.rsplit("-", 1)[0]
            folder.mkdir(parents=True, exist_ok=True)
            image.rename(folder / image.name)
    return root


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    save_descriptor(
        tmp_path / "c.safetensors",
        Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8)),
        32,
        {},
    )
    return tmp_path / "c.safetensors"


def test_each_exponent_is_measured_at_each_size(
    classes: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--sizes", "32", "64", "--exponents", "1", "8"]
    main(
        [
            "exponents",
            "--checkpoint",
            str(checkpoint),
            "--classes",
            str(classes),
            *sizes,
            "--plot",
            str(tmp_path / "p.png"),
        ]
    )
    assert (tmp_path / "p.png").stat().st_size > 5000
    found = re.findall(r"s\* (\d+), p\* (\d): Recall@1 0\.\d{4}", capsys.readouterr().out)
    assert found == [("32", "1"), ("32", "8"), ("64", "1"), ("64", "8")]
    with pytest.raises(UserError, match="nothing to measure p"):
        main(["exponents", "--checkpoint", str(checkpoint), "--plot", str(tmp_path / "p.png")])


def test_recall_of_each_domain_is_in_the_curves_and_drawn(classes: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    folders = ["--root", str(classes), "--output", str(tmp_path / "runs"), "--plot", str(tmp_path / "p.png")]
    main(["domains", "--recipe", str(tmp_path / "recipe.yaml"), *folders])
    assert (tmp_path / "p.png").stat().st_size > 5000
    for name in ("plain", "ideal"):
        rows = read_rows(tmp_path / "runs" / name)
        assert len(rows) == 2 and all(
            0 <= float(row[column]) <= 1 for row in rows for column in ("0°", "270°", "joined")
        )
    curve = str(tmp_path / "runs" / "plain" / "curve.csv")
    with pytest.raises(UserError, match=r"has no column watched_top1: .*watch: DIR"):
        main(["curves", curve, "--plot", str(tmp_path / "p.png")])


def test_s_is_drawn_by_batch_size(
    classes: Path,
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    larger = "  larger: {<<: *plain, svmax: {weight: 1}, stages: [{image_size: 32, batch_size: 8}]}\n"
    (tmp_path / "recipe.yaml").write_text(RECIPE + larger)
    run = SimpleNamespace(recipe=read_recipe(tmp_path / "recipe.yaml"), checkpoint=lambda name: checkpoint)
    monkeypatch.setattr(figures, "open_existing_run", lambda folder: run)
    main(["spread", "--run", str(tmp_path), "--root", str(classes), "--plot", str(tmp_path / "p.png")])
    assert (tmp_path / "p.png").stat().st_size > 5000
    assert re.findall(r"(\w+): b (\d)", capsys.readouterr().out) == [
        ("plain", "4"),
        ("ideal", "4"),
        ("larger", "8"),
    ]
    assert figures.name_line(run.recipe.trained_models["larger"]).endswith("with SVMax, bounded")
