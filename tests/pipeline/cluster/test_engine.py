"""Works on a real cluster of two nodes: results, losses, errors, nodes that differ, GPUs; addresses that nobody answers."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from image_copies.data.errors import StorageError, UserError
from image_copies.data.shards import Place, ShardWork, run_shards
from image_copies.pipeline import cluster
from image_copies.pipeline.cluster import use_ray
from tests.pipeline.cluster.conftest import start_nodes

pytestmark = [pytest.mark.cluster, pytest.mark.quick]
SHARDS = 20


def square(state: int, shard: int, place: Place) -> int:
    return shard * shard


def square_work(work: Callable[[Any, int, Place], Any] = square, **more: Any) -> Any:
    return ShardWork("squaring", "number", more.pop("open", int), work, lambda shard: 1, **more)


def test_two_networks_share_a_gpu_and_decode_on_cores() -> None:
    def look(state: int, shard: int, place: Place) -> tuple[str | None, int | None, int]:
        time.sleep(0.3)  # so that both workers get some
        return os.environ.get("CUDA_VISIBLE_DEVICES"), place.decoders, os.getpid()

    with start_nodes({"num_cpus": 0}, {"num_cpus": 4, "num_gpus": 1}) as claiming, use_ray(claiming.address, 0.5):
        found = list(run_shards(square_work(look, uses_gpu=True), range(SHARDS), SHARDS))
        assert {(device, decoders) for device, decoders, _ in found} == {("0", 1)}
        assert len({process for _, _, process in found}) == 2
        plain = run_shards(square_work(look), range(8), 8)
        assert {(device or None, decoders) for device, decoders, _ in plain} == {(None, 0)}


@pytest.mark.parametrize("address", ["127.0.0.1:9", "127.0.0.1:99999", "no-such-host.invalid:6379", "head"])
def test_an_address_that_nobody_answers_is_named(address: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: python -m pip install -r requirements-cluster.txt")
    with use_ray(address), pytest.raises(UserError, match=f"--ray {address}: the cluster cannot be used .*ray status"):
        list(run_shards(square_work(), range(3), 3))


def test_without_ray_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is not installed
    message = r"Ray is not installed\. .* python -m pip install -e '.*\[cluster\]'$"
    with pytest.raises(UserError, match=message), use_ray("local"):
        pass


@pytest.fixture(scope="module")
def connected(nodes: Any) -> Iterator[None]:
    """One connection for all tests from here on: each would begin with workers that import everything."""
    with use_ray(nodes.address):
        yield


def run(work: Any) -> list[Any]:
    return list(run_shards(work, range(SHARDS), SHARDS))


def die(folder: Path, times: int, state: int, shard: int, place: Place) -> int:
    """Square, but kill this worker at odd shards, so many times at each."""
    seen = len(list(folder.glob(f"{shard}-*")))
    if shard % 8 == 1 and seen < times:
        (folder / f"{shard}-{seen}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return shard * shard


@pytest.mark.usefixtures("connected")
def test_results_come_in_order_and_what_is_opened_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def open_noted() -> int:
        (tmp_path / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        return 0

    for _ in range(2):
        assert run(square_work(open=open_noted, opened_as="the same")) == [n * n for n in range(SHARDS)]
    assert capsys.readouterr().out.count("squaring: 20 numbers in 20 shards on Ray") == 2
    opened = [path.name.partition("-")[0] for path in tmp_path.iterdir()]
    assert 1 <= len(opened) == len(set(opened))


@pytest.mark.usefixtures("connected")
def test_lost_workers_cost_their_shard_only(tmp_path: Path) -> None:
    assert run(square_work(partial(die, tmp_path, 1))) == [n * n for n in range(SHARDS)]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.usefixtures("connected")
def test_a_shard_that_kills_every_worker_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "RETRIES", 1)
    with pytest.raises(UserError, match=r"gave up on a shard after 2 attempts .* memory is lacking"):
        run(square_work(partial(die, tmp_path, 9)))


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device", "x.h5"),
        StorageError("s3://bucket/a.jpg cannot be read: there are no credentials"),
        ZeroDivisionError("by zero"),
    ],
)
def test_errors_of_the_work_are_raised_as_here(error: Exception) -> None:
    def fail(state: int, shard: int, place: Place) -> int:
        raise error

    with pytest.raises(type(error)) as raised:
        run(square_work(fail))
    assert raised.value.args == error.args


@pytest.mark.usefixtures("connected")
def test_a_node_that_differs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(b"ours")
    work = square_work(inputs=(weights,), folder=tmp_path)
    described = cluster.describe_needed(work)
    assert run(work) == [n * n for n in range(SHARDS)]
    for name in ("code", "numpy", str(weights), f"the folder {tmp_path}"):
        monkeypatch.setattr(cluster, "describe_needed", lambda _, name=name: described | {name: "another"})
        with pytest.raises(UserError) as refused:
            run(work)
        assert f"has {name}: {described[name]}; this command has {name}: another." in str(refused.value)


@pytest.mark.usefixtures("connected")
def test_images_that_this_machine_sees_must_be_seen_by_nodes(tmp_path: Path) -> None:
    here, nowhere = tmp_path / "a.jpg", tmp_path / "b.jpg"
    here.touch()

    def lacking(*paths: Path) -> Any:
        def work(state: int, shard: int, place: Place) -> int:
            place.report_absent(paths)
            return shard

        return square_work(work)

    assert run(lacking(nowhere)) == list(range(SHARDS))
    with pytest.raises(UserError, match=r" does not see 1 of the images, the first is .*a\.jpg, which this machine sees"):
        run(lacking(here, nowhere))
