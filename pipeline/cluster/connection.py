"""Reaching a Ray cluster, or starting one on this machine for the time of a command."""

import importlib
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from image_copies.data.errors import UserError
from image_copies.data.installation import name_install
from image_copies.data.process import usable_cores
from image_copies.pipeline.cluster import reaper

ANSWER_SECONDS = 5.0  # for an address to accept a connection, and to answer
HTTP2_SETTINGS, HTTP2_FRAME_HEAD = 4, 9  # type of the frame that a server of HTTP/2 begins with; bytes of a frame's head
HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, HTTP2_SETTINGS, 0, 0, 0, 0, 0])  # RFC 9113, section 3.4
TOKEN_LOGGER = "ray._private.authentication.authentication_token_setup"
TOKEN = "RAY_AUTH_TOKEN"  # environment variable
TOKEN_HINT = (
    "If it asks for a token, this command needs the same one: RAY_AUTH_MODE=token and RAY_AUTH_TOKEN or ~/.ray/auth_token."
)
STORE_BYTES = 2**29  # memory of the object store that --ray local starts; shards pass through files
STARTS = 2  # of an own cluster: on a busy machine one may fail
GONE_SECONDS = 10.0  # how long ended workers are waited for


class Connection:
    """A connection to a cluster ("local", "auto" or host:port), made when it is first needed."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.ray: Any = None
        self._worker: Any = None
        self._reaper: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        """Connect, unless this has been done.

        Raises:
            UserError: when Ray is not installed, nobody answers, or the cluster cannot be used.
        """
        if self.ray is not None:
            return
        ray = import_ray()
        address = _find_address(self.address)
        if address not in ("local", "auto"):
            _require_cluster(address)
        for left in reversed(range(STARTS if address == "local" else 1)):
            try:
                self._reach(ray, address)
                break
            except Exception as error:  # it raises errors of every kind where its processes do not start
                ray.shutdown()
                self._end_own_cluster()
                if not left:
                    raise self._explain(error) from error
            except BaseException:
                self._end_own_cluster()
                raise
        self.ray = ray
        worker = importlib.import_module("image_copies.pipeline.cluster.worker")
        ray.cloudpickle.register_pickle_by_value(worker)  # nodes with other code must be able to run it
        self._worker = ray.remote(worker.Worker)

    def total(self, resource: str) -> float:
        """Return how much of a resource ("CPU", "GPU") all nodes of the cluster have."""
        return float(self.ray.cluster_resources().get(resource, 0.0))

    def start_worker(self, cores: int, gpu_share: float, decoders: int) -> Any:
        """Start an actor somewhere on the cluster, now or when there is room, and return its handle."""
        return self._worker.options(
            num_cpus=cores, num_gpus=gpu_share, max_restarts=0, max_task_retries=0, max_concurrency=2
        ).remote(decoders)

    def stop_workers(self, actors: list[Any]) -> None:
        """End actors, and wait until they are gone, so that they write nothing any more."""
        calls = []
        for actor in actors:
            self.ray.kill(actor, no_restart=True)
            calls.append(actor.progress.remote())
        if calls:
            self.ray.wait(calls, num_returns=len(calls), timeout=GONE_SECONDS)

    def close(self) -> None:
        """Leave the cluster; end it if it was started here."""
        if self.ray is not None:
            self.ray.shutdown()
            self.ray = None
        self._end_own_cluster()

    def _reach(self, ray: ModuleType, address: str) -> None:
        """Connect to the cluster at an address, or start one."""
        options: dict[str, Any] = {"address": address}
        variables: dict[str, str] = {}  # of the processes of an own cluster
        if address == "local":
            logging.getLogger(TOKEN_LOGGER).setLevel(logging.ERROR)  # its token needs no attention
            folder = tempfile.mkdtemp(prefix="ray-")  # its sockets need a short path
            command = [sys.executable, reaper.__file__, folder]
            self._reaper = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
            variables = reaper.mark_processes(folder)
            if TOKEN not in os.environ:
                variables[TOKEN] = secrets.token_hex()  # or Ray writes one to ~/.ray/auth_token, where every user can read it
            os.environ |= variables
            os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 would starve them where other programs run
            options |= {"num_cpus": usable_cores(), "include_dashboard": False}
            options |= {"object_store_memory": STORE_BYTES, "_temp_dir": folder}
        before = signal.getsignal(signal.SIGTERM) if threading.current_thread() is threading.main_thread() else None
        try:
            with _without_dashboard():
                ray.init(**options, log_to_driver=False, configure_logging=False, logging_level=logging.ERROR)
        finally:
            for name in variables:
                del os.environ[name]
            if before is not None:
                signal.signal(signal.SIGTERM, before)  # which Ray takes for itself

    def _explain(self, error: Exception) -> UserError:
        """Return the error of a cluster that cannot be used."""
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
        token = "" if self.address == "local" else f" {TOKEN_HINT}"
        return UserError(
            f"--ray {self.address}: the cluster cannot be used ({reason}). See whether it runs with `ray status`; "
            f"`ray start --head` starts one, --ray local one for this command.{token}"
        )

    def _end_own_cluster(self) -> None:
        """Let the reaper end what is left of a cluster that was started here."""
        if self._reaper is not None:
            self._reaper.communicate()
            self._reaper = None


def import_ray() -> ModuleType:
    """Import Ray, with its usage statistics off.

    Raises:
        UserError: when it is not installed.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # workers on CPUs keep their environment
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UserError(
            f"Ray is not installed, which this needs. Install it, on all nodes, with: {name_install('cluster')}"
        ) from error


def _find_address(named: str) -> str:
    """Return the address that is meant: host:port, "local", or "auto" for a cluster of this machine.

    Raises:
        UserError: when the address has another form.
    """
    if named == "local":
        return named
    address = os.environ.get("RAY_ADDRESS") or named if named == "auto" else named
    if address == "auto":
        return address
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in address:
        raise UserError(f"--ray {named}: {address} is not an address such as 10.0.0.1:6379 (that of ray start --head).")
    return address


def _require_cluster(address: str) -> None:
    """Check that somebody listens there and speaks HTTP/2, as a cluster does: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") not in ("0", "false", "False"):
                return  # it would have to be spoken to by another protocol first
            connection.sendall(HTTP2_GREETING)
            answer = _receive(connection, HTTP2_FRAME_HEAD)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--ray {address}: nobody answers there ({error}). Give the address that `ray start --head` printed, or see whether "
            "the cluster runs with: ray status"
        ) from error
    if len(answer) < HTTP2_FRAME_HEAD or answer[3] != HTTP2_SETTINGS:
        raise UserError(
            f"--ray {address}: what answers there is not a Ray cluster. Give the address that `ray start --head` printed, whose "
            "port is 6379 unless another one was chosen."
        )


def _receive(connection: socket.socket, count: int) -> bytes:
    """Return the first `count` bytes that come in; fewer where the other side ends or says nothing."""
    received = b""
    with suppress(OSError):
        while len(received) < count and (part := connection.recv(count - len(received))):
            received += part
    return received


@contextmanager
def _without_dashboard() -> Iterator[None]:
    """Start a cluster without the process of the dashboard: Ray starts it even with `include_dashboard=False`."""
    services: Any = importlib.import_module("ray._private.services")
    start = getattr(services, "start_api_server", None)
    if start is None:  # another version of Ray
        yield
        return
    services.start_api_server = lambda *arguments, **options: ("", None)
    try:
        yield
    finally:
        services.start_api_server = start
