"""Files with a final name that a power cut has emptied or shortened are found: made again, or named in a message."""

import random
import time
from pathlib import Path

import pytest

from image_copies.pipeline.run.paths import RunPaths
from image_copies.pipeline.run.recipe import read_recipe
from image_copies.pipeline.run.run import Run
from image_copies.pipeline.run.step import Step
from image_copies.pipeline.steps.definitions import STEPS
from tests.faults.harness import Forks, Ledger, differences, folder_state, scratch_environment
from tests.faults.workshop import Workshop

pytestmark = pytest.mark.faults
RUN = Path("runs/tiny")


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_torn_product_is_made_again(step: Step, workshop: Workshop, forks: Forks, ledger: Ledger) -> None:
    started, name = time.monotonic(), step.name
    job, finished = workshop.job(name), workshop.folder(name)
    run = Run(finished / RUN, read_recipe(finished / RUN / "recipe.yaml"), workshop.top / "data")
    files = [path.relative_to(finished) for product in step.products(run) for path in product.outputs]
    failures, cases = [], 0
    for path in files:
        for share in (0.0, 0.5):
            job.put_back(finished)
            torn = job.where / path
            content = torn.read_bytes()
            torn.write_bytes(content[: int(share * len(content))])
            done, cases = job.run(forks), cases + 1
            wrong = differences(folder_state(job.where), folder_state(finished)) if done.code == 0 else done.said[-1500:]
            if wrong:
                failures.append(f"{path} of {share:.0%}: {done.code}: {wrong}")
    ledger(f"torn products: {name}", cases, failures, time.monotonic() - started)


def test_any_other_torn_file_is_found(workshop: Workshop, forks: Forks, ledger: Ledger) -> None:
    """A training's state, caches, manifests, the run's description: never a traceback; the same result where one is made."""
    started, rng = time.monotonic(), random.Random(0)
    finished, job = workshop.folder("02_embed"), workshop.job("02_embed")
    files = [
        path.relative_to(finished)
        for path in sorted((finished / RUN).rglob("*"))
        if path.is_file() and path.stat().st_size and path.parent.name not in ("tensorboard", "query_images", "contact_sheets")
    ]
    failures, cases = [], 0
    for path in files:
        for share in (0.0, rng.random()):
            job.put_back(finished)
            torn = job.where / path
            content = torn.read_bytes()
            torn.write_bytes(content[: int(share * len(content))])
            (job.where / RunPaths(RUN).manifest("01_train one")).unlink(missing_ok=True)  # so that the training is looked at
            scratch = scratch_environment(job.where)
            ended = [
                forks.run(job.where, name, "--run", RUN, environment=scratch) for name in ("00_augment", "01_train", "02_embed")
            ]
            cases += 1
            unnamed = [done for done in ended if done.code not in (0, 2) or "Traceback" in done.said]
            if unnamed:
                failures.append(f"{path} of {share:.0%}: {unnamed[0].code}: {unnamed[0].said[-1500:]}")
    ledger("other torn files of a run", cases, failures, time.monotonic() - started)
