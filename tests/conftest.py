"""What every test shares: no hub, one thread, the longest files first, and the optional folder of real photos."""

import io
import json
import logging
import os
import runpy
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import tqdm  # noqa: F401  # reads the environment now, before a command that a test runs here sets it for itself

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # pytest runs in as many processes as there are cores
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files: begun last, one process would work on them while the others wait."""
    items.sort(key=lambda item: not item.path.is_relative_to(Path(__file__).parent / "end_to_end"))


@pytest.fixture(scope="session")
def run_command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command of pipeline/ in a folder as a user would, but in this process, which need not import torch again.

    A traceback, which would end the command with code 1, is raised here.
    """

    def run(where: Path, name: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(__file__).parents[1] / "pipeline" / f"{name}.py"), *map(str, arguments)]
        output, errors = io.StringIO(), io.StringIO()
        code: object = 0
        before = signal.getsignal(signal.SIGTERM)
        with pytest.MonkeyPatch.context() as patched, chdir(where), redirect_stdout(output), redirect_stderr(errors):
            patched.setattr("sys.argv", command)
            for variable, value in environment.items():
                patched.setenv(variable, value)
            try:
                runpy.run_path(command[0], run_name="__main__")
            except SystemExit as end:
                code = end.code or 0
            finally:
                signal.signal(signal.SIGTERM, before)  # which every command takes for itself
        assert isinstance(code, int), code
        return subprocess.CompletedProcess(command, code, output.getvalue(), errors.getvalue())

    return run


@pytest.fixture(scope="session")
def copysets() -> Path:
    """The folder of real photos with ground truth that COPYSETS names; the test is skipped without it."""
    folder = os.environ.get("COPYSETS")
    if not folder:
        pytest.skip("COPYSETS is not set to a folder of photos with ground truth")
    if not Path(folder).is_dir():
        pytest.skip(f"COPYSETS names {folder}, which is not a folder")
    return Path(folder)


@pytest.fixture(scope="session")
def object_store() -> Iterator["ObjectStore"]:
    """A server in this process that speaks S3 (moto's), and the variables by which every client finds it.

    It answers on a free port of 127.0.0.1 until the tests end, and keeps its objects in memory.
    """
    pytest.importorskip("s3fs", reason="s3fs is not installed: python -m pip install -r requirements-cluster.txt")
    server = pytest.importorskip("moto.server", reason="moto[server] is not installed: python -m pip install -e '.[dev]'")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patched:
        started = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        started.start()
        host, port = started.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_MAX_ATTEMPTS": "1",
        }.items():
            patched.setenv(name, value)
        _forget_connections()
        yield ObjectStore(started)
        _forget_connections()
        started.stop()


@pytest.fixture
def forget_connections(object_store: "ObjectStore") -> Iterator[Callable[[], None]]:
    """A function that drops all connections to the server: the next access opens one with the variables as they are then.

    They are dropped after the test too.
    """
    yield _forget_connections
    _forget_connections()


def _forget_connections() -> None:
    import s3fs

    from image_copies.data import remote

    s3fs.S3FileSystem.clear_instance_cache()
    remote.open_file_system.cache_clear()


class ObjectStore:
    """Buckets of the test's S3 server."""

    def __init__(self, server: Any) -> None:
        import s3fs

        self._server = server._server
        self.files = s3fs.S3FileSystem(use_listings_cache=False)

    def make_bucket(self, name: str, files: dict[str, bytes]) -> str:
        """Make a bucket with these files and return its URL."""
        self.files.mkdir(name)
        for key, content in files.items():
            self.files.pipe_file(f"{name}/{key}", content)
        return f"s3://{name}"

    @contextmanager
    def failing(self, requests: int) -> Iterator[None]:
        """Answer the next requests with an internal error."""
        answer, left = self._server.app, [None] * requests

        def fail(environment: Any, start: Callable[..., Any]) -> Any:
            if not left:
                return answer(environment, start)
            left.pop()
            start("500 Internal Server Error", [("Content-Type", "application/xml")])
            message = b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"
            return [] if environment["REQUEST_METHOD"] == "HEAD" else [message]

        self._server.app = fail
        try:
            yield
        finally:
            self._server.app = answer


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an untrained network: 16 dimensions, of pictures of 32 pixels. Tests only read it."""
    from tests.networks import save_small  # imported here: most tests do without torch

    return save_small(tmp_path_factory.mktemp("model") / "small.safetensors")


@pytest.fixture
def own_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's folder, in which the desktop's trash and the lock of all plans lie too: tests run side by side."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


SMALL_RECIPE = """
queries: {count: 60, copies: 30, augmentation: {intensity: 0.3}}
models:
  one:
    descriptor: {backbone: test_efficientnet, dimensions: 16}
    stages: [{image_size: 32}]
embedding: {workers: 0}
ensemble: {dimensions: [8], eigen_power: [0]}
normalization: {methods: method2, direction_neighbours: 10}
"""


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory, run_command: Callable[..., subprocess.CompletedProcess[str]]) -> Path:
    """A run up to step 03 on little pictures, with an untrained network; its data lie beside it in data/."""
    # imported here: most tests do without torch
    import torch

    from tests.networks import save_small
    from tests.pictures import write_images

    where = tmp_path_factory.mktemp("small")
    run = where / "run"
    for folder, prefix, count in (("training_images", "T", 80), ("reference_images", "R", 15), ("query_images", "Q", 15)):
        write_images(where / "data" / folder, count, prefix, seed=1)
    run.mkdir()
    (run / "recipe.yaml").write_text(SMALL_RECIPE)
    (run / "run.json").write_text(json.dumps({"data": str(where / "data")}))
    with torch.random.fork_rng():
        torch.manual_seed(0)  # not what earlier tests left: with some networks another picture is nearer than the same one
        save_small(run / "models" / "one" / "stage-1.safetensors")
    for step in ("00_augment", "02_embed", "03_ensemble"):
        done = run_command(where, step, "--run", run)
        assert done.returncode == 0, done.stderr
    return run
