import subprocess
import sys
from pathlib import Path

import faiss
import numpy as np
import pytest

from data.errors import UserError
from submissions.ensemble.projection import scale_to_unit_length
from submissions.search import approximate
from submissions.search.approximate import INDEX_FILE, LISTS_FILE, build_index, measure_recall, open_index
from submissions.vectors.concatenated import ConcatenatedVectors, open_concatenated
from submissions.vectors.files import write_vectors


def stored(folder: Path, count: int, seed: int, unreadable: int = 0) -> ConcatenatedVectors:
    values = scale_to_unit_length(np.random.default_rng(seed).standard_normal((count, 16)).astype(np.float32))
    values[:unreadable] = 0
    path = folder / f"{count}-{seed}.h5"
    write_vectors(path, [f"X{row}" for row in range(count)], [values], np.arange(count) < unreadable)
    return open_concatenated([path])


@pytest.fixture
def sets(tmp_path: Path) -> tuple[ConcatenatedVectors, ConcatenatedVectors, ConcatenatedVectors]:
    """Training, references, queries."""
    return stored(tmp_path, 1500, 1), stored(tmp_path, 2000, 0, unreadable=3), stored(tmp_path, 50, 2)


Sets = tuple[ConcatenatedVectors, ConcatenatedVectors, ConcatenatedVectors]


IN_MEMORY = ["Flat", "IVF16,PQ4x4fs", "IVF16,PQ4x4,RFlat"]


@pytest.mark.parametrize("factory", [*IN_MEMORY, "IVF32,SQ8", "PCA8,IVF32,Flat", "OPQ4,IVF16,PQ4x4"])
def test_blocks_on_disk_are_found_like_all_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sets: Sets, factory: str
) -> None:
    training, references, queries = sets
    monkeypatch.setattr(approximate, "BYTES_PER_PART", 10_000)  # several parts
    monkeypatch.setattr(ConcatenatedVectors.blocks, "__defaults__", (300,))
    build_index(factory, training, references, tmp_path)
    files = {path.name for path in tmp_path.iterdir() if path.suffix != ".h5"}
    assert files == ({INDEX_FILE} if factory in IN_MEMORY else {INDEX_FILE, LISTS_FILE})
    whole = faiss.index_factory(16, factory)
    whole.train(training.sample(1500))
    whole.add(references.sample(2000))
    for probes in (1, 4) if "IVF" in factory else (None,):
        if probes is not None:
            faiss.extract_index_ivf(whole).nprobe = probes
        moved = tmp_path / f"moved-{probes}"
        moved.mkdir()
        for path in tmp_path.glob("references.*"):
            (moved / path.name).write_bytes(path.read_bytes())
        found = open_index(moved, probes).search(queries.sample(50), 5)
        expected = whole.search(queries.sample(50), 5)
        np.testing.assert_allclose(found[0], expected[0], atol=1e-5)
        assert (found[1] == expected[1]).mean() > 0.95  # 4-bit codes tie


MEASURED = """
import sys
from pathlib import Path
from submissions.search.approximate import build_index, measure_recall, open_index
from submissions.vectors.concatenated import open_concatenated
def peak():  # in KiB; ru_maxrss begins with the peak of the process that started this one
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
folder, before = Path(sys.argv[1]), peak()
training, references = open_concatenated([folder / "training.h5"]), open_concatenated([folder / "reference.h5"])
build_index("IVF64,PQ8x4", training, references, folder)
measure_recall(open_index(folder), training, references)
print((peak() - before) * 1024)
"""


def test_the_same_index_has_the_same_bytes(tmp_path: Path, sets: Sets) -> None:
    """The temporary name of the folder that it was built in stood in the file."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        build_index("IVF8,Flat", sets[0], sets[1], tmp_path / name)
    for file in (INDEX_FILE, LISTS_FILE):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_memory_is_far_below_the_references(tmp_path: Path) -> None:
    rng, rows, width = np.random.default_rng(0), 400_000, 128
    block = rng.standard_normal((20_000, width), dtype=np.float32)
    for name, count in (("training", len(block)), ("reference", rows)):
        write_vectors(tmp_path / f"{name}.h5", [f"X{row}" for row in range(count)], [block] * (count // len(block)))
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path)], cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True
    )
    # nothing else is printed either; ids, and pages of the lists that are mapped from the disk, take 118 MB of 205
    assert 2**20 < int(done.stdout) < 0.7 * rows * width * 4


def test_recall_is_measured_against_exact_search(tmp_path: Path, sets: Sets) -> None:
    training, references, queries = sets
    (tmp_path / "flat").mkdir()
    (tmp_path / "ivf").mkdir()
    build_index("Flat", training, references, tmp_path / "flat")
    flat = measure_recall(open_index(tmp_path / "flat"), queries, references)
    assert (flat.at_1, flat.at_10, flat.queries) == (1, 1, 50)
    build_index("IVF36,SQ8", training, references, tmp_path / "ivf")
    recalls = [measure_recall(open_index(tmp_path / "ivf", probes), queries, references) for probes in (1, None, 36)]
    assert 0.05 < recalls[0].at_1 < recalls[1].at_1 < recalls[2].at_1 <= 1
    assert faiss.extract_index_ivf(open_index(tmp_path / "ivf")).nprobe == 6
    assert recalls[0].at_10 >= recalls[0].at_1


def test_wrong_strings_and_files(tmp_path: Path, sets: Sets, monkeypatch: pytest.MonkeyPatch) -> None:
    training, references, _ = sets
    few = stored(tmp_path, 10, 5)
    with pytest.raises(UserError, match="cannot build an index 'IVFFF'"):
        build_index("IVFFF", training, references, tmp_path)
    with pytest.raises(UserError, match=r"10-5\.h5: 10 training vectors cannot train the index 'IVF32,Flat'"):
        build_index("IVF32,Flat", few, references, tmp_path)
    with pytest.raises(UserError, match=r"'IDMap,Flat' cannot number references by their row: .* Remove IDMap"):
        build_index("IDMap,Flat", training, references, tmp_path)
    with pytest.raises(UserError, match=r"3-6\.h5 holds no vector of a readable image"):
        build_index("Flat", training, stored(tmp_path, 3, 6, unreadable=3), tmp_path)
    build_index("Flat", training, references, tmp_path)
    with pytest.raises(UserError, match=r"has no inverted lists.*omit --nprobe"):
        open_index(tmp_path, 3)
    (tmp_path / INDEX_FILE).write_bytes(b"x")
    with pytest.raises(UserError, match=r"references\.faiss cannot be read as a Faiss index .* build it again"):
        open_index(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(UserError, match=r"the index needs .* MiB, the disk has 0 MiB"):
        build_index("IVF32,SQ8", training, references, tmp_path)
