"""The pictures of containers as Parquet files of vectors: made by the matcher's own networks, and read by pictures' numbers."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from image_copies.data.arrays import Bools, Float32s, Int64s
from image_copies.data.decode import find_problem, measure_size
from image_copies.data.errors import text_of
from image_copies.data.files import is_folder, read_json, whole_file, write_text
from image_copies.data.remote import READERS, is_remote
from image_copies.data.shards import Place, ShardWork, hold, run_shards
from image_copies.data.sources.containers import Container, Picture, name_picture
from image_copies.data.sources.tables import import_pyarrow, open_table
from image_copies.data.threads import map_in_threads
from image_copies.models.inference.embedders import Loaded, choose_batch, list_square_sizes, load_batch

from ..extractor import Extractor, with_decoders
from ..files.facts import is_flat
from ..output import Output

FILE_PICTURES = 1024  # pictures of a file of vectors
COLUMNS = {"id": "string", "source": "string", "place": "int64", "bytes": "int64", "sha256": "binary"}
COLUMNS |= {"width": "int32", "height": "int32", "flat": "bool", "error": "string"}
Row = dict[str, Any]  # what is known of a picture, by the names of columns
Numbers = Int64s
State = TypeVar("State")
Job = TypeVar("Job")


@dataclass(frozen=True)
class Embedding:
    """How containers are embedded: what every process needs to know.

    Attributes:
        open: Opens the extractor.
        identity: Digest of what vectors depend on.
        folder: Of the results: `vectors/`.
    """

    open: Callable[[], Extractor]
    identity: str
    folder: Path

    def place(self, name: str) -> Path:
        """Return the path of a file of vectors, or of a container's record."""
        return self.folder / "vectors" / name[:2] / name

    def describe(self, container: Container) -> str:
        """Return what the vectors of a container depend on."""
        return f"{container.state} {container.column} {self.identity}"


@dataclass(frozen=True)
class Embedded:
    """A container of which the vectors are there.

    Attributes:
        key: Its name in the folder of results.
        source: Its path; of a batch of files the path that was named.
        state: What the vectors depend on; it begins with the state of its files.
        counts: How many pictures each file of vectors has.
        problems: What is damaged, in words.
    """

    key: str
    source: str
    state: str
    counts: list[int]
    problems: list[str]

    @property
    def files(self) -> list[str]:
        """The names of its files of vectors."""
        return [f"{self.key}-{number}.parquet" for number in range(len(self.counts))]


def embed_containers(
    embedding: Embedding, files: Sequence[Path], containers: Iterable[Container], output: Output
) -> list[Embedded]:
    """Embed what has changed of containers, and return all of them in their order.

    `files` are those that the extractor is opened from.
    """
    found = dict[str, Embedded | None]()

    def look(container: Container) -> tuple[Container, Embedded | None]:
        known = read_json(embedding.place(f"{container.key}.json"))
        is_known = known.get("state") == embedding.describe(container)
        return container, Embedded(**known) if is_known else None

    def choose() -> Iterator[Container]:
        threads = READERS if is_remote(embedding.folder) else 1
        for container, found[container.key] in map_in_threads(look, containers, threads):
            if found[container.key] is None:
                yield container

    work: ShardWork[Extractor, Container, Embedded] = ShardWork(
        name="embedding",
        unit="file",
        open=embedding.open,
        work=partial(embed_container, embedding),
        size=count_files,
        inputs=tuple(files),
        folder=embedding.folder,
        opened_as=embedding.identity,
        uses_gpu=True,
    )
    fresh = {embedded.key: embedded for embedded in run_shards(work, choose(), None)}
    before = sum(sum(known.counts) for known in found.values() if known is not None)
    if before:
        output.say(f"{before:,} pictures are embedded already")
    return [known or fresh[key] for key, known in found.items()]


def count_files(container: Container) -> int:
    """Return how many files a container is."""
    return max(1, len(container.names))


def embed_container(
    embedding: Embedding, opened: Extractor, container: Container, place: Place
) -> Embedded:
    """Embed the pictures of a container, write its vectors and return its record."""
    extractor = with_decoders(opened, place)
    problems = list[str]()

    def take() -> Iterator[Picture]:
        for found in container.read():
            if isinstance(found, Picture):
                yield found
            else:
                problems.append(found)

    pictures = take()
    count = choose_batch(extractor.networks, extractor.settings)
    batches = iter(lambda: list(islice(pictures, count)), [])
    decode = partial(_decode_batch, list_square_sizes(extractor.networks), text_of(container.source))

    def embed() -> Iterator[tuple[Row, Float32s]]:
        for decoded, vectors in extractor.extract_batches(batches, decode):
            place.advance(len(vectors))
            yield from zip(decoded.rows, vectors, strict=True)

    return write_container(embedding, container, embed(), problems)


def write_container(
    embedding: Embedding,
    container: Container,
    found: Iterator[tuple[Row, Float32s]],
    problems: list[str],
) -> Embedded:
    """Write a row and a vector [d] of each of a container's pictures, and at last its record, which is returned."""
    embedded = Embedded(container.key, container.source, embedding.describe(container), [], problems)
    record = embedding.place(f"{container.key}.json")
    record.unlink(missing_ok=True)
    while pictures := list(islice(found, FILE_PICTURES)):
        embedded.counts.append(len(pictures))
        rows, vectors = zip(*pictures, strict=True)
        _write_vectors(embedding.place(embedded.files[-1]), rows, np.stack(vectors))
    write_text(record, json.dumps(asdict(embedded)))
    return embedded


@dataclass(frozen=True)
class _Decoded(Loaded):
    """A batch of decoded pictures, with a row for each."""

    rows: list[Row]


def _decode_batch(sizes: Sequence[int], source: str, pictures: Sequence[Picture]) -> _Decoded:
    """Decode pictures into squares of each size."""
    named = [(text_of(picture.id), picture.content or b"") for picture in pictures]
    loaded = load_batch([(Path(name_picture(source, name)), content) for name, content in named], sizes)
    rows = list[Row]()
    for picture, (name, content), bad, square in zip(
        pictures, named, loaded.unreadable, loaded.squares[max(sizes)], strict=True
    ):
        width, height = (0, 0) if bad else measure_size(content)
        rows.append(
            {
                "id": name,
                "source": source,
                "place": picture.place,
                "bytes": len(content),
                "sha256": hashlib.sha256(content).digest(),
                "width": width,
                "height": height,
                "flat": not bad and is_flat(square.transpose(1, 2, 0)),
                "error": (picture.error or find_problem(content)) if bad else None,
            }
        )
    return _Decoded(loaded.paths, loaded.squares, loaded.unreadable, rows)


def _write_vectors(path: Path, rows: Sequence[Row], vectors: Float32s) -> None:
    """Write vectors [n, d], as float16, with what is known of each picture, whole."""
    pa, parquet = import_pyarrow()
    values = pa.array(vectors.astype(np.float16).ravel())
    column = pa.FixedSizeListArray.from_arrays(values, vectors.shape[1])
    with whole_file(path) as temporary:
        table = pa.Table.from_pylist(rows, pa.schema(COLUMNS))
        parquet.write_table(table.append_column("vector", column), temporary)


@dataclass(frozen=True)
class Collection:
    """All pictures of a run by their numbers, those of one file of vectors after those of another; on disk, not in memory.

    Attributes:
        files: The files of vectors, those of test sets last.
        starts: Number of the first picture of each file, and of all pictures, int64 [files + 1].
        border: Number of the first file of test sets, or of all files.
        names: Of the files in their present state.
    """

    files: Sequence[Path]
    starts: Numbers
    border: int
    names: Sequence[str]

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def inputs(self) -> int:
        """How many pictures belong to the inputs; the others to test sets."""
        return int(self.starts[self.border])

    @property
    def has_test_sets(self) -> bool:
        """Whether inputs are compared with pictures of test sets only."""
        return self.border < len(self.files)

    def read(self, file: int, columns: Sequence[str]) -> Any:
        """Return columns of a file's rows, as a `pyarrow.Table`."""
        with open_table(self.files[file]) as table:
            return table.read(list(columns))

    def read_vectors(self, file: int) -> tuple[Float32s, Bools, Bools, NDArray[np.bytes_]]:
        """Return the vectors [n, d] of a file, whether each picture can be read, whether it shows nothing, and its SHA-256."""
        table = self.read(file, ["vector", "error", "flat", "sha256"])
        column = table["vector"].combine_chunks()
        vectors = column.values.to_numpy(zero_copy_only=False).reshape(-1, column.type.list_size)
        readable = table["error"].is_null().to_numpy()
        flat = table["flat"].to_numpy()
        digests = np.array(table["sha256"].to_pylist(), "S32")
        return vectors.astype(np.float32), readable, flat, digests

    def list_inputs(self, columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
        """Yield the number of each picture of the inputs with columns of its row."""
        for file in range(self.border):
            yield from enumerate(self.read(file, columns).to_pylist(), int(self.starts[file]))

    def look_up(self, numbers: Numbers, columns: Sequence[str]) -> Iterator[tuple[int, Row]]:
        """Yield each number of an ascending array [n] with the columns of its row."""
        places = np.searchsorted(self.starts, numbers, side="right") - 1
        for file in np.unique(places).tolist():
            own = numbers[places == file]
            rows = self.read(file, columns).take(own - self.starts[file]).to_pylist()
            yield from zip(own.tolist(), rows, strict=True)

    def name_picture(self, number: int) -> str:
        """Return a name of a picture in its present state, which it also has in another collection."""
        file = int(np.searchsorted(self.starts, number, side="right")) - 1
        return f"{self.names[file]} {number - self.starts[file]}"

    def draw(self, count: int, first: int = 0) -> Float32s:
        """Return vectors [≤ count, d] of pictures in files that are drawn at random, from the file `first` on."""
        drawn, left = list[Float32s](), count
        for file in np.random.default_rng(0).permutation(np.arange(first, len(self.files))).tolist():
            vectors, readable, *_ = self.read_vectors(file)
            drawn.append(vectors[readable][:left])
            left -= len(drawn[-1])
            if not left:
                break
        return np.concatenate(drawn)


def make_collection(
    embedding: Embedding, inputs: Sequence[Embedded], tests: Sequence[Embedded]
) -> Collection:
    """Return the pictures of the containers of inputs and of test sets."""
    every = [*inputs, *tests]
    counts = [count for container in every for count in container.counts]
    return Collection(
        files=[embedding.place(name) for container in every for name in container.files],
        starts=np.append(0, np.cumsum(counts, dtype=np.int64)),
        border=sum(len(container.counts) for container in inputs),
        names=[f"{name} {container.state}" for container in every for name in container.files],
    )


def list_names(folder: Path) -> set[str]:
    """Return the names of what is in a folder, which may not be there yet."""
    return {path.name for path in folder.iterdir()} if is_folder(folder) else set()


def do_missing(
    name: str,
    state: State,
    work: Callable[[State, Job], None],
    jobs: Mapping[Path, Job],
    results: Path,
    uses_gpu: bool = True,
) -> None:
    """Do the jobs of which the files are not there yet; all files are in one folder, below that of the results."""
    known = {found for folder in {path.parent for path in jobs} for found in list_names(folder)}
    missing = [job for path, job in jobs.items() if path.name not in known]
    shards: ShardWork[State, Job, None] = ShardWork(
        name=name,
        unit="job",
        open=partial(hold, state),
        work=partial(_do_alone, work),
        size=_count_one,
        folder=results,
        uses_gpu=uses_gpu,
    )
    for _ in run_shards(shards, missing, len(missing)):
        pass


def _count_one(job: object) -> int:
    return 1


def _do_alone(work: Callable[[State, Job], None], state: State, job: Job, place: Place) -> None:
    with threadpool_limits(1):  # the last bits depend on the number of threads
        work(state, job)
    place.advance(1)
