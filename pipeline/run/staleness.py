"""Stale products: those of earlier steps that no longer match the recipe or the files they were made from."""

import os
from collections.abc import Sequence
from typing import Any

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.locks import SESSION_VARIABLE
from image_copies.data.process import print_once
from image_copies.data.remote import as_path
from image_copies.pipeline.run.manifest import Manifest, find_changes, fingerprint, read_manifest
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.run.step import Product, Step


def report_stale(run: Run, steps: Sequence[Step]) -> None:
    """Print which of these steps are stale, what changed, and the command that repeats each.

    Folders of images are not listed again within `run_all.sh`, which has just had each of these steps done or found up to date.
    """
    look, alone = _ImageChanges(), SESSION_VARIABLE not in os.environ
    for step in steps:
        found: list[str] = []
        for product in step.products(run):
            before = read_manifest(run, step.label(product))
            changes = _describe_changes(before, product.parameters)
            changes += look.changed_images(before, product) if alone else []
            found += [f"{product.name}: {change}" if product.name else change for change in changes]
        if found:
            others = f" and {len(found) - 1} more" if len(found) > 1 else ""
            print_once(
                f"step {step.name} is stale ({found[0]}{others}): its earlier results are used. "
                f"Repeat it: {name_command(step.name)} --run {run.folder}"
            )


class _ImageChanges:
    """Looks at the folders of images once, whichever products were made from them."""

    def __init__(self) -> None:
        self.states: dict[int, tuple[ImageSet, Any]] = {}  # by the set's identity, with the set, which keeps it in use

    def changed_images(self, before: Manifest, product: Product) -> list[str]:
        """Describe which of the product's image sets differ from those that its manifest `before` records."""
        known = {name: state for name, state in (before.get("inputs") or {}).items() if _is_image_set(state)}
        if not known:
            return []
        try:
            images = product.images()
        except UserError as error:  # moved away, perhaps to make room
            return [str(error)]
        return [f"input {name} changed" for name in images if name in known and known[name] != self._state(images[name])]

    def _state(self, images: ImageSet) -> Any:
        if id(images) not in self.states:
            self.states[id(images)] = images, fingerprint(images)
        return self.states[id(images)][1]


def _is_image_set(recorded: Any) -> bool:
    """Return whether a recorded input is the count and digest of an image set."""
    match recorded:
        case [int(), str()]:
            return True
    return False


def _describe_changes(before: Manifest, parameters: Any) -> list[str]:
    """Describe what changed since the manifest was written."""
    return find_changes(before, {"inputs": _refresh(before.get("inputs")), "parameters": parameters}, []) if before else []


def _refresh(recorded: Any) -> Any:
    """Return the recorded inputs with the current state of their files; anything missing or not a file stays as recorded."""
    match recorded:
        case [str(path), int(), int()] if as_path(path).is_file():
            return fingerprint(as_path(path))
        case list():
            return [_refresh(item) for item in recorded]
        case dict():
            return {key: _refresh(item) for key, item in recorded.items()}
    return recorded
