"""Steps and tools on images and vectors of an object store: the same results as on this machine, and clear errors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from image_copies.data.cache import cache_images
from image_copies.data.errors import StorageError, UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.procedural import write_pictures
from image_copies.data.remote import as_path
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.pipeline.match import main
from image_copies.pipeline.run.run import open_existing_run, open_run
from image_copies.pipeline.run.step import describe_state
from image_copies.pipeline.steps.embed import embed_to_file
from image_copies.submissions.vectors.files import read_vectors, write_vectors


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Nine pictures, of which one cannot be read, and the second of which is stored again in another format."""
    folder = tmp_path / "pictures"
    list(write_pictures(folder, "P", 7, seed=1, workers=1))
    (folder / "broken.jpg").write_bytes(b"no image")
    with Image.open(folder / "P000001.jpg") as image:
        image.save(folder / "again.png")
    return folder


def upload(object_store: Any, bucket: str, folder: Path) -> str:
    url: str = object_store.make_bucket(bucket, {f"in/{path.name}": path.read_bytes() for path in folder.iterdir()})
    return f"{url}/in"


@pytest.mark.parametrize("workers", [0, 2])
def test_vectors_are_those_of_the_same_local_folder(
    object_store: Any, pictures: Path, checkpoint: Path, tmp_path: Path, workers: int
) -> None:
    url = upload(object_store, f"embedded-{workers}", pictures)
    settings = EmbeddingSettings(workers=workers, batch_size=4, shard=4)
    output = as_path(f"s3://embedded-{workers}/out/vectors.h5")
    embed_to_file(checkpoint, find_images(as_path(url)), settings, output)
    embed_to_file(checkpoint, find_images(pictures), settings, tmp_path / "vectors.h5")
    here, there = read_vectors(tmp_path / "vectors.h5"), read_vectors(output)
    assert (tmp_path / "vectors.h5").read_bytes() == output.read_bytes()
    assert here.ids == there.ids
    assert np.array_equal(here.vectors, there.vectors)
    written = sorted(path.name for path in output.parent.iterdir())
    assert written == ["vectors.h5", "vectors.unreadable.txt"], "no shard is left"
    assert output.with_suffix(".unreadable.txt").read_text() == f"{url}/broken.jpg\tis not an image that can be read\n"


def test_what_was_finished_before_the_network_went_is_not_done_again(
    object_store: Any, pictures: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, forget_connections: Callable[[], None]
) -> None:
    images = find_images(as_path(upload(object_store, "interrupted", pictures)))
    settings = EmbeddingSettings(workers=0, batch_size=2, shard=2)
    output = as_path("s3://interrupted/out/vectors.h5")
    failing = images.paths[6]
    read: list[Path] = []

    def count_reads(path: Any, limit: int | None = None) -> bytes:
        if path == failing and failing not in read:
            read.append(path)
            raise StorageError(f"{path} cannot be read: the store cannot be reached")
        read.append(path)
        content: bytes = plain(path, limit)
        return content

    plain: Any = type(failing).read_bytes
    monkeypatch.setattr(type(failing), "read_bytes", count_reads)
    with pytest.raises(StorageError, match=r"the store cannot be reached"):
        embed_to_file(checkpoint, images, settings, output)
    assert set(images.paths[:6]) <= set(read)
    assert not output.exists()
    read.clear()
    read.append(failing)  # the network is back
    embed_to_file(checkpoint, images, settings, output)
    assert set(read) & set(images.paths[:6]) <= {path for path in images.paths if path.name == "broken.jpg"}
    assert len(read_vectors(output)) == len(images)


def test_shards_that_cannot_be_asked_for_are_not_taken_for_broken(
    object_store: Any, pictures: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, forget_connections: Callable[[], None]
) -> None:
    images = find_images(as_path(upload(object_store, "unasked", pictures)))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    forget_connections()
    with pytest.raises(StorageError, match=r"s3://unasked/.* the store cannot be reached"):
        embed_to_file(checkpoint, images, EmbeddingSettings(workers=0), as_path("s3://unasked/v.h5"))


def test_a_network_that_goes_while_vectors_are_read_is_no_damaged_file(
    object_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    object_store.make_bucket("read", {})
    path = as_path("s3://read/v.h5")
    write_vectors(path, ["a", "b"], [np.ones((2, 4), np.float32)])
    assert read_vectors(path).ids == ["a", "b"]

    def fail(*_: Any) -> bytes:
        raise ConnectionError("broken pipe")

    monkeypatch.setattr("s3fs.S3File._fetch_range", fail)
    with pytest.raises(StorageError, match=r"s3://read/v.h5 cannot be read: the store cannot be reached.*broken pipe"):
        read_vectors(path)
    path.unlink()
    with pytest.raises(UserError, match=r"s3://read/v.h5: no such file"):
        read_vectors(path)


def test_a_run_remembers_its_data_set_on_a_store(object_store: Any, pictures: Path, tmp_path: Path) -> None:
    url = upload(object_store, "isc", pictures).removesuffix("/in")
    for part in ("training_images", "reference_images", "query_images"):
        object_store.files.copy(f"{url}/in/P000003.jpg", f"{url}/{part}/{part[0]}.jpg")
    run = open_run(tmp_path / "run", data=as_path(url))
    assert run.training_images.ids == ["t"]
    again = open_existing_run(tmp_path / "run")
    assert again.data == as_path(url)
    state = describe_state({"training": run.training_images, "data": run.data}, {})
    assert state == describe_state({"training": again.training_images, "data": again.data}, {})
    cached = cache_images(run.training_images, 32, tmp_path / "cache")
    here = cache_images(ImageSet(["t"], [pictures / "P000003.jpg"]), 32, tmp_path / "cache")
    assert np.array_equal(cached.pixels[0], here.pixels[0])


def test_copies_are_found_between_stores_and_folders(
    object_store: Any, pictures: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = upload(object_store, "matched", pictures)
    output = tmp_path / "matches"
    common = ["--checkpoint", str(checkpoint), "--threshold", "-0.05", "--output", str(output)]
    assert main(["--queries", url, *common]) == 0
    pairs = pd.read_csv(output / "matches.csv")
    assert {frozenset((pair.query, pair.reference)) for pair in pairs.itertuples()} >= {
        frozenset((f"{url}/P000001.jpg", f"{url}/again.png"))
    }
    assert (output / "unreadable.txt").read_text() == f"{url}/broken.jpg\tis not an image that can be read\n"
    assert list((output / "gallery" / "images").glob("*.jpg"))
    capsys.readouterr()
    main(["--queries", url, *common])
    assert " 0 of them embedded" in capsys.readouterr().out, "the contents are known by their bytes"
    with pytest.raises(UserError, match=r"is on an object store, where no file is moved, linked or deleted"):
        main(["--apply", "move", "--output", str(output)])
    local = ["--queries", url, "--references", str(pictures), *common]
    assert main(local) == 0
    same = pd.read_csv(output / "matches.csv").query("score == 0")
    assert len(same) >= 8, "the same bytes on both sides"


def test_what_needs_a_file_of_this_machine_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--queries", "s3://bucket", "--index", "s3://bucket/index"])
    assert (
        "s3://bucket/index is on an object store; this option needs a file or folder of this machine" in capsys.readouterr().err
    )
