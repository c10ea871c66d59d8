"""Commands that tests run here, and copies of the run that tests share."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from image_copies.pipeline.run.run import Run, open_existing_run

RunCommand = Callable[..., subprocess.CompletedProcess[str]]  # of the fixture run_command


def copy_run(run: Path, folder: Path, *changes: tuple[str, str]) -> Run:
    """Copy a run's folder, and replace texts of its recipe."""
    shutil.copytree(run, folder)
    recipe = (folder / "recipe.yaml").read_text()
    for old, new in changes:
        assert old in recipe
        recipe = recipe.replace(old, new)
    (folder / "recipe.yaml").write_text(recipe)
    return open_existing_run(folder)
