"""Deduplication on a cluster: folders, tars and tables, repeated, killed, and with inputs that changed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from image_copies.data.images import ImageSet
from image_copies.matching.extractor import checkpoint_extractor
from image_copies.models.shipped import SHIPPED
from image_copies.pipeline.deduplicate import main
from tests.pictures import write_tar
from tests.pipeline.cluster.conftest import STORE_BYTES, start_nodes
from tests.pipeline.cluster.processes import processes_below

pytestmark = pytest.mark.cluster
TOP = Path(__file__).parents[3]
LISTS = ("keep", "remove", "review", "unreadable")


def read(folder: Path, name: str) -> Any:
    return pytest.importorskip("pandas").read_parquet(folder / f"{name}.parquet")


def check_vectors(folder: Path, output: Path) -> None:
    """Check that the pictures of a folder have the vectors that the matcher makes, rounded."""
    parquet = pytest.importorskip("pyarrow.parquet")
    network = checkpoint_extractor(SHIPPED)
    paths = sorted(folder.glob("R*.jpg"))
    alone = network.extract_all(ImageSet([str(path) for path in paths], paths)).vectors.astype(np.float16)
    tables = [parquet.read_table(path, partitioning=None) for path in sorted((output / "vectors").rglob("*.parquet"))]
    together = {row["id"]: row["vector"] for table in tables for row in table.to_pylist()}
    assert all(np.array_equal(np.array(together[str(path)], np.float16), row) for path, row in zip(paths, alone, strict=True))


@pytest.mark.quick
def test_copies_in_folders_tars_and_tables(nodes: Any, sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    output = tmp_path / "out"

    def run() -> str:
        assert main(["--input", str(sources), "--output", str(output), "--ray", nodes.address]) == 0
        return capsys.readouterr().out

    assert "already" not in run()
    assert main(["--input", str(sources), "--output", str(tmp_path / "here")]) == 0  # without Ray
    assert equal(output, tmp_path / "here")
    capsys.readouterr()
    first = {name: read(output, name) for name in LISTS}
    counts = {name: len(found) for name, found in first.items()}
    removed = first["remove"].set_index("id")
    assert counts["keep"] + counts["remove"] + counts["unreadable"] == 11 and counts["unreadable"] == 1
    assert first["unreadable"]["error"].tolist() == ["is not an image that can be read"]
    copies = {name.rpartition("/")[2]: other.rpartition("/")[2] for name, other in removed["copy_of"].items()}
    assert copies == {"R000000.jpg": "a.jpg", "b.jpg": "R000001.jpg", "1": "R000003.jpg", "0": "R000002.jpg"}
    assert set(removed["class"]) == {"same file", "certain"}
    assert first["review"].empty

    check_vectors(sources / "folder", output)

    before = {path: path.stat().st_mtime_ns for path in (output / "vectors").rglob("*.parquet")}
    assert "11 pictures are embedded already" in run()
    assert before == {path: path.stat().st_mtime_ns for path in (output / "vectors").rglob("*.parquet")}
    assert all(first[name].equals(read(output, name)) for name in LISTS)

    assert main(["--output", str(output), "--apply", str(tmp_path / "filtered")]) == 0
    (table,) = (tmp_path / "filtered").glob("*.parquet")
    assert parquet.read_table(table)["n"].to_pylist() == []  # row 1 is the path of a file that stays

    write_tar(sources / "shard.tar", {"z.jpg": (sources / "folder" / "R000004.jpg").read_bytes()})
    (sources / "table.parquet").unlink()
    assert "7 pictures are embedded already" in run()
    assert read(output, "remove")["copy_of"].tolist() == [f"{sources}/shard.tar/z.jpg"]


def test_cores_decode_for_networks_on_gpus(sources: Path, tmp_path: Path) -> None:
    with start_nodes({"num_cpus": 1, "num_gpus": 1}) as cluster:  # it claims to have one
        assert main(["--input", str(sources), "--output", str(tmp_path / "out"), "--ray", cluster.address]) == 0
    check_vectors(sources / "folder", tmp_path / "out")
    assert len(read(tmp_path / "out", "remove")) == 3


def test_inputs_are_compared_with_test_sets_only(
    nodes: Any, sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--input", str(sources / "shard.tar"), str(sources / "shard.tar"), "--against", str(sources / "folder")]
    assert main([*arguments, "--output", str(tmp_path / "out"), "--ray", nodes.address]) == 0
    removed, review = read(tmp_path / "out", "remove"), read(tmp_path / "out", "review")
    assert set(removed["id"]) == {"a.jpg", "b.jpg"} and removed["copy_of"].str.endswith(("R000000.jpg", "R000001.jpg")).all()
    assert review.empty

    capsys.readouterr()
    turned = ["--input", str(sources / "folder"), "--against", str(sources / "shard.tar")]
    assert main([*turned, "--output", str(tmp_path / "out"), "--ray", nodes.address]) == 0
    said = capsys.readouterr().out
    assert "7 pictures are embedded already" in said and "2 pictures are embedded already" in said and "sorting" not in said


@pytest.fixture
def many_sources(sources: Path) -> Path:
    """The sources with 40 more copies of the tar."""
    for copy in range(40):
        shutil.copy(sources / "shard.tar", sources / f"{copy:02d}.tar")
    return sources


def start(sources: Path, output: Path, where: str = "local") -> "subprocess.Popen[bytes]":
    arguments = ["--input", str(sources), "--output", str(output), "--ray", where]
    command = [sys.executable, str(TOP / "pipeline/deduplicate.py"), *arguments]
    return subprocess.Popen(command, cwd=output.parent, stdout=subprocess.DEVNULL, start_new_session=True)


def written(output: Path) -> dict[Path, int]:
    """The files of vectors with their times."""
    return {path: path.stat().st_mtime_ns for path in (output / "vectors").rglob("[!.]*.parquet")}


def await_more(run: "subprocess.Popen[bytes]", output: Path, done: int) -> None:
    limit = time.monotonic() + 180
    while len(written(output)) == done and time.monotonic() < limit and run.poll() is None:
        time.sleep(0.02)


def equal(one: Path, other: Path) -> bool:
    return all(read(one, name).equals(read(other, name)) for name in LISTS)


def test_a_stopped_and_a_killed_run_are_continued_to_the_same_lists(many_sources: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: python -m pip install -r requirements-cluster.txt")
    stopped, whole, done = tmp_path / "stopped", tmp_path / "whole", dict[Path, int]()
    for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        run = start(many_sources, stopped)
        await_more(run, stopped, len(done))
        os.killpg(run.pid, number)
        assert run.wait(60) == code
        assert done.items() < written(stopped).items() and len(written(stopped)) < 43
        done = written(stopped)
    assert start(many_sources, stopped).wait(300) == 0 and start(many_sources, whole).wait(300) == 0
    assert done.items() <= written(stopped).items()
    assert equal(stopped, whole)


def test_a_killed_worker_and_a_killed_node_change_nothing(three_nodes: Any, many_sources: Path, tmp_path: Path) -> None:
    output, whole = tmp_path / "out", tmp_path / "whole"
    run = start(many_sources, output, three_nodes.address)
    await_more(run, output, 0)
    workers = [number for (number, _), name in processes_below({os.getpid()}).items() if name.startswith("ray::work_on")]
    os.kill(workers[0], signal.SIGKILL)
    await_more(run, output, len(written(output)))
    three_nodes.remove_node(three_nodes.list_all_nodes()[1], allow_graceful=False)
    three_nodes.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
    assert len(written(output)) < 43
    assert run.wait(300) == 0 and start(many_sources, whole, three_nodes.address).wait(300) == 0
    assert equal(output, whole)
