"""From a part's pictures to a Parquet file of vectors: decoded on CPUs, embedded by the matcher's own networks."""

import hashlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError, UserError
from image_copies.data.files import whole_file
from image_copies.data.names import text_of
from image_copies.data.shards import Place, ShardWork, run_shards
from image_copies.data.squares import decode_squares
from image_copies.matching.extractor import Extractor
from image_copies.matching.files.facts import is_flat
from image_copies.matching.index.filling import with_decoders
from image_copies.models.inference.embedders import Loaded, choose_batch, list_square_sizes
from image_copies.pipeline.dedup.collection import open_table
from image_copies.pipeline.dedup.inputs import index_path, read_index
from image_copies.pipeline.dedup.pictures import Picture, name_picture, read_part

PART_PICTURES = 1024  # the most of a part,
PART_BYTES = 2**26  # whose decoded squares take at most this many
FACTS = ("id", "place", "bytes", "sha256", "width", "height", "flat", "error")  # of each picture


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
        return index_path(self.folder, key)

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


@dataclass(frozen=True)
class Decoded(Loaded):
    """A batch of decoded pictures.

    Attributes:
        facts: A row of FACTS for each.
    """

    facts: list[tuple[Any, ...]]


def embed_parts(embedding: Embedding, files: Sequence[Path], parts: Sequence[PartName], total: int) -> Iterator[int]:
    """Embed parts; yields how many pictures of each cannot be read. `files` are those that the extractor is opened from."""
    work: ShardWork[Extractor, PartName, int] = ShardWork(
        name="embedding",
        unit="image",
        open=embedding.open,
        work=partial(embed_part, embedding),
        size=attrgetter("count"),
        inputs=tuple(files),
        folder=embedding.folder,
        opened_as=embedding.identity,
        uses_gpu=True,
    )
    return run_shards(work, parts, total)


def embed_part(embedding: Embedding, extractor: Extractor, name: PartName, place: Place) -> int:
    """Embed the pictures of a part and write its file; returns how many cannot be read.

    Raises:
        UserError: The part does not hold what its index says.
    """
    index = read_index(embedding.index_path(name.key))
    if index is None:
        raise UserError(f"{embedding.index_path(name.key)} cannot be read: all nodes must see the folder of results.")
    part, source = index.parts[name.number], text_of(index.source)
    pictures, count = read_part(index, part), choose_batch(extractor.networks, extractor.settings)
    batches = iter(lambda: list(islice(pictures, count)), [])
    facts, vectors = list[tuple[Any, ...]](), list[NDArray[np.float32]]()
    load = partial(_decode_batch, embedding.sizes, source)
    for decoded, own in with_decoders(extractor, place).extract_batches(batches, load):
        facts += decoded.facts
        vectors.append(own)
        place.advance(len(own))
    if len(facts) != part.count:
        raise UserError(f"{index.source} has changed: {len(facts)} of {part.count} pictures are there. Repeat the command.")
    about = {"source": source, "state": index.state, "identity": embedding.identity}
    columns = dict(zip(FACTS, zip(*facts, strict=True), strict=True))
    write_vectors(embedding.vectors_path(name.key, name.number), about, columns, np.concatenate(vectors))
    return sum(map(bool, columns["error"]))


def _decode_batch(sizes: Sequence[int], source: str, pictures: Sequence[Picture]) -> Decoded:
    """Decode pictures into squares of each size."""
    squares = {size: np.zeros((len(pictures), 3, size, size), np.uint8) for size in sizes}
    facts = []
    for row, picture in enumerate(pictures):
        shown = _decode(picture, {size: pixels[row] for size, pixels in squares.items()})
        content = picture.content
        digest, size = (None, 0) if content is None else (hashlib.sha256(content).digest(), len(content))
        facts.append((text_of(picture.id), picture.place, size, digest, *shown))
    paths = [Path(name_picture(source, text_of(picture.id))) for picture in pictures]
    return Decoded(paths, squares, np.array([bool(error) for *_, error in facts], bool), facts)


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


def write_vectors(path: Path, about: dict[str, str], facts: Mapping[str, Sequence[Any]], vectors: NDArray[np.float32]) -> None:
    """Write a part's vectors [n, d], as float16, with the facts of each picture, whole; those with an error have no vector.

    Args:
        path: The file.
        about: Source and state of its container, and the extractor's identity.
        facts: Values [n] of each of FACTS.
        vectors: Vectors of its pictures.
    """
    import pyarrow as pa  # imported here: an extra
    from pyarrow import parquet

    types = [pa.string(), pa.int64(), pa.int64(), pa.binary(32), pa.int32(), pa.int32(), pa.bool_(), pa.string()]
    columns = {name: pa.array(list(facts[name]), kind) for name, kind in zip(FACTS, types, strict=True)}
    bad = pa.array([bool(error) for error in facts["error"]])
    columns["error"] = pa.array([error or None for error in facts["error"]], pa.string())
    sources = {"source": pa.array([about["source"]] * len(vectors), pa.string())}
    values = pa.array(vectors.astype(np.float16).ravel())
    last = {"vector": pa.FixedSizeListArray.from_arrays(values, vectors.shape[1], mask=bad)}
    table = pa.table({"id": columns.pop("id")} | sources | columns | last)
    named = {name: about[name] for name in ("state", "identity", "source")}
    table = table.replace_schema_metadata(named)
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
