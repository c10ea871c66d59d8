"""What every step shares: its command line, the run folder, the manifest that lets a done step return at once, errors."""

import argparse
import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from data.errors import UserError
from data.files import whole_file
from data.images import ImageSet
from pipeline.run.paths import named_path
from pipeline.run.provenance import versions
from pipeline.run.recipe import Recipe, read_recipe, scaled

RUNS = Path("runs")
DEFAULT_RECIPE = Path(__file__).parents[2] / "recipes" / "sample.yaml"
STEPS = ("00_augment", "01_train", "02_embed", "03_ensemble", "04_normalize", "05_submit", "06_score")


@dataclass(frozen=True)
class Run:
    """A run folder: its recipe and the data set it works on."""

    folder: Path
    recipe: Recipe
    data: Path


def command_line(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every step has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--run", type=named_path, metavar="DIR", help="run folder; without it the latest run under runs/")
    parser.add_argument("--recipe", type=named_path, metavar="FILE", help="recipe of a new run, or a changed one for this run")
    parser.add_argument("--data", type=named_path, metavar="DIR", help="data set of a new run, in the ISC2021 layout")
    parser.add_argument(
        "--scale", type=float, metavar="SHARE", help="of a new run: this share of the recipe's classes, at most 2 epochs a stage"
    )
    parser.add_argument("--force", action="store_true", help="do the step again even if nothing has changed")
    return parser


def run_script(parser: argparse.ArgumentParser, work: Callable[[Run, argparse.Namespace], None]) -> None:
    """Parse the command line, open the run, do the work; a step's whole main program."""
    options = parser.parse_args()
    with clear_errors():
        work(open_run(options), options)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Print errors that a user can mend as one message and exit with 2; Ctrl-C says how to go on and exits with 130."""
    try:
        yield
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        told = _outside_cause(error)
        if told is None:
            raise
        print(f"error: {told}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from what is finished", file=sys.stderr)
        sys.exit(130)


def _outside_cause(error: Exception) -> str | None:
    """What the machine lacked, where that is what an error of a library says."""
    problem = str(error)
    if "DataLoader worker" in problem:
        return (
            f"a worker process that reads images was lost ({problem.strip()}), mostly for want of memory: lower `workers` in the "
            "recipe. The same command goes on from what is finished."
        )
    if getattr(error, "errno", None) == errno.ENOSPC or os.strerror(errno.ENOSPC) in problem:
        return f"the disk is full ({problem}). What is finished is whole: make room, and the same command goes on."
    if isinstance(error, (PermissionError, NotADirectoryError, IsADirectoryError)):
        return f"{error.filename2 or error.filename} cannot be used: {error.strerror}. Choose another path, or mend this one."
    return None


def open_run(options: argparse.Namespace) -> Run:
    """The run that the options name, made when it is new; without options the latest one."""
    if options.run is None and options.data is None and options.recipe is None:
        folder = latest_run()
    else:
        folder = options.run or RUNS / (options.recipe or DEFAULT_RECIPE).stem
    known = read_json(folder / "run.json")
    if options.data is None and "data" not in known:
        raise UserError(f"{folder} is not a run yet: add --data DIR (in the ISC2021 layout), or start with: bash run_all.sh")
    data = options.data.resolve() if options.data is not None else Path(known["data"])
    if not data.is_dir():
        raise UserError(f"{data}, the data set of {folder}, is not a folder. Name it with --data DIR.")
    kept = folder / "recipe.yaml"
    recipe_file = options.recipe or (kept if kept.is_file() else DEFAULT_RECIPE)
    scale = known.get("scale", 1.0) if getattr(options, "scale", None) is None else options.scale
    if not 0 < scale <= 1:
        raise UserError(f"--scale {scale}: a share of the recipe's classes above 0 and at most 1, such as 0.001.")
    recipe = read_recipe(recipe_file)
    recipe = recipe if scale == 1 else scaled(recipe, scale)
    if recipe_file != kept and _is_first_process():
        write_text(kept, recipe_file.read_text(encoding="utf-8"))
    about = {"data": str(data)} | ({} if scale == 1 else {"scale": scale})
    if about != known and _is_first_process():
        write_text(folder / "run.json", json.dumps(about, indent=1))
    return Run(folder, recipe, data)


def latest_run() -> Path:
    """The run under runs/ that was worked on last; UserError when there is none."""
    runs = [path.parent for path in RUNS.glob("*/run.json")]
    if not runs:
        raise UserError(f"there is no run under {RUNS.resolve()}. Start one with: bash run_all.sh")
    return max(runs, key=lambda folder: max(path.stat().st_mtime for path in (folder, *folder.glob("*.json"))))


def run_step(
    run: Run,
    step: str,
    *,
    outputs: list[Path],
    inputs: dict[str, Any],
    parameters: Any,
    work: Callable[[], None],
    force: bool = False,
    name: str | None = None,
    anew: Sequence[Path] = (),
) -> None:
    """Do `work` unless its manifest shows the same inputs and parameters and all outputs exist.

    inputs: label → files, image sets or JSON values that the step reads. name: where one script makes several things, which.
    anew: folders of unfinished work that --force removes first.
    The code version is recorded and a difference is told, but does not make the step stale: --force does it again.
    """
    label = step if name is None else f"{step} {name}"
    state = {"inputs": {key: fingerprint(value) for key, value in inputs.items()}, "parameters": plain(parameters)}
    before = read_manifest(run, label)
    changed = changes(before, state, outputs)
    if not changed and not force:
        other = "" if before.get("code") == code_version() else "  (made by another version of the code; --force makes it anew)"
        say(f"{label}: up to date{other}")
        return
    say(f"{label}: {'; '.join(changed) if changed and before else 'starting' if not before else 'forced'}")
    if force and _is_first_process():
        for folder in anew:
            shutil.rmtree(folder, ignore_errors=True)
    start = time.monotonic()
    work()
    seconds = round(time.monotonic() - start, 1)
    missing = [path for path in outputs if not path.exists()]
    if missing:
        raise RuntimeError(f"{label} did not write {missing[0]}")
    if _is_first_process():
        made = {"code": code_version(), "versions": versions(), "seconds": seconds, "outputs": [str(path) for path in outputs]}
        write_text(_manifest(run, label), json.dumps(state | made, indent=1))
        os.utime(run.folder)
    say(f"{label}: done in {seconds:.1f} s")


def require(path: Path, step: str, run: Run) -> Path:
    """`path` if it exists; otherwise UserError names the step that makes it and its command."""
    if not path.exists():
        command = f"python pipeline/{step}.py --run {run.folder}"
        raise UserError(f"{path} is missing: step {step} has not been done in {run.folder}. Run: {command}")
    return path


def fingerprint(value: Any) -> Any:
    """What tells that an input has changed: size and time of files, a digest of an image set's ids, sizes and times."""
    if isinstance(value, Path):
        if not value.exists():
            return None
        state = value.stat()
        return [str(value), state.st_size, state.st_mtime_ns] if value.is_file() else str(value)
    if isinstance(value, ImageSet):
        digest = hashlib.sha256()
        for image_id, path in zip(value.ids, value.paths, strict=True):
            state = path.stat()
            digest.update(f"{image_id}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
        return [len(value), digest.hexdigest()]
    if isinstance(value, (list, tuple)):
        return [fingerprint(item) for item in value]
    return plain(value)


def code_version() -> str:
    """The git commit the code stands at, or the package's version outside a checkout."""
    top = Path(__file__).parents[2]
    try:
        answer = subprocess.run(
            ["git", "-C", str(top), "describe", "--always", "--dirty"], capture_output=True, text=True, timeout=10, check=True
        )
        return answer.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return version("image-copy-detection")


def read_manifest(run: Run, label: str) -> dict[str, Any]:
    """What was recorded when this was last done; empty when it never was."""
    return read_json(_manifest(run, label))


def _manifest(run: Run, label: str) -> Path:
    return run.folder / "manifests" / f"{label.replace(' ', '-')}.json"


def changes(before: dict[str, Any], now: dict[str, Any], outputs: list[Path]) -> list[str]:
    """What differs between a manifest and the inputs and parameters of now, in words."""
    if not before:
        return ["no manifest"]
    found = [f"{path} is gone" for path in outputs if not path.exists()]
    for part in ("inputs", "parameters"):
        old, new = before.get(part), now[part]
        if isinstance(old, dict) and isinstance(new, dict):
            keys = [key for key in old | new if old.get(key) != new.get(key)]
            found += [f"{part[:-1]} {key} changed" for key in keys]
        elif old != new:
            found.append(f"{part} changed")
    return found


def plain(value: Any) -> Any:
    """The value as JSON would give it back, so that it compares equal to a stored one."""
    dump = getattr(value, "model_dump", None)
    return json.loads(json.dumps(dump(mode="json") if dump else value, default=_plain_item))


def _plain_item(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump else str(value)


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write_text(path: Path, text: str) -> None:
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _is_first_process() -> bool:
    return os.environ.get("RANK", "0") == "0"


def say(message: str) -> None:
    """Print, on the first process only."""
    if _is_first_process():
        print(message, flush=True)
