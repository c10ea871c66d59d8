"""A run: a folder, the recipe it follows and the data set it works on."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.data.files import describe_no_folder, is_folder, read_json, write_text
from image_copies.data.images import ImageSet, find_images
from image_copies.data.layout import TRAINING
from image_copies.data.locks import hold_folder
from image_copies.data.process import is_first_process
from image_copies.data.remote import as_path
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.pipeline.run.paths import RunPaths
from image_copies.pipeline.run.recipe import Recipe, read_recipe, refuse_pca_after_whitening, scale_recipe

RUNS = Path("runs")
DEFAULT_RECIPE = Path(__file__).parents[2] / "recipes" / "collection.yaml"


@dataclass(frozen=True)
class Run:
    """A run, which every step works on."""

    folder: Path  # of the results
    recipe: Recipe
    data: Path  # in the ISC2021 layout

    @cached_property
    def training_images(self) -> ImageSet:
        """The data set's training images, listed once per command, without those that the recipe excludes.

        Raises:
            UserError: when the folder is missing or empty, two files have the same id, or what is excluded is not known.
        """
        return self.without_excluded(find_images(self.data / TRAINING))

    def without_excluded(self, training: ImageSet) -> ImageSet:
        """Return training images less those that the recipe excludes.

        Raises:
            UserError: when the list of the excluded is missing, or names one that is not among them.
        """
        file = self.recipe.split.exclude
        if file is None:
            return training
        if not file.is_file():
            raise UserError(f"split.exclude: {file} is missing. Give a text file of ids of training images, one a line.")
        excluded = set(file.read_text(encoding="utf-8").split())
        if unknown := sorted(excluded.difference(training.ids)):
            raise UserError(
                f"split.exclude: {file} names {unknown[0]!r}, which is no training image; an id is a file's name without suffix. "
                "Remove the line, or correct it."
            )
        return training.select([image_id for image_id in training.ids if image_id not in excluded])

    @property
    def paths(self) -> RunPaths:
        """The paths of the run's files."""
        return RunPaths(self.folder)

    def checkpoint(self, model: str) -> Path:
        """Return the path of the checkpoint of a model's last stage."""
        return self.paths.checkpoint(model, len(self.recipe.networks[model].stages))

    def embedding(self, model: str) -> EmbeddingSettings:
        """Return a model's embedding settings: its own if it has any, otherwise the recipe's."""
        return self.recipe.models[model].embedding or self.recipe.embedding

    def require(self, path: Path) -> Path:
        """Return `path`, a file or folder of this run that an earlier step makes, after checking that it exists.

        Raises:
            UserError: when it does not; the message names the step that makes it and the command.
        """
        if not path.exists():
            step = self.paths.maker(path)
            command = f"{name_command(step)} --run {self.folder}"
            raise UserError(f"{path} is missing: step {step} has not been done in {self.folder}. Run: {command}")
        return path


def open_run(folder: Path | None = None, recipe: Path | None = None, data: Path | None = None, scale: float | None = None) -> Run:
    """Open a run, creating it if it is new; what is not given is what the run records.

    Without a folder it is the latest run or, with a recipe or data, the one named after the recipe. A recipe, which is copied
    into the folder, may change an existing run. `scale` is a share of the recipe's classes, above 0 and at most 1.

    Raises:
        UserError: when there is no such run, data set or recipe, or the recipe is invalid.
    """
    if folder is None:
        folder = find_latest_run() if data is None and recipe is None else RUNS / (recipe or DEFAULT_RECIPE).stem
    paths = RunPaths(folder)
    known = read_json(paths.description)
    if not isinstance(known.get("data", ""), str) or not isinstance(known.get("scale", 1.0), (int, float)):
        raise UserError(f"{paths.description} does not name a data folder and a scale. Delete it and give --data DIR again.")
    if data is None and "data" not in known:
        raise UserError(f"{folder} is not a run yet: add --data DIR (in the ISC2021 layout), or start with: bash run_all.sh")
    given, data = data, as_path(known["data"]) if data is None else data.resolve()
    if not is_folder(data):
        remedy = (
            "Give the folder of a data set" if given else f"{folder} was made from it; if it has been moved, name its new place"
        )
        raise UserError(f"{describe_no_folder(data)}. {remedy}: --data DIR.")
    source = recipe or (paths.recipe if paths.recipe.is_file() else DEFAULT_RECIPE)
    share = known.get("scale", 1.0) if scale is None else scale
    if not 0 < share <= 1:
        raise UserError(f"--scale {share}: give a share of the recipe's classes above 0 and at most 1, such as 0.001.")
    content = read_recipe(source)
    if source != paths.recipe:  # an existing run must open
        refuse_pca_after_whitening(content)
    if is_first_process():
        _remember(paths, known, source, data, share)
    return Run(folder, content if share == 1 else scale_recipe(content, share), data)


def open_existing_run(folder: Path | None = None, data: Path | None = None) -> Run:
    """Open an existing run, by default the latest; `data` says where its data set has been moved to.

    Raises:
        UserError: when the folder is not a run, there is no run, or the data set or recipe cannot be used.
    """
    folder = folder or find_latest_run()
    if not RunPaths(folder).description.is_file():
        raise UserError(
            f"{folder} is not a run: it has no run.json. Give the folder of a run, or start one with: bash run_all.sh"
        )
    return open_run(folder, data=data)


def run_of_checkpoint(checkpoint: Path) -> Run | None:
    """Return the run that trained this checkpoint; None where it is outside of runs.

    Raises:
        UserError: when the run's data set or recipe cannot be used.
    """
    folder = checkpoint.resolve().parent.parent.parent
    return open_run(folder) if RunPaths(folder).description.is_file() else None


def list_runs() -> list[Path]:
    """Return the folders under runs/ that are runs."""
    return [path.parent for path in RUNS.glob(f"*/{RunPaths(RUNS).description.name}")]


def find_latest_run() -> Path:
    """Return the folder under runs/ that was worked on last.

    Raises:
        UserError: when there is none.
    """
    runs = list_runs()
    if not runs:
        raise UserError(
            f"there is no run under {RUNS.resolve()}. Name what to work on (--help lists how), or start one in a checkout: "
            "bash run_all.sh"
        )
    return max(runs, key=lambda folder: max(path.stat().st_mtime for path in (folder, *folder.glob("*.json"))))


def _remember(paths: RunPaths, known: dict[str, object], recipe: Path, data: Path, scale: float) -> None:
    """Record the recipe and the data set in the run folder, so that the next command needs to name neither."""
    about: dict[str, object] = {"data": str(data)} | ({} if scale == 1 else {"scale": scale})
    text = recipe.read_text(encoding="utf-8")
    changed = not paths.recipe.is_file() or text != paths.recipe.read_text(encoding="utf-8", errors="replace")
    if not changed and about == known:
        return
    with hold_folder(paths.folder, "the run's recipe"):
        if changed:
            write_text(paths.recipe, text)
        if about != known:
            write_text(paths.description, json.dumps(about, indent=1))
