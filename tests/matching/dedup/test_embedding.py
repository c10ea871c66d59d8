"""Containers are embedded whole, once, whichever device does it: played by the CPU."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from image_copies.data.procedural import write_pictures
from image_copies.data.sources.containers import Container
from image_copies.matching.dedup import vectors
from image_copies.matching.dedup.inputs import list_containers
from image_copies.matching.dedup.vectors import Embedded, Embedding, embed_containers
from image_copies.matching.extractor import Extractor
from image_copies.matching.output import Output
from image_copies.models.inference.embedders import Embedder
from image_copies.models.inference.settings import EmbeddingSettings
from tests.pictures import write_tar

SIZE = 32


def average(squares: Any) -> Any:
    return squares[SIZE].mean(axis=(2, 3), dtype=np.float32)


def open_mean(on_gpu: bool = False) -> Extractor:
    """A network whose vectors are mean colours."""
    network = Embedder((SIZE,), 3, average, None if on_gpu else nullcontext)
    return Extractor([network], EmbeddingSettings(workers=2, batch_size=2), lambda vectors: vectors, 3, "mean")


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(vectors, "FILE_PICTURES", 4)
    list(write_pictures(tmp_path / "in", "T", 11, seed=0, workers=1))
    return tmp_path / "in"


def embed(sources: list[Path], made: Embedding) -> list[Embedded]:
    return embed_containers(made, (), list_containers(sources, made.folder), Output())


def test_a_gpu_makes_the_same_files(pictures: Path, tmp_path: Path) -> None:
    files = list[list[bytes]]()
    for on_gpu in (False, True):
        made = Embedding(partial(open_mean, on_gpu), "mean", tmp_path / f"{on_gpu}")
        (embedded,) = embed([pictures], made)
        assert embedded.counts == [4, 4, 3]
        files.append([made.place(name).read_bytes() for name in embedded.files])
    assert files[0] == files[1]


def test_a_container_is_embedded_again_if_it_has_changed_or_was_not_finished(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = tmp_path / "one.tar", tmp_path / "other.tar"
    contents = [path.read_bytes() for path in sorted(pictures.iterdir())]
    for path in (one, other):
        write_tar(path, {f"{number}.png": content for number, content in enumerate(contents[:6])})
    made, read = Embedding(open_mean, "mean", tmp_path / "out"), list[str]()
    read_container = Container.read

    def remember(container: Container) -> Any:
        read.append(container.source)
        return read_container(container)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Container, "read", remember)
    first = embed([one, other], made)
    assert [embedded.counts for embedded in first] == [[4, 2], [4, 2]] and embed([one, other], made) == first
    write_tar(other, {"0.png": contents[7], "note.bin": b""})
    with monkeypatch.context() as patched:
        patched.setattr(vectors, "write_text", stop)
        with pytest.raises(KeyboardInterrupt):
            embed([one, other], made)
    assert [embedded.counts for embedded in embed([one, other], made)] == [[4, 2], [1]]
    assert read == [str(path) for path in (one, other, other, other)]
