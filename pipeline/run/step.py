"""Steps and their products: a product is made unless its manifest shows that nothing it was made from has changed."""

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from image_copies.data import commands, files, locks, settings
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.process import has_gpu, is_first_process, print_once
from image_copies.submissions.search.neighbours import use_device

from .run import Run

PACKAGES = (
    "torch",
    "torchvision",
    "timm",
    "augly",
    "faiss-gpu",
    "faiss-cpu",
    "numpy",
    "pillow",
    "opencv-python-headless",
    "scikit-learn",
    "h5py",
)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed PACKAGES by name, without importing them."""
    found = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def code_version() -> str:
    """Return the git description of the code; without git the version of the package, or "unknown"."""
    here = Path(__file__)
    try:
        # an environment may lie in a checkout of something else
        _ask_git(here.parent, "ls-files", "--error-unmatch", here.name)
        return _ask_git(here.parent, "describe", "--always", "--dirty")
    except (OSError, subprocess.SubprocessError):
        pass
    try:
        return commands.find_version()
    except PackageNotFoundError:
        return "unknown"


def _ask_git(folder: Path, *arguments: str) -> str:
    """Return git's answer in a folder; subprocess.SubprocessError when it refuses."""
    answer = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
    )
    return answer.stdout.strip()


def fingerprint_images(images: ImageSet) -> list[Any]:
    """Return the number of images, and a digest of their ids and file sizes, which a copy of the data set keeps."""
    return [len(images), images.digest(times=False)]


def describe_origin(**made_from: Any) -> dict[str, Any]:
    """Return what a result was made from, and the versions of the code and of the packages, as it is written with the result."""
    return made_from | {"code": code_version(), "versions": versions()}


Manifest = dict[str, Any]


def read_manifest(run: Run, label: str) -> Manifest:
    """Read what was recorded when this product was last made; empty if it never was."""
    return files.read_json(run.paths.manifest(label))


def write_manifest(run: Run, label: str, manifest: Manifest) -> None:
    """Record what a product was made from."""
    files.write_text(run.paths.manifest(label), json.dumps(manifest, indent=1, default=_item_to_json))


def describe_state(inputs: Mapping[str, Any], parameters: Any) -> Manifest:
    """Return the part of a manifest that is compared: fingerprints of the inputs, and the parameters."""
    return {"inputs": {key: fingerprint(value) for key, value in inputs.items()}, "parameters": parameters}


def find_changes(before: Manifest, now: Manifest, outputs: list[Path]) -> list[str]:
    """Describe in phrases what differs between a manifest and the current state; none if the product is up to date.

    Outputs must exist, at least as large as recorded.
    """
    if not before:
        return ["no manifest"]
    sizes = before.get("sizes", {})
    if not isinstance(sizes, dict) or not all(isinstance(size, int) for size in sizes.values()):
        return ["its manifest is damaged"]
    found = [problem for path in outputs if (problem := _describe_loss(path, sizes.get(str(path), 1)))]
    inputs = (_without_folders(state.get("inputs")) for state in (before, now))
    return (
        found
        + _compare("input", *inputs)
        + _compare_parameters(before.get("parameters"), now["parameters"])
    )


def _compare_parameters(recorded: Any, parameters: Any) -> list[str]:
    """Describe the differences; what was recorded of settings is read as today's, so that keys added since make none."""
    if isinstance(parameters, settings.Settings):
        recorded = _as_today(recorded, parameters)
    elif isinstance(recorded, dict) and isinstance(parameters, dict):
        recorded = {key: _as_today(value, parameters.get(key)) for key, value in recorded.items()}
    return _compare("parameter", recorded, to_json(parameters))


def _as_today(recorded: Any, now: Any) -> Any:
    """Return what was recorded of settings as today's, or why it is not valid any more; anything else stays as recorded."""
    if not isinstance(recorded, dict) or not isinstance(now, settings.Settings):
        return recorded
    try:
        return to_json(settings.read_recorded(type(now), recorded))
    except ValidationError as error:
        return error


def _compare(kind: str, old: Any, new: Any) -> list[str]:
    """Name the keys of JSON objects whose values differ; null is the same as no key."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [] if old == new else [f"{kind}s changed{_describe_invalid(old)}"]
    return [
        f"{kind} {key} changed{_describe_invalid(old.get(key))}"
        for key in old | new
        if old.get(key) != new.get(key)
    ]


def _describe_invalid(old: Any) -> str:
    if not isinstance(old, ValidationError):
        return ""
    first = old.errors()[0]
    return f" (recorded by another version, whose {'.'.join(map(str, first['loc']))} is not valid in this one: {first['msg']})"


def _without_folders(value: Any) -> Any:
    """Drop the folders of fingerprinted files: a run that was moved, or is given by another path, has the same files."""
    match value:
        case [str(path), int(size), int(time)]:
            return [Path(path).name, size, time]
        case dict():
            return {key: _without_folders(item) for key, item in value.items()}
        case list():
            return [_without_folders(item) for item in value]
    return value


def _describe_loss(path: Path, size: int) -> str:
    """Describe what is wrong with an output that should have at least `size` bytes; empty if nothing is."""
    if not path.exists():
        return f"{path} is gone"
    return f"{path} is incomplete" if path.is_file() and path.stat().st_size < size else ""


def fingerprint(value: Any) -> Any:
    """Return a JSON value that changes when an input changes.

    Path, size and modification time of a file; None for a path that does not exist; for an image set the number of images and a
    digest of ids, sizes and times; anything else as its JSON value.
    """
    if isinstance(value, Path):
        if not value.exists():
            return None
        state = value.stat()
        return [str(value), state.st_size, state.st_mtime_ns] if value.is_file() else str(value)
    if isinstance(value, ImageSet):
        return [len(value), value.state]
    if isinstance(value, (list, tuple)):
        return [fingerprint(item) for item in value]
    return to_json(value)


def to_json(value: Any) -> Any:
    """Convert a value to what JSON would return for it, to be compared with a stored one; settings become dictionaries."""
    dump = getattr(value, "model_dump", None)
    return json.loads(json.dumps(dump(mode="json") if dump else value, default=_item_to_json))


def _item_to_json(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump else str(value)


@dataclass(frozen=True)
class Product:
    """One result of a step, with its own manifest."""

    # files, image sets or JSON values by label; called only when it is due
    inputs: Callable[[], Mapping[str, Any]]
    outputs: list[Path]  # that exist once it is made
    parameters: Any  # settings that it depends on: JSON values or pydantic models
    work: Callable[[], None]
    name: str = ""  # which of the step's products; empty for the only one
    unfinished: Sequence[Path] = ()  # folders of unfinished work, which --force removes first


def _need_nothing(_: Run) -> list[Path]:
    return []


@dataclass(frozen=True)
class Step:
    """One numbered step of the pipeline."""

    name: str  # number and verb, such as "03_ensemble"; the command is pipeline/<name>.py
    products: Callable[[Run], list[Product]]  # what it makes in a run, in order
    # files of earlier steps that must exist before it starts
    needs: Callable[[Run], list[Path]] = _need_nothing

    def label(self, product: Product) -> str:
        """Return a product's name in messages and manifests: the step's name and, after a space, the product's own."""
        return f"{self.name} {product.name}" if product.name else self.name


def make_product(run: Run, step: Step, product: Product, force: bool = False) -> None:
    """Make a product unless its manifest shows the same inputs and parameters, and all its outputs exist.

    A different version of the code is reported, but does not make the product stale. With `force` it is made even if nothing has
    changed, after removing unfinished work.

    Raises:
        UserError: when another process works in the run folder.
        RuntimeError: when the work did not write all outputs.
    """
    label, inputs = step.label(product), product.inputs()
    state = describe_state(inputs, product.parameters)
    before = read_manifest(run, label)
    changed = find_changes(before, state, product.outputs)
    if not changed and not force:
        other = (
            ""
            if before.get("code") == code_version()
            else "  (made by another version of the code; --force makes it again)"
        )
        print_once(f"{label}: up to date{other}")
        return
    print_once(
        f"{label}: {'; '.join(changed) if changed and before else 'starting' if not before else 'forced'}"
    )
    with locks.hold_folder(run.folder, label) if is_first_process() else nullcontext():
        if force and is_first_process():
            for folder in product.unfinished:
                shutil.rmtree(folder, ignore_errors=True)
        start = time.monotonic()
        product.work()
        seconds = round(time.monotonic() - start, 1)
        missing = [path for path in product.outputs if not path.exists()]
        if missing:
            raise RuntimeError(f"{label} did not write {missing[0]}")
        if is_first_process():
            torch = sys.modules.get("torch")
            made = {
                "code": code_version(),
                "versions": versions(),
                # a product of matrices splits its sums among them
                "threads": torch and torch.get_num_threads(),
                "recipe": run.recipe.fingerprint(),
                "seconds": seconds,
                "outputs": list(map(str, product.outputs)),
                # a power failure may truncate them
                "sizes": {str(path): path.stat().st_size for path in product.outputs if path.is_file()},
            }
            write_manifest(run, label, state | made)
            os.utime(run.folder)
    print_once(f"{label}: done in {seconds:.1f} s")


def report_stale(run: Run, steps: Sequence[Step]) -> None:
    """Print which of these steps are stale, what changed, and the command that repeats each.

    Nothing is said within `run_all.sh`, which has just had each of these steps done or found up to date.
    """
    if locks.SESSION_VARIABLE in os.environ:
        return
    for step in steps:
        found: list[str] = []
        for product in step.products(run):
            changes = _find_changes_since(read_manifest(run, step.label(product)), product)
            found += [f"{product.name}: {change}" if product.name else change for change in changes]
        if found:
            others = f" and {len(found) - 1} more" if len(found) > 1 else ""
            print_once(
                f"step {step.name} is stale ({found[0]}{others}): its earlier results are used. "
                f"Repeat it: {commands.name_command(step.name)} --run {run.folder}"
            )


def _find_changes_since(before: Manifest, product: Product) -> list[str]:
    """Describe what changed since the manifest was written; none if the product was never made."""
    if not before:
        return []
    try:
        now = describe_state(product.inputs(), product.parameters)
    except UserError as error:  # images were moved away, perhaps to make room
        return [str(error)]
    return find_changes(before, now | {"inputs": _keep_missing(now["inputs"], before.get("inputs"))}, [])


def _keep_missing(now: Any, recorded: Any) -> Any:
    """Return fingerprints of inputs, of a file that is missing now, perhaps to make room, as it was recorded."""
    if isinstance(now, dict) and isinstance(recorded, dict):
        return {key: _keep_missing(value, recorded.get(key)) for key, value in now.items()}
    if isinstance(now, list) and isinstance(recorded, list) and len(now) == len(recorded):
        return [_keep_missing(*pair) for pair in zip(now, recorded, strict=True)]
    return recorded if now is None else now


@contextmanager
def search_on_gpu() -> Iterator[None]:
    """Search on this process's GPU, if there is one, inside the `with` block or the decorated function."""
    if find_spec("torch") is None or not has_gpu():  # without importing torch, which takes seconds
        yield
        return
    # imported here: files are scored and validated without torch, too
    from image_copies.models.device import best_device

    device = best_device()
    if device.type == "cpu":
        yield
        return
    from ..gpu_search import TorchSearch

    with use_device(TorchSearch(device)):
        yield
