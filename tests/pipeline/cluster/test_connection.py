"""What is said where no cluster can be reached, in seconds."""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from image_copies.data.errors import UserError
from image_copies.pipeline.cluster import connection
from image_copies.pipeline.cluster.connection import Connection, _require_cluster
from image_copies.pipeline.cluster.options import use_ray
from image_copies.pipeline.cluster.reaper import MARK


@contextmanager
def silent() -> Iterator[int]:
    """A port that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A port that says the same to everybody."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            accepted, _ = server.accept()
            with accepted:
                accepted.recv(100)
                accepted.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


@pytest.mark.parametrize("listener", [silent, lambda: answering(b"HTTP/1.1 400 Bad Request\r\n\r\n"), lambda: answering(b"")])
def test_something_else_that_listens_is_no_cluster(listener: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.5)
    began = time.monotonic()
    with listener() as port, pytest.raises(UserError, match=rf"--ray 127.0.0.1:{port}: what answers there is not a Ray cluster"):
        _require_cluster(f"127.0.0.1:{port}")
    assert time.monotonic() - began < 3


def test_what_begins_as_a_server_of_http_2_may_be_a_cluster() -> None:
    with answering(bytes([0, 0, 6, 4, 0, 0, 0, 0, 0]) + bytes(6)) as port:
        _require_cluster(f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:9", "nobody answers there .*ray status"),
        ("127.0.0.1:99999", "nobody answers there"),
        ("no-such-host.invalid:6379", "nobody answers there"),
        ("head", "is not an address such as"),
        ("ray://head:10001", "is not an address such as"),
    ],
)
def test_an_address_that_nobody_answers_is_named(address: str, message: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: python -m pip install -r requirements-cluster.txt")
    with pytest.raises(UserError, match=f"--ray {address}: .*{message}"):
        Connection(address).connect()


def test_a_cluster_that_does_not_start_ends_in_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed: python -m pip install -r requirements-cluster.txt")

    def fail(**_: Any) -> None:
        raise Exception("The current node timed out during startup.")  # as Ray does, of no kind of its own

    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(
        UserError, match=r"--ray local: the cluster cannot be used \(The current node timed out .*this command\.$"
    ):
        Connection("local").connect()
    with pytest.raises(UserError, match=r"--ray auto: .* If it asks for a token, this command needs the same one: RAY_AUTH"):
        Connection("auto").connect()
    assert MARK not in os.environ


def test_an_own_cluster_that_failed_to_start_is_started_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed: python -m pip install -r requirements-cluster.txt")
    folders = list[str]()

    def fail_once(**options: Any) -> None:
        folders.append(options["_temp_dir"])
        if len(folders) == 1:
            raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", fail_once)
    cluster = Connection("local")
    cluster.connect()
    cluster.close()
    assert len(set(folders)) == 2 and MARK not in os.environ


def test_without_ray_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is not installed
    message = r"Ray is not installed, which this needs\. .* python -m pip install -e '.*\[cluster\]'$"
    with pytest.raises(UserError, match=message), use_ray("local"):
        pass
