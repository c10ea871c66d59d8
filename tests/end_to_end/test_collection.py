"""A folder of one's own, with the recipe that it gets by default: the descriptor that ships, submitted and scored."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from image_copies.data.procedural import write_pictures
from image_copies.submissions.vectors.files import read_vectors

TOP = Path(__file__).parents[2]


@pytest.mark.slow
def test_photos_are_searched_with_the_descriptor_that_ships(tmp_path: Path) -> None:
    list(write_pictures(tmp_path / "album", "P", 300, seed=0, workers=1))
    environment = os.environ | {"PYTHON": sys.executable, "PYTHONPATH": str(TOP)}
    command = ["bash", str(TOP / "run_all.sh"), "--photos", str(tmp_path / "album"), "--run", str(tmp_path / "run")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    scores = json.loads((tmp_path / "run/scores.json").read_text())
    assert scores["micro_average_precision"] > 0.7
    assert {path.name for path in (tmp_path / "run/models").iterdir()} == {"shipped"}
    assert read_vectors(next((tmp_path / "run/embeddings/shipped").glob("query*.h5"))).vectors.shape[1] == 256
