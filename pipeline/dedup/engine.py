"""Ray Data, as this package uses it: a table with a row for each job, and one row of results for each."""

import importlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tqdm import tqdm

from image_copies.data.errors import UserError
from image_copies.pipeline.cluster.connection import Connection, import_ray

Row = dict[str, Any]
PROBLEM = "problem"  # column of what went wrong with a job
WINDOW = 4096  # jobs that are handed to Ray Data at once: it holds an object for each


@dataclass(frozen=True)
class Engine:
    """A cluster that is connected.

    Attributes:
        ray: The module.
        gpu_share: Share of a GPU for each process with a network; 0 for none, or where the cluster has no GPU.
    """

    ray: Any
    gpu_share: float

    def total(self, resource: str) -> float:
        """Return how much of a resource ("CPU", "GPU") the cluster has now."""
        return float(self.ray.cluster_resources().get(resource, 0.0))

    def run(
        self, jobs: Iterable[Row], build: Callable[[Any], Any], name: str, total: int | None, unit: str = "image"
    ) -> Iterator[Row]:
        """Yield the result of each job, in any order; `build` adds what is done with a row to a `ray.data.Dataset`.

        A result has a column `count`, by which progress is shown, of `total`.

        Raises:
            UserError: The work raised one, or the processes that did it were lost for good.
        """
        jobs = iter(jobs)
        with tqdm(total=total, desc=name, unit=unit, unit_scale=(total or 0) > 10**5) as bar:
            while window := list(islice(jobs, WINDOW)):
                data = self.ray.data.from_items(window, override_num_blocks=len(window))
                try:
                    for row in build(data).iter_rows():
                        if row.get(PROBLEM):
                            raise UserError(row[PROBLEM])
                        bar.update(row["count"])
                        yield row
                except self.ray.exceptions.RayTaskError:
                    raise  # a fault of the program, with its traceback
                except self.ray.exceptions.RayError as error:
                    said = str(error).strip().splitlines()[:1] or [type(error).__name__]
                    raise UserError(f"the cluster could not finish: {said[0]} Repeat the command: it continues.") from error

    def map(self, work: Callable[[Row], Row]) -> Callable[[Any], Any]:
        """Return a `build` that calls a function with each row, on a core each."""
        return lambda data: data.map(guard(work), num_cpus=1)


@contextmanager
def open_engine(where: str, gpu_share: float) -> Iterator[Engine]:
    """Connect to a cluster, or start one on this machine ("local"), inside the `with` block.

    Raises:
        UserError: Ray is not installed, or the cluster cannot be used.
    """
    if not 0 <= gpu_share <= 1:
        raise UserError(f"--ray-gpu {gpu_share}: give the share of a GPU that a worker takes, from 0 (none) to 1.")
    import_ray()
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # Ray Data's own actors are warned about
    connection = Connection(where)
    try:
        connection.connect()
        data = importlib.import_module("ray.data")
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        for logger in ("ray.data", "ray"):
            logging.getLogger(logger).setLevel(logging.ERROR)
        yield Engine(connection.ray, gpu_share if connection.total("GPU") else 0.0)
    finally:
        connection.close()


def guard(work: Callable[..., Row]) -> Callable[..., Row]:
    """Return work on a row that returns the message of an error that the user can mend; Ray Data would wrap it."""

    def guarded(*arguments: Any) -> Row:
        if arguments[-1].get(PROBLEM):
            return dict(arguments[-1])
        try:
            return work(*arguments)
        except UserError as error:
            return {"count": 0, PROBLEM: str(error)}

    return guarded
