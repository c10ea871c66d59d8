"""Steps and their products; a product is made unless its manifest shows that nothing has changed."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from image_copies.data.images import ImageSet
from image_copies.data.locks import hold_folder
from image_copies.data.process import is_first_process, print_once
from image_copies.data.remote import remove_folder
from image_copies.pipeline.run.manifest import describe_state, find_changes, measure_sizes, read_manifest, write_manifest
from image_copies.pipeline.run.provenance import code_version, count_threads, versions
from image_copies.pipeline.run.run import Run


@dataclass(frozen=True)
class Product:
    """One result of a step, with its own manifest."""

    inputs: Callable[[], Mapping[str, Any]]  # files, image sets or JSON values by label; called only when it is due
    outputs: list[Path]  # that exist once it is made
    parameters: Any  # settings that it depends on: JSON values or pydantic models
    work: Callable[[], None]
    name: str = ""  # which of the step's products; empty for the only one
    unfinished: Sequence[Path] = ()  # folders of unfinished work, which --force removes first
    images: Callable[[], Mapping[str, ImageSet]] = dict  # those among the inputs, at whose folders later steps look


def _need_nothing(_: Run) -> list[Path]:
    return []


@dataclass(frozen=True)
class Step:
    """One numbered step of the pipeline."""

    name: str  # number and verb, such as "03_ensemble"; the command is pipeline/<name>.py
    products: Callable[[Run], list[Product]]  # what it makes in a run, in order
    needs: Callable[[Run], list[Path]] = _need_nothing  # files of earlier steps that must exist before it starts

    def label(self, product: Product) -> str:
        """Return a product's name in messages and manifests: the step's name and, after a space, the product's own."""
        return f"{self.name} {product.name}" if product.name else self.name


def is_due(run: Run, step: Step, product: Product) -> bool:
    """Whether a product would be made without --force."""
    state = describe_state(product.inputs(), product.parameters)
    return bool(find_changes(read_manifest(run, step.label(product)), state, product.outputs))


def make_product(run: Run, step: Step, product: Product, force: bool = False) -> None:
    """Make a product unless its manifest shows the same inputs and parameters, and all its outputs exist.

    A different version of the code is reported, but does not make the product stale. With `force` it is made even if nothing has
    changed, after removing unfinished work.

    Raises:
        UserError: when another process works in the run folder.
        RuntimeError: when the work did not write all outputs.
    """
    label, inputs = step.label(product), product.inputs()
    state, before = describe_state(inputs, product.parameters), read_manifest(run, label)
    changed = find_changes(before, state, product.outputs)
    if not changed and not force:
        other = "" if before.get("code") == code_version() else "  (made by another version of the code; --force makes it again)"
        print_once(f"{label}: up to date{other}")
        return
    print_once(f"{label}: {'; '.join(changed) if changed and before else 'starting' if not before else 'forced'}")
    with hold_folder(run.folder, label) if is_first_process() else nullcontext():
        if force and is_first_process():
            for folder in product.unfinished:
                with suppress(OSError):
                    remove_folder(folder)
        start = time.monotonic()
        product.work()
        seconds = round(time.monotonic() - start, 1)
        missing = [path for path in product.outputs if not path.exists()]
        if missing:
            raise RuntimeError(f"{label} did not write {missing[0]}")
        if is_first_process():
            made = {
                "code": code_version(),
                "versions": versions(),
                "threads": count_threads(),
                "recipe": run.recipe.fingerprint(),
                "seconds": seconds,
                "outputs": list(map(str, product.outputs)),
                "sizes": measure_sizes(product.outputs),
            }
            write_manifest(run, label, state | made)
            os.utime(run.folder)
    print_once(f"{label}: done in {seconds:.1f} s")
