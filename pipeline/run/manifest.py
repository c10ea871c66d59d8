"""Manifests record what a product was made from: an up-to-date step returns at once, and a stale one says what changed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from image_copies.data.files import read_json, write_text
from image_copies.data.images import ImageSet
from image_copies.data.settings import Settings, read_recorded
from image_copies.pipeline.run.run import Run

Manifest = dict[str, Any]


def read_manifest(run: Run, label: str) -> Manifest:
    """Read what was recorded when this product was last made; empty if it never was."""
    return read_json(run.paths.manifest(label))


def write_manifest(run: Run, label: str, manifest: Manifest) -> None:
    """Record what a product was made from."""
    write_text(run.paths.manifest(label), json.dumps(manifest, indent=1, default=_item_to_json))


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
    return found + _compare("input", *inputs) + _compare_parameters(before.get("parameters"), now["parameters"])


def _compare_parameters(recorded: Any, parameters: Any) -> list[str]:
    """Describe the differences; what was recorded of settings is read as today's, so that keys added since make none."""
    if isinstance(parameters, Settings):
        recorded = _as_today(recorded, parameters)
    elif isinstance(recorded, dict) and isinstance(parameters, dict):
        recorded = {key: _as_today(value, parameters.get(key)) for key, value in recorded.items()}
    return _compare("parameter", recorded, to_json(parameters))


def _as_today(recorded: Any, now: Any) -> Any:
    """Return what was recorded of settings as today's, or why it is not valid any more; anything else stays as recorded."""
    if not isinstance(recorded, dict) or not isinstance(now, Settings):
        return recorded
    try:
        return to_json(read_recorded(type(now), recorded))
    except ValidationError as error:
        return error


def _compare(kind: str, old: Any, new: Any) -> list[str]:
    """Name the keys of JSON objects whose values differ; null is the same as no key."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [] if old == new else [f"{kind}s changed{_describe_invalid(old)}"]
    return [f"{kind} {key} changed{_describe_invalid(old.get(key))}" for key in old | new if old.get(key) != new.get(key)]


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


def measure_sizes(outputs: list[Path]) -> dict[str, int]:
    """Return the sizes in bytes of the outputs that are files, by path, to detect files truncated by a power failure."""
    return {str(path): path.stat().st_size for path in outputs if path.is_file()}


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
        return [len(value), value.digest()]
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
