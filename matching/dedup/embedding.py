"""From the pictures of a container to Parquet files of vectors: decoded on CPUs, embedded by the matcher's own networks."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.decode import decode_rgb, measure_size
from image_copies.data.errors import ImageError, text_of
from image_copies.data.files import read_json, whole_file, write_text
from image_copies.data.remote import READERS, is_remote
from image_copies.data.shards import Place, ShardWork, run_shards
from image_copies.data.sources.containers import Container, Picture, name_picture
from image_copies.data.sources.tables import import_pyarrow
from image_copies.data.threads import map_in_threads
from image_copies.matching.extractor import Extractor
from image_copies.matching.files.facts import is_flat
from image_copies.matching.index.filling import with_decoders
from image_copies.matching.output import Output
from image_copies.models.inference.embedders import Loaded, choose_batch, list_square_sizes, load_batch

FILE_PICTURES = 1024  # pictures of a file of vectors
COLUMNS = {"id": "string", "source": "string", "place": "int64", "bytes": "int64", "sha256": "binary"}
COLUMNS |= {"width": "int32", "height": "int32", "flat": "bool", "error": "string"}
Row = dict[str, Any]  # what is known of a picture, by the names of columns


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
        state: Of its files.
        made_from: What the vectors depend on.
        counts: How many pictures each file of vectors has.
        problems: What is damaged, in words.
    """

    key: str
    source: str
    state: str
    made_from: str
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
        known, made_from = read_json(embedding.place(f"{container.key}.json")), embedding.describe(container)
        return container, Embedded(**known) if known.get("made_from") == made_from else None

    def choose() -> Iterator[Container]:
        looked = (
            map_in_threads(look, containers, READERS)
            if is_remote(embedding.folder)
            else map(look, containers)
        )
        for container, found[container.key] in looked:
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


def embed_container(embedding: Embedding, opened: Extractor, container: Container, place: Place) -> Embedded:
    """Embed the pictures of a container, write its vectors and return its record."""
    extractor, source, problems = with_decoders(opened, place), text_of(container.source), list[str]()

    def take() -> Iterator[Picture]:
        for found in container.read():
            if isinstance(found, Picture):
                yield found
            else:
                problems.append(found)

    pictures = take()
    sizes, count = list_square_sizes(extractor.networks), choose_batch(extractor.networks, extractor.settings)
    batches = iter(lambda: list(islice(pictures, count)), [])

    def embed() -> Iterator[tuple[list[Row], NDArray[np.float32]]]:
        for decoded, vectors in extractor.extract_batches(batches, partial(_decode_batch, sizes, source)):
            place.advance(len(vectors))
            yield decoded.rows, vectors

    return write_container(embedding, container, embed(), -(-FILE_PICTURES // count), problems)


def write_container(
    embedding: Embedding,
    container: Container,
    found: Iterator[tuple[list[Row], NDArray[np.float32]]],
    together: int,
    problems: list[str],
) -> Embedded:
    """Write rows and vectors [n, d] of a container's pictures, and at last its record, which is returned.

    They come in pieces, of which so many go into a file.
    """
    embedded = Embedded(
        container.key, container.source, container.state, embedding.describe(container), [], problems
    )
    record = embedding.place(f"{container.key}.json")
    record.unlink(missing_ok=True)
    while pieces := list(islice(found, together)):
        rows = [row for own, _ in pieces for row in own]
        embedded.counts.append(len(rows))
        _write_vectors(
            embedding.place(embedded.files[-1]), rows, np.concatenate([vectors for _, vectors in pieces])
        )
    write_text(record, json.dumps(asdict(embedded)))
    return embedded


@dataclass(frozen=True)
class _Decoded(Loaded):
    """A batch of decoded pictures, with a row for each."""

    rows: list[Row]


def _decode_batch(sizes: Sequence[int], source: str, pictures: Sequence[Picture]) -> _Decoded:
    """Decode pictures into squares of each size."""
    named = [
        (Path(name_picture(source, text_of(picture.id))), picture.content or b"") for picture in pictures
    ]
    loaded = load_batch(named, sizes)
    rows = list[Row]()
    for picture, bad, square in zip(pictures, loaded.unreadable, loaded.squares[max(sizes)], strict=True):
        content = picture.content or b""
        width, height = (0, 0) if bad else measure_size(content)
        rows.append(
            {
                "id": text_of(picture.id),
                "source": source,
                "place": picture.place,
                "bytes": len(content),
                "sha256": hashlib.sha256(content).digest(),
                "width": width,
                "height": height,
                "flat": not bad and is_flat(square.transpose(1, 2, 0)),
                "error": (picture.error or _find_problem(content, max(sizes))) if bad else None,
            }
        )
    return _Decoded(loaded.paths, loaded.squares, loaded.unreadable, rows)


def _find_problem(content: bytes, short_side: int) -> str:
    try:
        decode_rgb(content, short_side)
    except ImageError as error:
        return error.problem
    return "cannot be decoded"


def _write_vectors(path: Path, rows: Sequence[Row], vectors: NDArray[np.float32]) -> None:
    """Write vectors [n, d], as float16, with what is known of each picture, whole; those with an error have no vector."""
    pa, parquet = import_pyarrow()
    table = pa.Table.from_pylist(rows, pa.schema(COLUMNS))
    bad = pa.array([row["error"] is not None for row in rows])
    values = pa.array(vectors.astype(np.float16).ravel())
    column = pa.FixedSizeListArray.from_arrays(values, vectors.shape[1], mask=bad)
    with whole_file(path) as temporary:
        parquet.write_table(table.append_column("vector", column), temporary)
