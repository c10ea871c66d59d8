"""Where a step searches: on this process's GPU, if torch is installed and finds one."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from image_copies.submissions.search.backend import use_backend


@contextmanager
def search_on_gpu() -> Iterator[None]:
    """Search on this process's GPU, if there is one, inside the `with` block or the decorated function."""
    if find_spec("torch") is None:
        yield
        return
    from image_copies.models.device import best_device  # imported here: files are scored and validated without torch, too

    device = best_device()
    if device.type == "cpu":
        yield
        return
    from image_copies.pipeline.steps.gpu_search import TorchSearch

    with use_backend(TorchSearch(device)):
        yield
