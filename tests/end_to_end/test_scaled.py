"""The seven models' recipe on a thousandth of its classes, with networks that fit a laptop."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from image_copies.data.procedural import write_pictures

TOP = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_papers_recipe_runs_at_a_small_scale(tmp_path: Path) -> None:
    sets = (("training_images", "T", 150), ("reference_images", "R", 20), ("query_images", "Q", 20), ("more", "M", 60))
    for folder, prefix, count in sets:
        list(write_pictures(tmp_path / "data" / folder, prefix, count, seed=1, workers=2))
    recipe = (TOP / "recipes" / "isc2021.yaml").read_text()
    recipe = re.sub(r"backbone: \w+(\.\w+)?, weights: pretrained", "backbone: test_efficientnet", recipe)
    recipe = recipe.replace("folders: []", "folders: [data/more]")
    recipe = re.sub(r"image_size: \d+", "image_size: 32", recipe).replace("workers: 16", "workers: 0")
    recipe = re.sub(r"batch_size: (100|64)\b", "batch_size: 32", recipe).replace("dimensions: 512", "dimensions: 64")
    recipe = re.sub(r"dimensions: (384|256)", "dimensions: 64", recipe)
    (tmp_path / "recipe.yaml").write_text(recipe)
    command = ["bash", str(TOP / "run_all.sh"), "--data", "data", "--recipe", "recipe.yaml", "--scale", "0.001"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    curve = (tmp_path / "runs" / "data" / "models" / "b5-256d" / "curve.csv").read_text()
    classes = [40, 40, 80, 80, 150, 150, 206, 206]  # 146 and 60 extra ones are all there are
    assert [int(line.split(",")[3]) for line in curve.splitlines()[1:9]] == classes
    assert (tmp_path / "runs" / "data" / "submission.h5").is_file()
