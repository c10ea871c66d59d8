"""The engine's book-keeping, with threads in place of Ray: results, losses, slow workers, refused nodes."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from image_copies.data.errors import StorageError, UserError
from image_copies.data.shards import Place, ShardWork, run_shards, use_engine
from image_copies.pipeline.cluster import engine as engines
from image_copies.pipeline.cluster.engine import RayEngine
from image_copies.pipeline.cluster.identity import describe_code, describe_packages
from image_copies.pipeline.cluster.worker import Worker
from tests.pipeline.cluster.fake_ray import FakeConnection

SHARDS = 40


class LocalWorker(Worker):
    """A worker in this process, which has no node of Ray's."""

    about: dict[str, Any]

    def introduce(self) -> dict[str, Any]:
        return {"node": "n1", "id": "1", "process": 1, "code": describe_code(), "packages": describe_packages()} | self.about


def make_worker(**about: Any) -> Callable[[int], LocalWorker]:
    def make(decoders: int) -> LocalWorker:
        made = LocalWorker(decoders)
        made.about = about
        return made

    return make


def square_work(work: Callable[[int, int, Place], int] = lambda state, shard, place: shard * shard, **more: Any) -> Any:
    return ShardWork("squaring", "number", lambda: 0, work, lambda shard: 1, **more)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "SHORT_SECONDS", 0)
    monkeypatch.setattr(engines, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr("image_copies.pipeline.cluster.worker._use_one_thread", lambda: None)


def run_on(connection: FakeConnection, work: Any, shards: Iterator[int] | range = range(SHARDS)) -> list[int]:
    with use_engine(RayEngine(connection)):  # type: ignore[arg-type]  # it offers what the engine calls
        return list(run_shards(work, shards, SHARDS))


def test_results_come_in_order_and_each_shard_is_worked_on_once(capsys: pytest.CaptureFixture[str]) -> None:
    seen: Counter[int] = Counter()

    def work(state: int, shard: int, place: Place) -> int:
        seen[shard] += 1
        time.sleep(random.random() / 200)
        return shard * shard

    assert run_on(FakeConnection({"CPU": 3}, make_worker()), square_work(work)) == [n * n for n in range(SHARDS)]
    assert set(seen.values()) == {1} and len(seen) == SHARDS
    assert "squaring: 40 numbers in 40 shards by" in capsys.readouterr().out
    assert list(run_shards(square_work(), range(3), 3)) == [0, 1, 4]  # without an engine


@pytest.mark.parametrize("losing", [False, True])
def test_workers_are_told_which_shard_they_get_next(losing: bool) -> None:
    """Only at the end, when nothing else is left for another worker, and after a loss, it may be given to that one."""
    told: dict[int, list[tuple[int, int | None]]] = {}
    lost: list[int] = []

    def work(state: int, shard: int, place: Place) -> int:
        told.setdefault(threading.get_ident(), []).append((shard, place.upcoming))
        time.sleep(random.random() / 200)
        return shard * shard

    def dies(name: str, arguments: tuple[Any, ...]) -> bool:
        if losing and name == "work" and arguments[1] in (3, 11) and arguments[1] not in lost:
            lost.append(arguments[1])
            return True
        return False

    connection = FakeConnection({"CPU": 2}, make_worker(), dies)
    assert run_on(connection, square_work(work, looks_ahead=True)) == [n * n for n in range(SHARDS)]
    assert sorted(shard for calls in told.values() for shard, _ in calls) == list(range(SHARDS))
    others = [one[1] for calls in told.values() for one, then in pairwise(calls) if one[1] != then[0]]
    hints = [upcoming for calls in told.values() for _, upcoming in calls if upcoming is not None]
    assert len(hints) >= SHARDS - 6 and len(others) <= 3 and len(lost) == 2 * losing


def test_lost_workers_cost_their_shard_only() -> None:
    lost: list[int] = []

    def dies(name: str, arguments: tuple[Any, ...]) -> bool:
        if name == "work" and arguments[1] % 2 and arguments[1] not in lost:
            lost.append(arguments[1])
            return True
        return False

    connection = FakeConnection({"CPU": 3}, make_worker(), dies)
    assert run_on(connection, square_work()) == [n * n for n in range(SHARDS)]
    assert len(lost) == 20


def test_a_shard_that_kills_every_worker_is_named() -> None:
    connection = FakeConnection({"CPU": 2}, make_worker(), lambda name, arguments: name == "work" and arguments[1] == 7)
    with pytest.raises(UserError, match=r"5 workers were lost at the same shard \(7\), .* memory is lacking"):
        run_on(connection, square_work())
    assert not any(actor.alive for actor in connection.actors)


def test_workers_that_never_begin_end_the_command() -> None:
    connection = FakeConnection({"CPU": 2}, make_worker(), lambda name, arguments: True)
    with pytest.raises(UserError, match="20 workers ended before they could begin"):
        run_on(connection, square_work())


def test_a_slow_shard_is_given_to_a_second_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "SLOW_SECONDS", 0.1)
    stuck, tried = threading.Event(), Counter[int]()

    def work(state: int, shard: int, place: Place) -> int:
        tried[shard] += 1
        if shard == 5 and tried[shard] == 1:
            stuck.wait(20)
        return shard * shard

    connection = FakeConnection({"CPU": 2}, make_worker())
    began = time.monotonic()
    assert run_on(connection, square_work(work)) == [n * n for n in range(SHARDS)]
    assert time.monotonic() - began < 10 and tried[5] == 2
    assert sum(not actor.alive for actor in connection.actors) == 1  # the slow one is ended: it must write nothing any more
    stuck.set()


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"code": "v0 (123)"}, r"node n1 has another version of the code: v0 \(123\); this command has "),
        ({"packages": describe_packages() | {"numpy": "1.0"}}, r"node n1 has numpy 1\.0; this command has numpy "),
    ],
)
def test_a_node_with_other_code_or_packages_is_refused(about: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run_on(FakeConnection({"CPU": 1}, make_worker(**about)), square_work())


def test_a_node_with_other_weights_or_without_the_folder_is_refused(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(b"ours")

    class Elsewhere(LocalWorker):
        about: dict[str, Any] = {}  # noqa: RUF012 - of a test

        def open(self, *arguments: Any) -> Any:
            kind, digests = super().open(*arguments)
            return kind, dict.fromkeys(digests, "0123456789abcdef")

    with pytest.raises(
        UserError, match=r"node n1 has other weights in .*weights \(SHA-256 0123456789abcdef…\) than this machine"
    ):
        run_on(FakeConnection({"CPU": 1}, Elsewhere), square_work(inputs=(weights,)))
    with pytest.raises(UserError, match=r"node n1 does not see .*nowhere\. The folder of the results must be shared"):
        run_on(FakeConnection({"CPU": 1}, make_worker()), square_work(folder=tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"node n1 does not see .*none, which this command reads"):
        run_on(FakeConnection({"CPU": 1}, make_worker()), square_work(inputs=(tmp_path / "none",)))


def test_a_node_without_the_images_is_refused_and_images_that_nobody_has_are_not(tmp_path: Path) -> None:
    here, nowhere = tmp_path / "a.jpg", tmp_path / "b.jpg"
    here.touch()

    def lacking(*paths: Path) -> Any:
        def work(state: int, shard: int, place: Place) -> int:
            place.report_absent(paths)
            return shard

        return square_work(work)

    assert run_on(FakeConnection({"CPU": 2}, make_worker()), lacking(nowhere)) == list(range(SHARDS))
    with pytest.raises(UserError, match=r"node n1 does not see 1 of the images, the first is .*a\.jpg, which this machine sees"):
        run_on(FakeConnection({"CPU": 2}, make_worker()), lacking(here, nowhere))


def test_errors_of_the_work_reach_the_user(tmp_path: Path) -> None:
    def full(state: int, shard: int, place: Place) -> int:
        raise OSError(28, "No space left on device", "x.h5")

    with pytest.raises(UserError, match="node n1: the disk is full"):
        run_on(FakeConnection({"CPU": 1}, make_worker()), square_work(full))

    def locked_out(state: int, shard: int, place: Place) -> int:
        raise StorageError("s3://bucket/a.jpg cannot be read: there are no credentials")

    with pytest.raises(UserError, match=r"node n1: s3://bucket/a\.jpg cannot be read: there are no credentials"):
        run_on(FakeConnection({"CPU": 1}, make_worker()), square_work(locked_out))

    def wrong(state: int, shard: int, place: Place) -> int:
        raise ZeroDivisionError

    with pytest.raises(RuntimeError, match=r"(?s)node n1 failed:.*ZeroDivisionError"):
        run_on(FakeConnection({"CPU": 1}, make_worker()), square_work(wrong))


def test_a_network_takes_its_share_of_a_gpu_and_decodes_beside_it() -> None:
    connection = FakeConnection({"CPU": 32, "GPU": 2}, make_worker())
    engine = RayEngine(connection, 0.5)  # type: ignore[arg-type]
    with use_engine(engine):
        list(run_shards(square_work(uses_gpu=True), range(2), 2))
        assert connection.started == [(8, 0.5, 7)] * 2
        list(run_shards(square_work(), range(2), 2))  # needs cores, which the others give back
    assert connection.started[2:] == [(1, 0, 0)] * 2
    assert not any(actor.alive for actor in connection.actors[:2])


def test_a_worker_that_is_late_for_one_work_opens_the_next(tmp_path: Path) -> None:
    late = threading.Event()

    class Late(LocalWorker):
        about: dict[str, Any] = {}  # noqa: RUF012 - of a test
        made = 0

        def __init__(self, decoders: int) -> None:
            super().__init__(decoders)
            Late.made += 1
            self.late = Late.made == 2

        def open(self, *arguments: Any) -> Any:
            if self.late:
                late.wait(20)
            return super().open(*arguments)

    (tmp_path / "first").mkdir()
    connection = FakeConnection({"CPU": 1}, Late)
    with use_engine(RayEngine(connection)):  # type: ignore[arg-type]
        list(run_shards(square_work(folder=tmp_path / "first"), range(9), 9))
        (tmp_path / "first").rmdir()

        def work(state: int, shard: int, place: Place) -> int:
            late.set()
            time.sleep(0.02)
            return shard

        assert list(run_shards(square_work(work), range(20), 20)) == list(range(20))


def test_what_a_work_opens_is_kept_for_the_next_one() -> None:
    opened = []

    def opener() -> int:
        opened.append(1)
        return 0

    connection = FakeConnection({"CPU": 1}, make_worker())
    with use_engine(RayEngine(connection)):  # type: ignore[arg-type]
        for _ in range(3):
            work = replace(square_work(), open=opener, opened_as="the same")
            list(run_shards(work, range(9), 9))
    assert 1 <= len(opened) <= len(connection.actors) == 2  # one, and one more for a node that may join
