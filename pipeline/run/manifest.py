"""Manifests: what a step was made from, so that a finished step returns at once and a stale one says what changed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data.files import read_json, write_text
from data.images import ImageSet
from pipeline.run.run import Run

Manifest = dict[str, Any]


def read_manifest(run: Run, label: str) -> Manifest:
    """What was recorded when this product was last made; empty when it never was."""
    return read_json(run.paths.manifest(label))


def write_manifest(run: Run, label: str, manifest: Manifest) -> None:
    """Record what a product was made from."""
    write_text(run.paths.manifest(label), json.dumps(manifest, indent=1))


def describe_state(inputs: Mapping[str, Any], parameters: Any) -> Manifest:
    """The part of a manifest that is compared: fingerprints of the inputs, and the parameters as JSON gives them back."""
    return {"inputs": {key: fingerprint(value) for key, value in inputs.items()}, "parameters": to_json(parameters)}


def find_changes(before: Manifest, now: Manifest, outputs: list[Path]) -> list[str]:
    """What differs between a manifest and the present state, in words; empty when nothing does and all outputs exist."""
    if not before:
        return ["no manifest"]
    found = [problem for path in outputs if (problem := _lost(path, before.get("sizes", {}).get(str(path), 1)))]
    for part in ("inputs", "parameters"):
        old, new = _comparable(before.get(part)), _comparable(now[part])
        if isinstance(old, dict) and isinstance(new, dict):
            keys = [key for key in old | new if old.get(key) != new.get(key)]
            found += [f"{part[:-1]} {key} changed" for key in keys]
        elif old != new:
            found.append(f"{part} changed")
    return found


def _comparable(value: Any) -> Any:
    """The value without keys that are null and without the folders of fingerprinted files.

    Keys that recipes have got since a manifest was written are missing there. A run that was moved, or that is named by another
    path, has the same files: their names, sizes and times say so.
    """
    match value:
        case [str(path), int(size), int(time)]:
            return [Path(path).name, size, time]
        case dict():
            return {key: _comparable(item) for key, item in value.items() if item is not None}
        case list():
            return [_comparable(item) for item in value]
    return value


def sizes(outputs: list[Path]) -> dict[str, int]:
    """Bytes of the outputs that are files, by path: what a power cut has torn is shorter or empty."""
    return {str(path): path.stat().st_size for path in outputs if path.is_file()}


def _lost(path: Path, size: int) -> str:
    """What has become of an output of at least this many bytes; empty when it is there."""
    if not path.exists():
        return f"{path} is gone"
    return f"{path} is not whole" if path.is_file() and path.stat().st_size < size else ""


def fingerprint(value: Any) -> Any:
    """What shows that an input has changed.

    Size and time of a file, None for a path that does not exist, the count and a digest of ids, sizes and times of an image
    set; anything else as JSON gives it back.
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
    """The value as JSON would give it back, so that it compares equal to a stored one; settings become dictionaries."""
    dump = getattr(value, "model_dump", None)
    return json.loads(json.dumps(dump(mode="json") if dump else value, default=_item_to_json))


def _item_to_json(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump else str(value)
