import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.submissions.ensemble.projection import scale_to_unit_length
from image_copies.submissions.search import approximate, shard_codes
from image_copies.submissions.search.approximate import (
    CHECKSUMS_FILE,
    INDEX_FILE,
    StoredIndex,
    build_index,
    find_damaged_file,
    measure_recall,
    open_index,
    search_stored,
)
from image_copies.submissions.search.shard_codes import LISTS_FILE
from image_copies.submissions.vectors.concatenated import ConcatenatedVectors, open_concatenated
from image_copies.submissions.vectors.files import write_vectors
from image_copies.submissions.vectors.rows import RowsInFile
from image_copies.submissions.vectors.stored import StoredVectors, open_stored_vectors


def draw(folder: Path, count: int, seed: int, unreadable: int = 0) -> Path:
    values = scale_to_unit_length(np.random.default_rng(seed).standard_normal((count, 16)).astype(np.float32))
    values[:unreadable] = 0
    path = folder / f"{count}-{seed}.h5"
    write_vectors(path, [f"X{row}" for row in range(count)], [values], np.arange(count) < unreadable)
    return path


def make_folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


Sets = tuple[ConcatenatedVectors, StoredVectors, ConcatenatedVectors]


@pytest.fixture
def sets(tmp_path: Path) -> Sets:
    """Training, references, queries."""
    references = open_stored_vectors([draw(tmp_path, 2000, 0, unreadable=3)])
    return open_concatenated([draw(tmp_path, 1500, 1)]), references, open_concatenated([draw(tmp_path, 50, 2)])


IN_MEMORY = ["Flat", "IVF16,PQ4x4fs", "IVF16,PQ4x4,RFlat"]


@pytest.mark.parametrize("factory", [*IN_MEMORY, "IVF32,SQ8", "PCA8,IVF32,Flat", "OPQ4,IVF16,PQ4x4"])
def test_blocks_on_disk_are_found_like_all_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sets: Sets, factory: str
) -> None:
    training, references, queries = sets
    monkeypatch.setattr(shard_codes, "VECTORS_PER_SHARD", 600)
    monkeypatch.setattr(shard_codes, "VECTORS_PER_BLOCK", 250)
    build_index(factory, training, references, tmp_path, make_folder(tmp_path, "codes"))
    files = {path.name for path in tmp_path.iterdir() if path.is_file() and path.suffix != ".h5"}
    assert files == {INDEX_FILE, CHECKSUMS_FILE} | ({LISTS_FILE} if factory not in IN_MEMORY else set())
    whole = faiss.index_factory(16, factory)
    whole.train(training.sample(1500))
    whole.add(references.rows(np.arange(1997)))
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
    if factory not in IN_MEMORY:  # shards make no difference, to the byte
        monkeypatch.setattr(shard_codes, "VECTORS_PER_SHARD", 2000)
        once, codes = make_folder(tmp_path, "at once"), make_folder(tmp_path, "its codes")
        shutil.copy(next((tmp_path / "codes").glob("quantizer-*")), codes)  # training would take the longest
        build_index(factory, training, references, once, codes)
        assert (tmp_path / "at once" / LISTS_FILE).read_bytes() == (tmp_path / LISTS_FILE).read_bytes()


MEASURED = """
import sys
from pathlib import Path
from image_copies.submissions.search.approximate import StoredIndex, build_index, measure_recall
from image_copies.submissions.vectors.concatenated import open_concatenated
from image_copies.submissions.vectors.stored import open_stored_vectors
def peak():  # in KiB; ru_maxrss begins with the peak of the process that started this one
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
folder, before = Path(sys.argv[1]), peak()
training, references = open_concatenated([folder / "training.h5"]), open_stored_vectors([folder / "reference.h5"])
build_index("IVF64,PQ8x4", training, references, folder, folder)
measure_recall([StoredIndex(folder, references, candidates=0)], training)  # a second look maps the vectors
print((peak() - before) * 1024)
"""


def test_the_same_index_has_the_same_bytes(tmp_path: Path, sets: Sets) -> None:
    """The temporary name of the folder that it was built in stood in the file."""
    for name in ("one", "other"):
        build_index("IVF8,Flat", sets[0], sets[1], make_folder(tmp_path, name), make_folder(tmp_path, f"codes of {name}"))
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
    flat, ivf = make_folder(tmp_path, "flat"), make_folder(tmp_path, "ivf")
    build_index("Flat", training, references, flat, flat)
    (found,) = measure_recall([StoredIndex(flat, references, candidates=0)], queries)
    assert (found.at_1, found.at_10, found.queries) == (1, 1, 50)
    build_index("IVF36,SQ8", training, references, ivf, make_folder(tmp_path, "codes"))
    recalls = measure_recall([StoredIndex(ivf, references, probes, candidates=0) for probes in (1, None, 36)], queries)
    assert 0.05 < recalls[0].at_1 < recalls[1].at_1 < recalls[2].at_1 <= 1
    assert faiss.extract_index_ivf(open_index(ivf)).nprobe == 6
    assert recalls[0].at_10 >= recalls[0].at_1
    coarse = make_folder(tmp_path, "coarse")
    build_index("IVF4,PQ2x4", training, references, coarse, coarse)
    by_codes, again = measure_recall([StoredIndex(coarse, references, 4, candidates) for candidates in (0, 50)], queries)
    assert by_codes.at_1 < by_codes.at_10 < again.at_1 == again.at_10  # of the candidates, the nearest comes first
    other = open_stored_vectors([draw(tmp_path, 30, 7)])
    with pytest.raises(UserError, match=r"indexes 1,997 vectors, .*30-7\.h5 holds 30\. Repeat the command with --force"):
        search_stored(StoredIndex(ivf, other), queries.sample(1), 1)


@pytest.mark.parametrize("probes", [1, 8])
def test_equal_distances_are_ordered_by_number_and_nothing_depends_on_threads(
    tmp_path: Path, sets: Sets, monkeypatch: pytest.MonkeyPatch, probes: int
) -> None:
    """600 copies of one vector are more than the 500 candidates; others come in pairs. All lie in several shards and files."""
    values = sets[1].rows(np.arange(700))
    values[100:] = values[np.arange(600) % 50]
    values[np.arange(0, 700, 2)] = values[7]
    for name, rows in (("one.h5", values[:333]), ("two.h5", values[333:])):
        write_vectors(tmp_path / name, [str(row) for row in range(len(rows))], [rows])
    references = open_stored_vectors([tmp_path / "one.h5", tmp_path / "two.h5"])
    monkeypatch.setattr(shard_codes, "VECTORS_PER_SHARD", 90)
    monkeypatch.setattr(approximate, "QUERIES_PER_BLOCK", 3)
    queries = np.concatenate([values[7:8], values[99:100], sets[2].sample(9)])
    found, held = [], []
    for threads in (1, 2, 5):
        monkeypatch.setattr(faiss, "omp_get_max_threads", lambda threads=threads: threads)
        folder = make_folder(tmp_path, f"by {threads}")
        build_index("IVF8,PQ4x4np", references, references, folder, folder)
        found.append(search_stored(StoredIndex(folder, references, probes), queries, 10))
        held.append([(folder / name).read_bytes() for name in (INDEX_FILE, LISTS_FILE)])
    assert held[0] == held[1] == held[2]
    assert all(np.array_equal(one, other) for later in found[1:] for one, other in zip(found[0], later, strict=True))
    distances, numbers = found[0]
    same = np.flatnonzero((values == values[7]).all(axis=1))
    assert np.array_equal(numbers[0], same[:10]) and len(same) > 350 and not distances[0].any()
    exact = ((queries[:, None].astype(np.float64) - values[numbers]) ** 2).sum(axis=2)
    np.testing.assert_allclose(distances[numbers >= 0], exact[numbers >= 0], rtol=0, atol=1e-12)
    pairs = [(d, n) for row in range(len(queries)) for d, n in zip(distances[row], numbers[row], strict=True)]
    assert all(pairs[first : first + 10] == sorted(pairs[first : first + 10]) for first in range(0, len(pairs), 10))
    assert sum(one[0] == other[0] for one, other in pairwise(pairs)) > 40


def test_a_build_goes_on_and_a_new_file_is_the_only_one_that_is_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [draw(tmp_path, 700, 0, 3), draw(tmp_path, 500, 1, 3), draw(tmp_path, 801, 2, 3)]
    folder, codes, read = make_folder(tmp_path, "index"), make_folder(tmp_path, "codes"), []

    def note(self: RowsInFile, size: int) -> Iterator[NDArray[np.float32]]:
        read.append((self.path.name, self.start))
        return blocks(self, size)

    blocks = RowsInFile.blocks
    monkeypatch.setattr(RowsInFile, "blocks", note)
    monkeypatch.setattr(shard_codes, "VECTORS_PER_SHARD", 500)
    two, three = (open_stored_vectors(paths[:count]) for count in (2, 3))
    build_index("IVF16,PQ4x4np", two, two, folder, codes)
    before = {path.name: path.stat().st_mtime_ns for path in codes.iterdir()}
    assert len(before) == 4  # with the quantiser
    (codes / next(name for name in sorted(before) if name.startswith("codes-000001"))).unlink()  # as if it had been stopped
    build_index("IVF16,PQ4x4np", two, three, folder, codes)
    assert read == [("700-0.h5", 0), ("700-0.h5", 500), ("500-1.h5", 0), ("700-0.h5", 500), ("801-2.h5", 0), ("801-2.h5", 500)]
    after = {path.name: path.stat().st_mtime_ns for path in codes.iterdir()}
    assert len(after) == 6 and sum(after[name] == time for name, time in before.items()) == 3
    again, its_codes = make_folder(tmp_path, "again"), make_folder(tmp_path, "its codes")
    build_index("IVF16,PQ4x4np", two, three, again, its_codes)
    for name in (INDEX_FILE, LISTS_FILE):
        assert (folder / name).read_bytes() == (again / name).read_bytes()


def flip(path: Path, place: float) -> None:
    """Change one bit of a file, at this share of its length."""
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 16
    path.write_bytes(content)


@pytest.mark.parametrize("place", [0.2, 0.5, 0.9, 0.999])
def test_damaged_codes_and_quantizers_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sets: Sets, place: float
) -> None:
    """A flipped bit leaves the length as it is, and mostly a file that Faiss reads without complaint."""
    monkeypatch.setattr(shard_codes, "VECTORS_PER_SHARD", 1000)
    training, references, _ = sets
    folder, codes, said = make_folder(tmp_path, "index"), make_folder(tmp_path, "codes"), list[str]()

    def build() -> list[bytes]:
        said.clear()
        build_index("IVF16,SQ8", training, references, folder, codes, report=said.append)
        return [path.read_bytes() for path in sorted((*folder.iterdir(), *codes.iterdir()))]

    whole = build()
    assert said == ["  training IVF16,SQ8 on 1,500 vectors, which shows no progress"]
    assert build() == whole and said == []
    one, other = sorted(codes.glob("codes-*"))
    flip(other, place)
    assert build() == whole and said == [f"  1 of 2 files of codes are damaged and made again, the first is {other}"]
    other.write_bytes(b"torn")
    shutil.copy(other, one)
    assert build() == whole and said == [f"  2 of 2 files of codes are damaged and made again, the first is {one}"]
    (quantizer,) = codes.glob("quantizer-*")
    flip(quantizer, place)
    assert build() == whole and said[0] == f"  {quantizer} is damaged and made again" and len(said) == 2
    (codes / "codes-000000-0123456789abcdef.faiss").write_bytes(one.read_bytes())  # as they were called without a checksum
    one.unlink()
    assert build() == whole and said == []


def test_a_damaged_index_is_found(tmp_path: Path, sets: Sets) -> None:
    build_index("IVF16,SQ8", *sets[:2], tmp_path, make_folder(tmp_path, "codes"))
    for name in (INDEX_FILE, LISTS_FILE, CHECKSUMS_FILE):
        assert find_damaged_file(tmp_path) is None
        whole = (tmp_path / name).read_bytes()
        flip(tmp_path / name, 0.5)
        assert find_damaged_file(tmp_path) is not None
        (tmp_path / name).write_bytes(whole)
    checksums = (tmp_path / CHECKSUMS_FILE).read_text("utf-8")
    for kept in ("", *checksums.splitlines(keepends=True)):  # those of the other file are lost
        (tmp_path / CHECKSUMS_FILE).write_text(kept, "utf-8")
        assert find_damaged_file(tmp_path) == tmp_path / CHECKSUMS_FILE
    (tmp_path / CHECKSUMS_FILE).write_text(checksums, "utf-8")
    (tmp_path / LISTS_FILE).unlink()
    assert find_damaged_file(tmp_path) == tmp_path / LISTS_FILE
    (tmp_path / CHECKSUMS_FILE).unlink()  # made before there were any
    assert find_damaged_file(tmp_path) is None


@pytest.mark.parametrize("factory", ["NSG4", "PCA8,NSG8,Flat", "IVF16_NSG8,SQ8", "NSG8_SQ8"])
def test_graphs_that_may_never_be_finished_are_refused(tmp_path: Path, sets: Sets, factory: str) -> None:
    with pytest.raises(UserError, match=rf"'{factory}' is not supported: Faiss may never finish its graph.* Take HNSW32"):
        build_index(factory, *sets[:2], make_folder(tmp_path, "index"), make_folder(tmp_path, "codes"))


@pytest.mark.parametrize("factory", ["HNSW8", "SQ8", "IVF16_HNSW8,SQ8"])
def test_what_is_named_instead_is_built(tmp_path: Path, sets: Sets, factory: str) -> None:
    build_index(factory, *sets[:2], tmp_path, make_folder(tmp_path, "codes"))
    assert measure_recall([StoredIndex(tmp_path, sets[1])], sets[2])[0].at_1 > 0.5


@pytest.mark.parametrize("factory", ["IVF0,Flat", "\udc80"])
def test_factories_that_faiss_does_not_refuse_itself_are_refused(tmp_path: Path, sets: Sets, factory: str) -> None:
    with pytest.raises(UserError, match="Use an index factory string"):
        build_index(factory, *sets[:2], make_folder(tmp_path, "index"), make_folder(tmp_path, "codes"))


def test_wrong_strings_and_files(tmp_path: Path, sets: Sets, monkeypatch: pytest.MonkeyPatch) -> None:
    training, references, _ = sets
    few, codes = open_concatenated([draw(tmp_path, 10, 5)]), make_folder(tmp_path, "codes")

    def build(factory: str, training: ConcatenatedVectors = training, references: StoredVectors = references) -> None:
        build_index(factory, training, references, tmp_path, codes)

    with pytest.raises(UserError, match="cannot build an index 'IVFFF'"):
        build("IVFFF")
    with pytest.raises(UserError, match=r"10-5\.h5: 10 training vectors cannot train the index 'IVF32,Flat'"):
        build("IVF32,Flat", few)
    with pytest.raises(UserError, match=r"'IDMap,Flat' cannot number references by their row: .* Remove IDMap"):
        build("IDMap,Flat")
    with pytest.raises(UserError, match=r"3-6\.h5 holds no vector of a readable image"):
        build("Flat", references=open_stored_vectors([draw(tmp_path, 3, 6, unreadable=3)]))
    build("Flat")
    with pytest.raises(UserError, match=r"has no inverted lists.*omit --nprobe"):
        open_index(tmp_path, 3)
    (tmp_path / INDEX_FILE).write_bytes(b"x")
    with pytest.raises(UserError, match=r"references\.faiss cannot be read as a Faiss index .* build it again"):
        open_index(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(UserError, match=r"the index needs .* MiB, the disk has 0 MiB"):
        build("IVF32,SQ8")
