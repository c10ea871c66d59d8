"""What the commands under fault work on: tiny pictures, a tiny run as it stands before each step, an index, a plan."""

import shutil
from pathlib import Path

import numpy as np
from PIL import Image

from tests.faults.harness import STEPS, Forks, Job

RECIPE = """
seed: 0
queries: {count: 20, copies: 8, augmentation: {intensity: 0.3}}
models:
  one:
    descriptor: {backbone: test_efficientnet, dimensions: 8}
    workers: 0
    embedding: {workers: 1, shard: 8, batch_size: 8}
    stages:
      - {classes: 8, intensity: 0.1, image_size: 32, batch_size: 8, epochs: 2}
      - {intensity: 0.2, image_size: 32, batch_size: 8, epochs: 1}
  two:
    descriptor: {backbone: test_efficientnet, dimensions: 8}
    workers: 1
    stages: [{classes: 16, intensity: 0.1, image_size: 32, batch_size: 8, epochs: 2}]
embedding: {workers: 0, shard: 8, batch_size: 8}
split: {validation: 0.5}
ensemble: {dimensions: [4, 8], eigen_power: [0, -0.5]}
normalization: {direction_neighbours: 4}
"""
RUN = ("--run", "runs/tiny")
DATA, PHOTOS = "../data", "../photos"
TRUTH = f"{DATA}/public_ground_truth.csv"
CHECKPOINT = ("--checkpoint", "runs/tiny/models/one/stage-2.safetensors", "--threshold=-1e-9")
_step = {name: (STEPS[number - 1], name, RUN) for number, name in enumerate(STEPS) if number}
# name → the job before it, whose folder it starts with, the command and its arguments
JOBS: dict[str, tuple[str, str, tuple[object, ...]]] = {
    "make_data": ("", "make_data", ("--photos", PHOTOS, "--output", "made")),
    "00_augment": ("copies", "00_augment", (*RUN, "--data", DATA, "--recipe", "recipe.yaml")),
    **_step,
    "embed_folder": ("06_score", "02_embed", (*CHECKPOINT[:2], "--images", "mine", "--output", "mine.h5", "--workers", "1")),
    "score_file": (
        "06_score",
        "06_score",
        ("--submission", "runs/tiny/submission.h5", "--ground-truth", TRUTH, "--output", "s.json", "--details", "details"),
    ),
    "export_checkpoint": ("06_score", "export", (*RUN, "--output", "out.safetensors")),
    "match_add": ("06_score", "match", ("add", "mine", "theirs", "--index", "idx", *CHECKPOINT[:2])),
    "match_remove": ("match_add", "match", ("remove", "theirs", "mine/M000007.jpg", "--index", "idx")),
    "match_index": ("match_remove", "match", (*CHECKPOINT, "--index", "idx", "--queries", "theirs", "--output", "found")),
    "match_search": ("06_score", "match", (*CHECKPOINT, "--queries", "mine", "theirs", "--output", "found")),
    "match_leakage": ("06_score", "match", ("leakage", "mine", "theirs", *CHECKPOINT, "--output", "found")),
    "match_decide": (
        "match_search",
        "match",
        ("decide", "mine/M000000.jpg", "mine/M000001.jpg", "not-a-copy", "--output", "found"),
    ),
    "apply_move": ("match_search", "match", ("--apply", "move", "--output", "found")),
    "apply_hardlink": ("match_search", "match", ("--apply", "hardlink", "--output", "found")),
    "apply_symlink": ("match_search", "match", ("--apply", "symlink", "--output", "found")),
    "apply_trash": ("match_search", "match", ("--apply", "delete-to-trash", "--output", "found")),
    "undo_move": ("apply_move", "match", ("--undo", "--output", "found")),
    "undo_symlink": ("apply_symlink", "match", ("--undo", "--output", "found")),
    "undo_trash": ("apply_trash", "match", ("--undo", "--output", "found")),
}


def draw_pictures(folder: Path, prefix: str, count: int, seed: int, side: int = 72) -> list[Path]:
    """Small pictures that no two of are alike."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(count):
        coarse = np.random.default_rng([seed, number]).integers(0, 256, (6, 6, 3), np.uint8)
        paths.append(folder / f"{prefix}{number:06d}.jpg")
        Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(paths[-1], quality=90)
    return paths


def draw_data(folder: Path) -> None:
    """A data set in the ISC2021 layout: 12 queries, half of them references made smaller."""
    draw_pictures(folder / "training_images", "T", 40, 1)
    references = draw_pictures(folder / "reference_images", "R", 12, 2)
    draw_pictures(folder / "query_images", "Q", 12, 3)
    lines = []
    for number, path in enumerate(sorted((folder / "query_images").iterdir())):
        if number % 2:
            with Image.open(references[number]) as picture:
                picture.resize((60, 66)).save(path, quality=70)
        lines.append(f"{path.stem},{references[number].stem if number % 2 else ''}")
    (folder / "public_ground_truth.csv").write_text("query_id,reference_id\n" + "\n".join(lines) + "\n")
    edits = "\n".join(f"Q{number:06d},resize" for number in range(12))
    (folder / "query_edits.csv").write_text(f"query_id,edits\n{edits}\n")


def draw_copies(folder: Path) -> None:
    """Pictures to search: 12 of them, six a second time under another name and in another folder."""
    for path in draw_pictures(folder / "mine", "M", 12, 4)[:6]:
        (folder / "theirs").mkdir(exist_ok=True)
        shutil.copy2(path, folder / "theirs" / f"copy of {path.name}")


class Workshop:
    """Folders as they are before each job, made when they are asked for; all jobs work in the same folder, one at a time."""

    def __init__(self, top: Path, forks: Forks) -> None:
        self.top, self.forks, self.where = top, forks, top / "work"
        self._kept: dict[str, Path] = {}
        (top / "tmp").mkdir()
        draw_data(top / "data")
        draw_pictures(top / "photos", "", 100, 5, side=48)

    def job(self, name: str) -> Job:
        """One of JOBS."""
        before, script, arguments = JOBS[name]
        return Job(name, script, arguments, self.folder(before), self.where)

    def folder(self, name: str) -> Path:
        """A folder as a job leaves it; "" for an empty one, "copies" for one with pictures that have copies."""
        if name not in self._kept:
            kept = self.top / "kept" / (name or "empty")
            if name in ("", "copies"):
                kept.mkdir(parents=True)
                (kept / "recipe.yaml").write_text(RECIPE)
                if name:
                    draw_copies(kept)
            else:
                job = self.job(name)
                job.put_back()
                job.finish(self.forks)
                shutil.copytree(self.where, kept, symlinks=True)
            self._kept[name] = kept
        return self._kept[name]
