"""Several models that embed the same images read each once, with the vectors that each has alone."""

import shutil
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from image_copies.data import decode, loader
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural import write_pictures
from image_copies.data.squares import read_or_nothing
from image_copies.data.threads import overlap
from image_copies.models.inference import embed as inference
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import Checkpoint, load_descriptor, save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.pipeline.run.run import find_images_to_embed
from image_copies.pipeline.steps import embed
from image_copies.pipeline.steps.definitions import EMBED, run_step
from image_copies.pipeline.steps.embed import EmbeddingJob, embed_to_file
from image_copies.submissions.vectors.files import write_vectors
from tests.runs import copy_run

PLAIN = EmbeddingSettings(workers=0, shard=4, batch_size=3)
SIZES = (32, 48, 180)  # of JPEGs of 400 pixels: an eighth, an eighth and a half


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    folder = tmp_path_factory.mktemp("pictures")
    for number, path in enumerate(write_pictures(folder, "T", 10, seed=0, workers=1)):
        pixels = cv2.resize(np.asarray(cv2.imread(str(path)), np.uint8), (500, 400))
        cv2.imwrite(str(path.with_suffix(".png") if number == 3 else path), pixels)
    (folder / "T000003.jpg").unlink()
    (folder / "T000005.jpg").write_bytes(b"no image")
    return find_images(folder)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("networks")
    for size in SIZES:
        save_descriptor(
            folder / f"{size}.safetensors", Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8)), size, {}
        )
    return [folder / f"{size}.safetensors" for size in SIZES]


def list_embeddings(checkpoints: list[Path], folder: Path) -> list[EmbeddingJob]:
    """Of three models, the third of which has settings of its own."""
    folder.mkdir()
    settings = [PLAIN, PLAIN, PLAIN.model_copy(update={"flip": True, "pooling_exponent": 2.0})]
    return [EmbeddingJob(path, how, folder / f"{path.stem}.h5") for path, how in zip(checkpoints, settings, strict=True)]


def embed_all(images: ImageSet, embeddings: list[EmbeddingJob], together: bool) -> dict[str, bytes]:
    for number, own in enumerate(embeddings):
        others = embeddings[number + 1 :] if together else []
        embed_to_file(own.checkpoint, images, own.settings, own.output, find_others=lambda others=others: others)  # type: ignore[misc]
    return {path.name: path.read_bytes() for path in sorted(embeddings[0].output.parent.iterdir())}


def test_vectors_are_those_of_one_model_after_the_other(
    images: ImageSet, checkpoints: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = embed_all(images, list_embeddings(checkpoints, tmp_path / "apart"), together=False)
    reads, decodings, convert = Counter[Path](), list[int](), decode._convert

    def read(path: Path) -> bytes:
        reads[path] += 1
        return path.read_bytes()

    monkeypatch.setattr(loader, "read_or_nothing", read)
    monkeypatch.setattr(decode, "_convert", lambda image: decodings.append(1) or convert(image))  # type: ignore[func-returns-value]
    assert embed_all(images, list_embeddings(checkpoints, tmp_path / "together"), together=True) == apart
    assert reads == dict.fromkeys(images.paths, 1)
    assert len(decodings) == 8 * 2 + 1  # JPEGs at two scales; the PNG once
    assert [name for name in apart if name.endswith("txt")] == [f"{size}.unreadable.txt" for size in sorted(map(str, SIZES))]


@pytest.mark.parametrize("written", [1, 4, 5])
def test_a_killed_step_goes_on_by_model_and_shard(
    images: ImageSet, checkpoints: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    apart = embed_all(images, list_embeddings(checkpoints, tmp_path / "apart"), together=False)
    embeddings, done = list_embeddings(checkpoints, tmp_path / "together"), list[Path]()

    def write(path: Path, *arguments: object) -> None:
        if len(done) == written:
            raise KeyboardInterrupt
        write_vectors(path, *arguments)  # type: ignore[arg-type]
        done.append(path)

    with monkeypatch.context() as patch:
        patch.setattr(embed, "write_vectors", write)
        with pytest.raises(KeyboardInterrupt):
            embed_all(images, embeddings, together=True)
    again = list[Path]()

    def write_again(path: Path, *arguments: object) -> None:
        again.append(path)
        write_vectors(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(embed, "write_vectors", write_again)
    assert embed_all(images, embeddings, together=True) == apart
    assert len(again) == 9 - written and not set(again) & set(done)  # three shards of three models


def test_batches_of_other_sizes_are_embedded_apart(images: ImageSet, checkpoints: list[Path], tmp_path: Path) -> None:
    """The last bits of vectors may depend on the batch."""
    own, other, _ = list_embeddings(checkpoints, tmp_path / "one")
    assert own.makes_shards_with(other)
    for key in ("batch_size", "shard"):
        changed = EmbeddingJob(other.checkpoint, PLAIN.model_copy(update={key: 5}), other.output)
        assert not own.makes_shards_with(changed)
        embed_to_file(own.checkpoint, images, own.settings, own.output, find_others=lambda: [changed])  # noqa: B023
        assert {path.name for path in own.output.parent.iterdir()} == {"32.h5", "32.unreadable.txt"}


def test_a_network_that_fails_leaves_the_others_alone(
    images: ImageSet, checkpoints: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8))
    for values in broken.parameters():
        torch.nn.init.constant_(values, 1e30)  # its vectors overflow
    save_descriptor(tmp_path / "broken.safetensors", broken, 32, {})
    own, _, _ = list_embeddings(checkpoints, tmp_path / "together")
    (tmp_path / "damaged.safetensors").write_bytes(b"damaged")
    for name, problem in (("broken", "not finite"), ("damaged", "damaged.safetensors")):
        other = EmbeddingJob(tmp_path / f"{name}.safetensors", PLAIN, tmp_path / f"{name}.h5")
        own.output.unlink(missing_ok=True)
        embed_to_file(own.checkpoint, images, own.settings, own.output, find_others=lambda: [other])  # noqa: B023
        said = capsys.readouterr().out
        assert own.output.is_file() and "wait for their turn" in said and problem in said
        with pytest.raises(UserError, match=problem):
            embed_to_file(other.checkpoint, images, other.settings, other.output)


def test_networks_that_do_not_fit_into_memory_at_once_embed_in_turn(
    images: ImageSet, checkpoints: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    apart = embed_all(images, list_embeddings(checkpoints, tmp_path / "apart"), together=False)
    held, to = weakref.WeakSet[Descriptor](), Descriptor.to

    def load(path: Path) -> Checkpoint:
        loaded = load_descriptor(path)
        held.add(loaded.descriptor)  # type: ignore[arg-type]
        return loaded

    def put(descriptor: Descriptor, *arguments: object, **options: object) -> Descriptor:
        if len(held) > 1 and not options:  # not only arranged
            raise torch.OutOfMemoryError("CUDA out of memory")
        return to(descriptor, *arguments, **options)  # type: ignore[no-any-return, call-overload]

    monkeypatch.setattr(embed, "load_descriptor", load)
    monkeypatch.setattr(Descriptor, "to", put)
    assert embed_all(images, list_embeddings(checkpoints, tmp_path / "together"), together=True) == apart
    assert capsys.readouterr().out.count("memory ran out while a network was put on the device") == 2


def test_models_of_a_run_that_are_due_embed_together(small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("two", "three", "four")
    model = "{descriptor: {backbone: test_efficientnet, dimensions: 16}, stages: [{image_size: 32}]}"
    added = "".join(f"  {name}: {model}\n" for name in names)
    run = copy_run(small_run, tmp_path / "run", ("embedding:", f"{added}embedding:"))
    for name in names:
        shutil.copytree(run.paths.model("one"), run.paths.model(name))
    reads = Counter[Path]()

    def count(path: Path) -> bytes:
        reads[path] += 1
        return read_or_nothing(path)

    monkeypatch.setattr(loader, "read_or_nothing", count)
    run_step(run, EMBED)
    images = [path for found in find_images_to_embed(run).values() for path in found.paths]
    assert {path.name: count for path, count in reads.items()} == dict.fromkeys((path.name for path in images), 1)
    made = [run.paths.embeddings("three", part) for part in ("query", "reference")]
    before = [path.read_bytes() for path in made]
    for path in made:
        path.unlink()  # due again, and alone
    run_step(run, EMBED)
    assert [path.read_bytes() for path in made] == before


@pytest.mark.parametrize("workers", [0, 2])
def test_shards_are_loaded_ahead_with_the_same_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    list(write_pictures(tmp_path / "pictures", "T", 11, seed=0, workers=1))
    images, checkpoint = find_images(tmp_path / "pictures"), tmp_path / "network.safetensors"
    save_descriptor(checkpoint, Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8)), 32, {})
    settings = EmbeddingSettings(workers=workers, shard=4, batch_size=2)
    events = list[str]()

    def load_noted(networks: Any, some: ImageSet) -> Any:
        events.append(f"load {images.ids.index(some.ids[0])}")
        return inference.load_batches(networks, some)

    def write_noted(path: Path, ids: list[str], vectors: Iterator[Any], unreadable: Any) -> None:
        write_vectors(path, ids, vectors, unreadable)
        events.append(f"wrote {images.ids.index(ids[0])}")

    embed_to_file(checkpoint, images, settings, tmp_path / "alone.h5")
    monkeypatch.setattr(inference, "map_in_parallel", lambda work, items, _: overlap(work, lambda result: result, items))
    monkeypatch.setattr(embed, "_starts_early", lambda: True)
    monkeypatch.setattr(embed, "load_batches", load_noted)
    monkeypatch.setattr(embed, "write_vectors", write_noted)
    embed_to_file(checkpoint, images, settings, tmp_path / "ahead.h5")
    assert events == ["load 4", "wrote 0", "load 8", "wrote 4", "wrote 8"] and embed._LOADED == {}
    assert (tmp_path / "ahead.h5").read_bytes() == (tmp_path / "alone.h5").read_bytes()
