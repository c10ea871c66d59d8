"""From a part's pictures to a Parquet file of vectors: decoded on CPUs, embedded by the matcher's own networks."""

import hashlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError, UserError
from image_copies.data.files import whole_file
from image_copies.data.names import text_of
from image_copies.data.squares import decode_squares
from image_copies.matching.extractor import Extractor
from image_copies.matching.files.facts import is_flat
from image_copies.models.inference.embedders import check_finite, choose_batch, list_square_sizes
from image_copies.pipeline.dedup.collection import open_table
from image_copies.pipeline.dedup.engine import Engine, Row, guard
from image_copies.pipeline.dedup.inputs import Part, read_index
from image_copies.pipeline.dedup.pictures import Picture, name_picture, read_part

PART_PICTURES = 1024  # the most of a part,
PART_BYTES = 2**26  # whose decoded squares take at most this many


@dataclass(frozen=True)
class Embedding:
    """How parts are embedded: what every process needs to know.

    Attributes:
        open: Opens the extractor.
        identity: Digest of what vectors depend on.
        sizes: Input sizes of the networks.
        folder: Of the results: `index/` and `vectors/`.
    """

    open: Callable[[], Extractor]
    identity: str
    sizes: tuple[int, ...]
    folder: Path

    def part_size(self) -> int:
        """Return how many pictures a part holds at most."""
        return max(1, min(PART_PICTURES, PART_BYTES // (3 * sum(size * size for size in self.sizes))))

    def index_path(self, key: str) -> Path:
        """Return the path of a container's index."""
        return self.folder / "index" / key[:2] / f"{key}.json"

    def vectors_path(self, key: str, number: int) -> Path:
        """Return the path of a part's vectors."""
        return self.folder / "vectors" / key[:2] / f"{key}-{number}.parquet"


@dataclass(frozen=True, slots=True)
class PartName:
    """A part: the key and state of its container, its number there, and how many pictures it has."""

    key: str
    number: int
    count: int
    state: str


def embed_parts(engine: Engine, embedding: Embedding, parts: Sequence[PartName], total: int) -> Iterator[Row]:
    """Embed parts; yields what became of each.

    Where the cluster has GPUs, tasks on the cores decode for the actors that hold a network; else these do both.
    """
    jobs = ({"key": part.key, "number": part.number, "count": part.count} for part in parts)
    if engine.gpu_share:
        workers = int(engine.total("GPU") / engine.gpu_share)
        decode = guard(partial(decode_part, embedding))
        actors = {"num_gpus": engine.gpu_share, "num_cpus": 0}

        def build(data: Any) -> Any:
            return data.map(decode, num_cpus=1).map(
                Embedder, fn_constructor_args=(embedding,), concurrency=(1, max(1, workers)), **actors
            )
    else:
        workers = min(len(parts), int(engine.total("CPU")))

        def build(data: Any) -> Any:
            return data.map(DecodingEmbedder, fn_constructor_args=(embedding,), concurrency=(1, max(1, workers)), num_cpus=1)

    yield from engine.run(jobs, build, "embedding", total)


def decode_part(embedding: Embedding, job: Row) -> Row:
    """Read and decode a part; the row holds squares of each size as bytes, and what is known of each picture.

    Raises:
        UserError: The part does not hold what its index says.
    """
    index = read_index(embedding.index_path(job["key"]))
    if index is None:
        raise UserError(f"{embedding.index_path(job['key'])} cannot be read: all nodes must see the folder of results.")
    part: Part = index.parts[job["number"]]
    squares = {size: np.zeros((part.count, 3, size, size), np.uint8) for size in embedding.sizes}
    facts: dict[str, list[Any]] = {name: [] for name in ("id", "place", "bytes", "sha256", "width", "height", "flat", "error")}
    for row, picture in enumerate(read_part(index, part)):
        width, height, flat, error = _decode(picture, {size: pixels[row] for size, pixels in squares.items()})
        digest = None if picture.content is None else hashlib.sha256(picture.content).digest()
        size = 0 if picture.content is None else len(picture.content)
        for name, value in zip(
            facts, (text_of(picture.id), picture.place, size, digest, width, height, flat, error), strict=True
        ):
            facts[name].append(value)
    if len(facts["id"]) != part.count:
        raise UserError(f"{index.source} has changed: {len(facts['id'])} of {part.count} pictures are there. Repeat the command.")
    pixels = {f"squares{size}": content.tobytes() for size, content in squares.items()}
    return job | pixels | facts | {"source": text_of(index.source), "state": index.state}


def _decode(picture: Picture, squares: dict[int, NDArray[np.uint8]]) -> tuple[int, int, bool, str]:
    """Decode into squares [3, size, size] of each size; returns width, height, whether it shows nothing, and the error."""
    if picture.content is None:
        return 0, 0, False, picture.error
    decoded = decode_squares(picture.content, squares)
    if not all(readable for _, readable in decoded.values()):
        try:
            decode_rgb(picture.content, max(squares))
        except ImageError as error:
            return 0, 0, False, error.problem
        return 0, 0, False, "cannot be decoded"
    for size, (square, _) in decoded.items():
        squares[size][:] = square
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # decoding has checked what they warn of
        with Image.open(io.BytesIO(picture.content)) as image:
            width, height = image.size
    return width, height, is_flat(squares[max(squares)].transpose(1, 2, 0)), ""


class Embedder:
    """An actor that holds the networks."""

    def __init__(self, embedding: Embedding) -> None:
        self._embedding, self._extractor = embedding, embedding.open()

    def __call__(self, row: Row) -> Row:
        """Embed a decoded part and write its file; see `guard`."""
        return guard(self._embed)(row)

    def _embed(self, row: Row) -> Row:
        if self._extractor.identity != self._embedding.identity:
            raise UserError("a node has other weights under the same path than the one where the command was started.")
        squares = {
            size: np.frombuffer(row[f"squares{size}"], np.uint8).reshape(-1, 3, size, size) for size in self._embedding.sizes
        }
        vectors = embed_squares(self._extractor, squares)
        bad = np.array([bool(error) for error in row["error"]])
        vectors[bad] = 0
        check_finite(vectors, [Path(name_picture(row["source"], name)) for name in row["id"]])
        write_vectors(self._embedding.vectors_path(row["key"], row["number"]), row, vectors, bad, self._embedding.identity)
        return {"key": row["key"], "number": row["number"], "count": len(bad), "unreadable": int(bad.sum())}


class DecodingEmbedder(Embedder):
    """An actor that decodes what it embeds."""

    def __call__(self, row: Row) -> Row:
        """Decode and embed a part and write its file; see `guard`."""
        return super().__call__(guard(decode_part)(self._embedding, row))


def embed_squares(extractor: Extractor, squares: dict[int, NDArray[np.uint8]]) -> NDArray[np.float32]:
    """Return the vectors [n, d] of pictures given as squares [n, 3, size, size] of each size, those of `Extractor.extract`."""
    count, total = choose_batch(extractor.networks, extractor.settings), len(next(iter(squares.values())))
    blocks = []
    with ExitStack() as held:
        for network in extractor.networks:
            if network.side_by_side is not None:
                held.enter_context(network.side_by_side())
        for first in range(0, total, count):
            batch = {size: pixels[first : first + count] for size, pixels in squares.items()}
            blocks.append(extractor.project(np.concatenate([network.embed(batch) for network in extractor.networks], axis=1)))
    return np.concatenate(blocks)


def write_vectors(path: Path, row: Row, vectors: NDArray[np.float32], bad: NDArray[np.bool_], identity: str) -> None:
    """Write a part's facts and vectors [n, d], as float16, whole; unreadable [n] pictures have none."""
    import pyarrow as pa  # imported here: an extra
    from pyarrow import parquet

    values = pa.array(vectors.astype(np.float16).ravel())
    columns = {
        "id": pa.array(list(row["id"]), pa.string()),
        "source": pa.array([row["source"]] * len(bad), pa.string()),
        "place": pa.array(list(row["place"]), pa.int64()),
        "bytes": pa.array(list(row["bytes"]), pa.int64()),
        "sha256": pa.array(list(row["sha256"]), pa.binary(32)),
        "width": pa.array(list(row["width"]), pa.int32()),
        "height": pa.array(list(row["height"]), pa.int32()),
        "flat": pa.array(list(row["flat"]), pa.bool_()),
        "error": pa.array([error or None for error in row["error"]], pa.string()),
        "vector": pa.FixedSizeListArray.from_arrays(values, vectors.shape[1], mask=pa.array(bad)),
    }
    table = pa.table(columns).replace_schema_metadata({"state": row["state"], "identity": identity, "source": row["source"]})
    with whole_file(path) as temporary:
        parquet.write_table(table, temporary)


def is_embedded(path: Path, state: str, identity: str, count: int) -> bool | None:
    """Whether a file holds the vectors of a part in its present state; None where there is no file that can be read."""
    from pyarrow import ArrowException  # imported here: an extra

    try:
        with open_table(path) as table:
            found = table.metadata
    except (OSError, ArrowException):
        return None
    about = found.metadata or {}
    return (about.get(b"state"), about.get(b"identity"), found.num_rows) == (state.encode(), identity.encode(), count)


def find_sizes(extractor: Extractor) -> tuple[int, ...]:
    """Return the input sizes of an extractor's networks."""
    return tuple(list_square_sizes(extractor.networks))
