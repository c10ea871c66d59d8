"""The process that a deduplication is started in holds no object for each picture."""

import hashlib
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from image_copies.data.shards import Place, ShardWork, use_engine
from image_copies.matching.dedup import blocks, deduplication, inputs, vectors
from image_copies.matching.dedup.deduplication import DedupSettings, deduplicate
from image_copies.matching.dedup.inputs import list_containers
from image_copies.matching.dedup.vectors import Embedding, write_container
from image_copies.matching.output import Output

PICTURES = 1500
BYTES = 40  # for each picture more; its path alone takes over 100
BYTES_PAIRED = 220  # for each picture more where every one has a copy: columns, and no objects


def open_nothing() -> Any:
    return SimpleNamespace(normalize=lambda vectors: vectors)


class Apart:
    """Works on shards in a process of its own."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self.pool = pool

    def run(self, work: ShardWork[Any, Any, Any], shards: Iterable[Any], total: int | None, done: int) -> Iterator[Any]:
        for shard in shards:
            yield self.pool.submit(do_alone, work.open, work.work, shard).result()


def do_alone(opener: Callable[[], Any], work: Callable[[Any, Any, Place], Any], shard: Any) -> Any:
    return work(opener(), shard, Place(lambda count: None, lambda paths: None))


def make_up(folder: Path, count: int, paired: bool) -> None:
    """Empty files, and vectors that an earlier run would have left; where they are paired, every second is that before it."""
    made = Embedding(open_nothing, "made up", folder / "out")
    for number in range(count):
        (folder / "in" / f"{number // 100}").mkdir(parents=True, exist_ok=True)
        (folder / "in" / f"{number // 100}" / f"{number}.jpg").touch()
    for container in list_containers([folder / "in"], made.folder):
        rows = list[dict[str, Any]]()
        for name in container.names:
            facts: dict[str, Any] = dict.fromkeys(("place", "bytes", "width", "height"), 0)
            facts |= {"id": name, "source": container.source, "flat": False, "error": None}
            rows.append(facts | {"sha256": hashlib.sha256(name.encode()).digest()})
        seed = zlib.crc32(container.names[0].encode())
        made_up = np.random.default_rng(seed).standard_normal((len(rows), 8)).astype(np.float32)
        if paired:
            made_up[1::2] = made_up[: len(rows) // 2 * 2 : 2]
        write_container(made, container, zip(rows, made_up, strict=True), [])


@pytest.mark.parametrize(("paired", "most"), [(False, BYTES), (True, BYTES_PAIRED)])
def test_the_driver_holds_no_object_for_each_picture(
    paired: bool, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("faiss")
    pytest.importorskip("pyarrow")
    for module, name, value in (
        (inputs, "BATCH_FILES", 250),
        (vectors, "FILE_PICTURES", 250),
        (deduplication, "ROWS_AT_ONCE", 100),
        (blocks, "EXACT", 100),
        (blocks, "PICTURES_PER_ROOT", 20),
    ):
        monkeypatch.setattr(module, name, value)
    extractor: Any = SimpleNamespace(source=open_nothing, identity="made up", networks=[SimpleNamespace(sizes=(32,))], files=())
    rule: Any = SimpleNamespace(threshold=lambda count: -1e-9, against=lambda sample: rule)

    def peak(count: int) -> int:
        folder = tmp_path / f"{count}"
        if not folder.exists():
            make_up(folder, count, paired)
        settings = DedupSettings([folder / "in"], [], folder / "out", "image", ())
        with ProcessPoolExecutor(1) as pool:
            pool.submit(len, ()).result()
            tracemalloc.start()
            try:
                with use_engine(Apart(pool)):
                    deduplicate(extractor, rule, settings, Output())
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    peak(100)  # what is imported and kept once
    # the lowest of two: Python's table of interned strings, with the parts of all paths, grows by megabytes at some time
    few, many = (min(peak(count), peak(count)) for count in (PICTURES, 4 * PICTURES))
    said = capsys.readouterr().out
    assert f"{4 * PICTURES:,} pictures stay" in said
    assert (", 0 of them" not in said) == paired
    assert many - few < 3 * PICTURES * most
