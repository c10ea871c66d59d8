"""Each file of a run folder is spelled in one place."""

import re
from pathlib import Path

from image_copies.pipeline.run.paths import RunPaths
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.steps.definitions import STEPS

TOP = Path(__file__).parents[3]
ROOMS = ("augmentations", "data", "models", "pipeline", "submissions")
PATHS = RunPaths(Path("run"))


OTHERS_TOO = {"index.html", "matches.csv"}  # of pages, and of match.py's own output
SPELLED_IN = {"pipeline/run/paths.py", "data/layout.py", "models/training/files.py"}  # the latter two name parts of a run folder


def run_file_names() -> set[str]:
    """Names of the files that belong to run folders alone."""
    found = list(vars(PATHS).values())
    found += [PATHS.curve("model"), PATHS.checkpoint("model", 1)]
    return {path.name for path in found if path.suffix} - OTHERS_TOO


def test_no_other_source_spells_a_run_folders_files() -> None:
    assert {"run.json", "recipe.yaml", "submission.h5", "scores.json", "choice.csv"} <= run_file_names()
    assert "stage-{stage}" in (TOP / "models/training/files.py").read_text()
    literal = re.compile("[\"'](stage-\\{|" + "|".join(map(re.escape, sorted(run_file_names()))) + ")[\"']")
    found = [
        f"{path.relative_to(TOP)}: {match[0]}"
        for room in ROOMS
        for path in sorted((TOP / room).rglob("*.py"))
        if str(path.relative_to(TOP)) not in SPELLED_IN
        for match in literal.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_no_other_source_builds_paths_from_the_run_folder() -> None:
    built = re.compile(r"run\.folder\s*/")
    sources = [path for room in ROOMS for path in (TOP / room).rglob("*.py")]
    assert [path.name for path in sources if built.search(path.read_text(encoding="utf-8"))] == []


def test_the_maker_of_every_output_is_the_step_that_makes_it(run: Run) -> None:
    for step in STEPS:
        for product in step.products(run):
            assert {run.paths.maker(path) for path in product.outputs} == {step.name}
