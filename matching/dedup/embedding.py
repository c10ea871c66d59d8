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
from image_copies.data.errors import ImageError, UserError, text_of
from image_copies.data.files import whole_file
from image_copies.data.process import choose_workers
from image_copies.data.shards import Place, ShardWork, run_shards
from image_copies.data.sources.containers import Picture, name_picture
from image_copies.data.sources.tables import import_pyarrow, open_table
from image_copies.data.threads import ReadAhead, map_in_threads
from image_copies.matching.dedup.inputs import index_path, read_index
from image_copies.matching.extractor import Extractor
from image_copies.matching.files.facts import is_flat
from image_copies.matching.index.filling import with_decoders
from image_copies.models.inference.embedders import Loaded, any_on_gpu, choose_batch, load_batch

PART_PICTURES = 1024  # pictures of a part, at most,
PART_BYTES = 2**26  # and bytes that its decoded squares take
PARTS_LOADED = 2  # parts that are decoded at the same time for a GPU, so that the last batches of one leave no core idle
FACTS = ("id", "place", "bytes", "sha256", "width", "height", "flat", "error")  # columns of each picture


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


@dataclass(frozen=True)
class Opened:
    """An embedding in a process: its extractor, and what is decoded ahead of a GPU."""

    embedding: Embedding
    extractor: Extractor
    ahead: ReadAhead[PartName, tuple[str, list[Decoded]]]


def embed_parts(embedding: Embedding, files: Sequence[Path], parts: Sequence[PartName], total: int) -> Iterator[int]:
    """Embed parts; yields how many pictures of each cannot be read. `files` are those that the extractor is opened from."""
    work: ShardWork[Opened, PartName, int] = ShardWork(
        name="embedding",
        unit="image",
        open=partial(_open, embedding),
        work=embed_part,
        size=attrgetter("count"),
        inputs=tuple(files),
        folder=embedding.folder,
        opened_as=f"{embedding.identity} {embedding.folder}",
        uses_gpu=True,
        looks_ahead=True,
    )
    return run_shards(work, parts, total)


def _open(embedding: Embedding) -> Opened:
    return Opened(embedding, embedding.open(), ReadAhead(PARTS_LOADED))


def embed_part(opened: Opened, name: PartName, place: Place) -> int:
    """Embed the pictures of a part and write its file; returns how many cannot be read.

    Raises:
        UserError: The part does not hold what its index says.
    """
    embedding, extractor = opened.embedding, with_decoders(opened.extractor, place)
    if any_on_gpu(extractor.networks):
        upcoming = () if place.upcoming is None else (place.upcoming,)
        ((source, loaded),) = opened.ahead.read(partial(_load_part, embedding, extractor), (name,), upcoming)
        found = extractor.extract_batches(loaded, lambda decoded: decoded)
    else:
        source, batches = _read_part(embedding, extractor, name)
        found = extractor.extract_batches(batches, partial(_decode_batch, embedding.sizes, source))
    facts, vectors = list[tuple[Any, ...]](), list[NDArray[np.float32]]()
    for decoded, own in found:
        facts += decoded.facts
        vectors.append(own)
        place.advance(len(own))
    if len(facts) != name.count:
        raise UserError(f"{source} has changed: {len(facts)} of {name.count} pictures are there. Repeat the command.")
    about = {"source": source, "state": name.state, "identity": embedding.identity}
    columns = dict(zip(FACTS, zip(*facts, strict=True), strict=True))
    write_vectors(embedding.vectors_path(name.key, name.number), about, columns, np.concatenate(vectors))
    return sum(map(bool, columns["error"]))


def _load_part(embedding: Embedding, extractor: Extractor, name: PartName) -> tuple[str, list[Decoded]]:
    """Return the source of a part, and its decoded batches."""
    source, batches = _read_part(embedding, extractor, name)
    threads = max(1, choose_workers(extractor.settings.workers))
    return source, list(map_in_threads(partial(_decode_batch, embedding.sizes, source), batches, threads))


def _read_part(embedding: Embedding, extractor: Extractor, name: PartName) -> tuple[str, Iterator[list[Picture]]]:
    """Return the source of a part, and its pictures in batches to embed together."""
    index = read_index(path := index_path(embedding.folder, name.key))
    if index is None:
        raise UserError(f"{path} cannot be read: all nodes must see the folder of results.")
    pictures, count = index.container.read(index.parts[name.number]), choose_batch(extractor.networks, extractor.settings)
    return text_of(index.container.source), iter(lambda: list(islice(pictures, count)), [])


def _decode_batch(sizes: Sequence[int], source: str, pictures: Sequence[Picture]) -> Decoded:
    """Decode pictures into squares of each size."""
    paths = [Path(name_picture(source, text_of(picture.id))) for picture in pictures]
    loaded = load_batch([(path, picture.content or b"") for path, picture in zip(paths, pictures, strict=True)], sizes)
    facts = []
    for picture, bad, square in zip(pictures, loaded.unreadable, loaded.squares[max(sizes)], strict=True):
        content = picture.content or b""
        digest = None if picture.content is None else hashlib.sha256(content).digest()
        error = (picture.error or _find_problem(content, max(sizes))) if bad else ""
        shown = (0, 0, False) if bad else (*_measure(content), is_flat(square.transpose(1, 2, 0)))
        facts.append((text_of(picture.id), picture.place, len(content), digest, *shown, error))
    return Decoded(paths, loaded.squares, loaded.unreadable, facts)


def _find_problem(content: bytes, short_side: int) -> str:
    try:
        decode_rgb(content, short_side)
    except ImageError as error:
        return error.problem
    return "cannot be decoded"


def _measure(content: bytes) -> tuple[int, int]:
    """Return width and height."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # decoding has checked what they warn of
        with Image.open(io.BytesIO(content)) as image:
            return image.size


def write_vectors(path: Path, about: dict[str, str], facts: Mapping[str, Sequence[Any]], vectors: NDArray[np.float32]) -> None:
    """Write a part's vectors [n, d], as float16, with the facts of each picture, whole; those with an error have no vector.

    Args:
        path: The file.
        about: Source and state of its container, and the extractor's identity.
        facts: Values [n] of each of FACTS.
        vectors: Vectors of its pictures.
    """
    pa, parquet = import_pyarrow()
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
    try:
        with open_table(path) as table:
            found = table.metadata
    except (OSError, import_pyarrow()[0].ArrowException):
        return None
    about = found.metadata or {}
    return (about.get(b"state"), about.get(b"identity"), found.num_rows) == (state.encode(), identity.encode(), count)
