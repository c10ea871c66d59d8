"""A run: a folder, the recipe it follows, the data set it works on, and the roles of the training images (docs/house.md)."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from image_copies.data import commands, layout, locks, process, remote
from image_copies.data.arrays import Int64s
from image_copies.data.errors import StorageError, UserError
from image_copies.data.files import describe_no_folder, is_folder, read_json, write_text
from image_copies.data.images import ImageSet, find_images
from image_copies.models.inference.settings import EmbeddingSettings

from .paths import RUNS, RunPaths, list_runs
from .recipe import Recipe, read_recipe, refuse_pca_after_whitening, scale_recipe

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
        return self.without_excluded(find_images(self.data / layout.TRAINING))

    def without_excluded(self, training: ImageSet) -> ImageSet:
        """Return training images less those that the recipe excludes.

        Raises:
            UserError: when the list of the excluded is missing, or names one that is not among them.
        """
        file = self.recipe.split.exclude
        if file is None:
            return training
        if not file.is_file():
            raise UserError(
                f"split.exclude: {file} is missing. Give a text file of ids of training images, one a line."
            )
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
            command = f"{commands.name_command(step)} --run {self.folder}"
            raise UserError(
                f"{path} is missing: step {step} has not been done in {self.folder}. Run: {command}"
            )
        return path


def open_run(
    folder: Path | None = None,
    recipe: Path | None = None,
    data: Path | None = None,
    scale: float | None = None,
) -> Run:
    """Open a run, creating it if it is new; what is not given is what the run records.

    Without a folder it is the latest run or, with a recipe or data, the one named after the recipe. A recipe, which is copied
    into the folder, may change an existing run. `scale` is a share of the recipe's classes, above 0 and at most 1.

    Raises:
        UserError: when there is no such run, data set or recipe, or the recipe is invalid.
    """
    if folder is None:
        folder = (
            find_latest_run() if data is None and recipe is None else RUNS / (recipe or DEFAULT_RECIPE).stem
        )
    paths = RunPaths(folder)
    known = read_json(paths.description)
    if not isinstance(known.get("data", ""), str) or not isinstance(known.get("scale", 1.0), (int, float)):
        raise UserError(
            f"{paths.description} does not name a data folder and a scale. Delete it and give --data DIR again."
        )
    if data is None and "data" not in known:
        raise UserError(
            f"{folder} is not a run yet: add --data DIR (in the ISC2021 layout), or start with: bash run_all.sh"
        )
    given, data = data, remote.as_path(known["data"]) if data is None else data.resolve()
    if not is_folder(data):
        remedy = (
            "Give the folder of a data set"
            if given
            else f"{folder} was made from it; if it has been moved, name its new place"
        )
        raise UserError(f"{describe_no_folder(data)}. {remedy}: --data DIR.")
    source = recipe or (paths.recipe if paths.recipe.is_file() else DEFAULT_RECIPE)
    share = known.get("scale", 1.0) if scale is None else scale
    if not 0 < share <= 1:
        raise UserError(
            f"--scale {share}: give a share of the recipe's classes above 0 and at most 1, such as 0.001."
        )
    content = read_recipe(source)
    if source != paths.recipe:  # an existing run must open
        refuse_pca_after_whitening(content)
    if process.is_first_process():
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
    return max(
        runs, key=lambda folder: max(path.stat().st_mtime for path in (folder, *folder.glob("*.json")))
    )


def _remember(paths: RunPaths, known: dict[str, object], recipe: Path, data: Path, scale: float) -> None:
    """Record the recipe and the data set in the run folder, so that the next command needs to name neither."""
    about: dict[str, object] = {"data": str(data)} | ({} if scale == 1 else {"scale": scale})
    text = recipe.read_text(encoding="utf-8")
    changed = not paths.recipe.is_file() or text != paths.recipe.read_text(
        encoding="utf-8", errors="replace"
    )
    if not changed and about == known:
        return
    with locks.hold_folder(paths.folder, "the run's recipe"):
        if changed:
            write_text(paths.recipe, text)
        if about != known:
            write_text(paths.description, json.dumps(about, indent=1))


@dataclass(frozen=True)
class TrainingRoles:
    """The training images by role: disjoint, unless the recipe trains on all of them (`split.learn_all`)."""

    classes: ImageSet  # trained on, in fixed order, extra classes last
    own: int  # how many of them are no extra classes
    labels: Int64s | None  # [n] of 0 … C − 1; None where every image is its own class
    overlays: ImageSet  # are pasted into others
    references: ImageSet  # the copies among the synthetic queries are made from and searched in these
    distractors: ImageSet  # the other synthetic queries are made from these


def assign_training_roles(run: Run) -> TrainingRoles:
    """Assign the run's training images to roles; extra classes come last, so that the other classes keep their index.

    Raises:
        UserError: when a folder holds no image, two images have the same id, or labels and extra classes are both given.
    """
    training = run.training_images
    recipe = run.recipe
    split = layout.split_training(training.ids, recipe.seed, recipe.split.validation, recipe.split.overlay)
    extra = [find_images(folder, naming="path") for folder in run.recipe.extra_classes.folders]
    others = split.overlays + split.references + split.distractors
    learnt = split.classes + (others if recipe.split.learn_all else [])
    return TrainingRoles(
        classes=_join_sets(training.select(learnt), extra),
        own=len(learnt),
        labels=_read_labels(run, learnt, extra),
        overlays=training.select(split.overlays),
        references=training.select(split.references),
        distractors=training.select(split.distractors),
    )


def digest_labels(labels: Int64s | None) -> str | None:
    """Return the SHA-256 of the class labels, int64 [n], in hexadecimal, to detect changes; None where there are none."""
    return None if labels is None else hashlib.sha256(labels.tobytes()).hexdigest()


def find_images_to_embed(run: Run) -> dict[str, ImageSet]:
    """Find the images of each of the SETS: training, reference, query and synthetic (the queries of step 00).

    Raises:
        UserError: when a folder is missing or holds no image.
    """
    folder: layout.IscFolder = layout.open_isc_folder(run.data)
    return {
        "training": run.without_excluded(folder.training),
        "reference": folder.reference,
        "query": folder.query,
        "synthetic": find_images(run.paths.query_images),
    }


def _read_labels(run: Run, classes: list[str], extra: list[ImageSet]) -> Int64s | None:
    """Read the class of each trained image, 0 … C − 1, from the data set's training_labels.csv; None where there is none."""
    path = run.data / layout.TRAINING_LABELS
    if not path.is_file():
        return None
    if extra:
        raise UserError(
            f"{path} labels the training images, but extra_classes have no labels: remove extra_classes from the recipe."
        )
    # imported here: an up-to-date step must return at once
    from image_copies.data.labels import read_labels

    # those that the recipe excludes have labels, too
    labelled = read_labels(path, find_images(run.data / layout.TRAINING))
    label_of = dict(zip(labelled.images.ids, labelled.labels.tolist(), strict=True))
    return np.unique([label_of[image_id] for image_id in classes], return_inverse=True)[1].astype(np.int64)


def _join_sets(first: ImageSet, others: list[ImageSet]) -> ImageSet:
    ids, paths = list(first.ids), list(first.paths)
    for images in others:
        ids += images.ids
        paths += images.paths
    if len(set(ids)) != len(ids):
        double = next(image_id for image_id, count in Counter(ids).items() if count > 1)
        raise UserError(
            f"the image id {double!r} occurs in two folders of training classes. Rename one of the files."
        )
    return ImageSet(ids, paths)


def require_no_tests(run: Run, images: ImageSet, purpose: str) -> None:
    """Check that images to fit on are neither queries nor references of the run's data set, by id and by file.

    The same file under another name is found where it is a link; a copy with other bytes or another name is not. The message says
    what is fitted, such as "the whitening of one".

    Raises:
        UserError: when one is a query or a reference.
    """
    # here: an up-to-date step is quick
    from image_copies.submissions.ensemble.projection import require_training_only

    files = {identity: path for path in images.paths if (identity := _identify(path)) is not None}
    others = {name: _find_tests(run.data / name) for name in (layout.QUERY, layout.REFERENCE)}
    require_training_only(
        images.ids, {name.removesuffix("_images"): found.ids for name, found in others.items()}
    )
    for name, found in others.items():
        for path in found.paths:
            if (identity := _identify(path)) in files:
                raise UserError(
                    f"{purpose}: {files[identity]} is the same file as {path}. The rules allow fitting on training images only: "
                    f"take the images of {name}/ out of the folder, or name another one."
                )


def _find_tests(folder: Path) -> ImageSet:
    """Return the images of a folder; none where it is missing or cannot be used, which the steps that need it report."""
    try:
        return find_images(folder)
    except StorageError:  # nothing is known of it
        raise
    except UserError:
        return ImageSet([], [])


def _identify(path: Path) -> tuple[int, int] | None:
    """Return what is the same for all names of a file; None where there is no file."""
    try:
        state = path.stat()
    except OSError:
        return None
    return (state.st_dev, state.st_ino) if state.st_ino else None
