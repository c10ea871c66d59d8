"""`decode_on: device`, played by decoders on the CPU: Pillow's, and torchvision's own function."""

import io
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from image_copies.data.encoded import find_plain_jpeg, join_encoded
from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet, find_images
from image_copies.data.loader import load_squares
from image_copies.data.procedural.sample import write_pictures
from image_copies.models.inference import device_decoding, embed
from image_copies.models.inference.device_decoding import DeviceDecoder, check_decoder, find_decoder, open_decoder
from image_copies.models.inference.embed import embed_together
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.network.checkpoint import Checkpoint, save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings
from image_copies.pipeline.run.manifest import describe_state, find_changes, to_json
from image_copies.pipeline.steps.embed import EmbeddingJob, embed_to_file
from image_copies.submissions.vectors.files import read_vectors

CPU = torch.device("cpu")
# (largest mean of a picture, largest) difference of 8-bit levels to the CPU's squares; those of docs/gpu.md
AT_FULL_SCALE, AT_REDUCED_SCALES = (0.5, 1), (4.0, 48)
SHAPES = [(1024, 768), (500, 400), (400, 500), (130, 97), (64, 64), (900, 120), (60, 700), (333, 257), (20, 20)]


def decode_by_pillow(files: list[Tensor]) -> list[Tensor]:
    """As nvJPEG does: at full size, RGB; one file that it refuses ends the call."""
    images = []
    for file in files:
        try:
            with Image.open(io.BytesIO(file.numpy().tobytes())) as image:
                images.append(torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1))
        except OSError as error:
            raise RuntimeError("Failed to decode jpeg stream: 4") from error
    return images


DECODERS: dict[str, Callable[[list[Tensor]], list[Tensor]]] = {
    "Pillow": decode_by_pillow,
    "torchvision": lambda files: find_decoder(CPU)(files),
}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Image.Image]:
    written = write_pictures(tmp_path_factory.mktemp("pictures"), "T", len(SHAPES), seed=0, workers=1)
    opened = [np.asarray(Image.open(path).convert("RGB")) for path in written]
    return [Image.fromarray(cv2.resize(one, shape)) for one, shape in zip(opened, SHAPES, strict=True)]


@pytest.fixture(scope="module")
def images(pictures: list[Image.Image], tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    """JPEGs of several shapes, and files that are decoded with care or not at all."""
    folder = tmp_path_factory.mktemp("images")
    for number, picture in enumerate(pictures):
        picture.save(folder / f"{number}.jpg", quality=70 + 3 * number, subsampling=number % 3)
    exif = Image.Exif()
    exif[0x0112] = 6
    pictures[0].save(folder / "turned.jpg", exif=exif)
    pictures[1].convert("CMYK").save(folder / "cmyk.jpg")
    pictures[2].convert("L").save(folder / "grey.jpg")
    pictures[3].save(folder / "progressive.jpg", progressive=True)
    pictures[4].convert("RGBA").save(folder / "transparent.png")
    Image.fromarray((np.asarray(pictures[5])[..., 0] * np.uint16(250)).astype(np.uint16)).save(folder / "deep.png")
    (folder / "cut.jpg").write_bytes((folder / "1.jpg").read_bytes()[:3000])
    (folder / "none.jpg").write_bytes(b"no image")
    return find_images(folder)


@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
def test_squares_are_within_the_stated_tolerance(pictures: list[Image.Image], decode: device_decoding.Decode) -> None:
    sizes = [32, 64, 160, 224]
    for picture in pictures:
        for quality, subsampling in ((92, 2), (75, 0), (85, 1)):
            with io.BytesIO() as file:
                picture.save(file, "JPEG", quality=quality, subsampling=subsampling)
                content = file.getvalue()
            plain = find_plain_jpeg(content)
            assert plain is not None
            made, expected = DeviceDecoder(CPU, decode).make_squares(join_encoded([plain], sizes)), load_squares(content, sizes)
            for size in sizes:
                assert made[size][0].dtype == torch.uint8 and made[size][1].tolist() == [True]
                apart = (made[size][0][0].int() - expected[size][0].int()).abs().float()
                mean, largest = AT_REDUCED_SCALES if min(picture.size) >= 2 * size else AT_FULL_SCALE
                assert apart.mean() <= mean and apart.max() <= largest, (picture.size, size)


def test_every_image_has_its_place_whoever_decodes_it(images: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder refuses two files, and gives one of another size than its header says; parts of a batch are small."""
    refused = {(images.paths[row]).read_bytes() for row in (2, 5)}
    calls = list[int]()

    def decode(files: list[Tensor]) -> list[Tensor]:
        calls.append(len(files))
        if any(file.numpy().tobytes() in refused for file in files):
            raise RuntimeError("Failed to decode batch: 2")
        return [image[:, 1:] if image.shape == (3, 768, 1024) else image for image in decode_by_pillow(files)]

    contents = [path.read_bytes() for path in images.paths]
    items = [find_plain_jpeg(content) or load_squares(content, [32, 64]) for content in contents]
    batch = join_encoded(items, [32, 64])
    assert 0 < len(batch.rows) < len(images)
    monkeypatch.setattr(device_decoding, "PIXELS_AT_ONCE", 500_000)
    decoder = DeviceDecoder(CPU, decode)
    made = decoder.make_squares(batch)
    assert decoder.refused == 3 and max(calls) > 1
    for size in (32, 64):
        assert made[size][1].tolist() == [path.stem not in ("cut", "none") for path in images.paths]
        for row, content in enumerate(contents):
            apart = (made[size][0][row].int() - load_squares(content, [size])[size][0].int()).abs().float()
            exact = not isinstance(items[row], dict) and (
                content in refused or batch.shapes[batch.rows.index(row)] == (768, 1024)
            )
            assert apart.mean() <= (0 if exact or isinstance(items[row], dict) else AT_REDUCED_SCALES[0])


def test_lack_of_memory_is_not_taken_for_a_refusal(images: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(files: list[Tensor]) -> list[Tensor]:
        raise torch.OutOfMemoryError("CUDA out of memory")

    plain = find_plain_jpeg(images.paths[0].read_bytes())
    assert plain is not None
    with pytest.raises(torch.OutOfMemoryError):
        DeviceDecoder(CPU, decode).make_squares(join_encoded([plain] * 2, [32]))
    monkeypatch.setattr(embed, "open_decoder", lambda device: check_decoder(DeviceDecoder(device, decode)))
    with pytest.raises(
        UserError, match=r"memory ran out while the device's decoder was tried: CUDA out of memory Lower batch_size"
    ):
        list(embed_together([(make_network(32), EmbeddingSettings(workers=0, decode_on="device"))], images))


def test_no_memory_is_decoded_into_before_it_is_read(images: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The streams of a GPU, played: the decoder's own stream is idle at each call, and the network's waits for it."""
    events = list[str]()

    class Stream:
        def synchronize(self) -> None:
            events.append("idle")

        def wait_stream(self, other: "Stream") -> None:
            events.append("wait")

    def decode(files: list[Tensor]) -> list[Tensor]:
        events.append("decode")
        return decode_by_pillow(files)

    def resize(image: Tensor, size: int) -> Tensor:
        if events[-1] != "resize":
            events.append("resize")
        return resized(image, size)

    resized = device_decoding.resize_to_square
    decoder = DeviceDecoder(CPU, decode)
    decoder._stream = Stream()  # type: ignore[assignment]
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: Stream())
    monkeypatch.setattr(Tensor, "record_stream", lambda *_: events.append("kept"))
    monkeypatch.setattr(device_decoding, "resize_to_square", resize)
    monkeypatch.setattr(device_decoding, "PIXELS_AT_ONCE", 500_000)
    plain = [file for path in images.paths if (file := find_plain_jpeg(path.read_bytes())) is not None]
    decoder.make_squares(join_encoded(plain, [32]))
    assert events == ["idle", "decode", "resize"] * 3 + ["wait", "kept"]


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"embedding\.decode_on: device is for NVIDIA GPUs, and .* on the CPU .*decode_on to cpu"):
        open_decoder(CPU)

    def lacking(files: list[Tensor]) -> list[Tensor]:
        raise RuntimeError("decode_jpegs_cuda: torchvision not compiled with nvJPEG support\nat line 1")

    with pytest.raises(UserError, match=r"needs a torchvision that decodes JPEG files on the GPU .*nvJPEG support\. Set"):
        check_decoder(DeviceDecoder(CPU, lacking))
    with pytest.raises(UserError, match=r"to pixels \d+\.\d levels from the CPU's on average, more than 6"):
        check_decoder(DeviceDecoder(CPU, lambda files: [image.flip(0) for image in decode_by_pillow(files)]))
    for decode in DECODERS.values():
        check_decoder(DeviceDecoder(CPU, decode))
    monkeypatch.setitem(sys.modules, "torchvision.io", None)
    with pytest.raises(UserError, match=r"decode_on: device needs torchvision in a build for this torch.* Install the pair of"):
        find_decoder(CPU)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is the CPU, and its decoder Pillow's."""
    monkeypatch.setattr(embed, "open_decoder", lambda device: DeviceDecoder(device, decode_by_pillow))


def make_network(size: int) -> Checkpoint:
    torch.manual_seed(size)
    return Checkpoint(Descriptor(DescriptorSettings(backbone="test_efficientnet", dimensions=8)), size, {})


@pytest.mark.usefixtures("played")
def test_several_networks_embed_what_is_decoded_once(
    images: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for size in (32, 64):
        network = make_network(size)
        save_descriptor(tmp_path / f"{size}.safetensors", network.descriptor, size, {})
    on_cpu = EmbeddingSettings(workers=0, shard=8, batch_size=4)
    on_device = on_cpu.model_copy(update={"decode_on": "device"})
    decoded = list[int]()
    monkeypatch.setattr(
        embed,
        "open_decoder",
        lambda device: DeviceDecoder(device, lambda files: decoded.append(len(files)) or decode_by_pillow(files)),  # type: ignore[func-returns-value]
    )

    def embed_all(settings: EmbeddingSettings, name: str, together: bool) -> dict[str, bytes]:
        (tmp_path / name).mkdir()
        made = [EmbeddingJob(tmp_path / f"{size}.safetensors", settings, tmp_path / name / f"{size}.h5") for size in (32, 64)]
        for number, own in enumerate(made):
            others = made[number + 1 :] if together else []
            embed_to_file(own.checkpoint, images, settings, own.output, find_others=lambda others=others: others)  # type: ignore[misc]
        return {path.name: path.read_bytes() for path in sorted((tmp_path / name).iterdir())}

    cpu, apart = embed_all(on_cpu, "cpu", True), embed_all(on_device, "apart", False)
    assert sum(decoded) == 2 * len(SHAPES)
    assert embed_all(on_device, "together", True) == apart and sum(decoded) == 3 * len(SHAPES)
    assert "workers read images, and JPEGs are decoded there" in capfd.readouterr().out
    for size in (32, 64):
        listed = f"{size}.unreadable.txt"
        assert cpu[listed] == apart[listed] and cpu[listed].count(b"\n") == 2 and b"cut.jpg\tis damaged" in cpu[listed]
        one, other = (read_vectors(tmp_path / name / f"{size}.h5") for name in ("cpu", "apart"))
        assert np.array_equal(one.unreadable, other.unreadable) and not np.array_equal(one.vectors, other.vectors)
        assert (one.vectors * other.vectors).sum(axis=1)[~one.unreadable].min() > 0.9
        careful = [row for row, path in enumerate(images.paths) if not path.stem.isdigit()]
        np.testing.assert_allclose(one.vectors[careful], other.vectors[careful], atol=1e-6)


@pytest.mark.usefixtures("played")
def test_workers_change_nothing_and_batches_loaded_before_are_taken(images: ImageSet) -> None:
    network, blocks = make_network(32), list[list[np.ndarray]]()
    for workers in (0, 2):
        chosen = [(network, EmbeddingSettings(workers=workers, batch_size=4, decode_on="device"))]
        loaded = embed.load_batches(chosen, images) if workers else None
        blocks.append([block.vectors for (block,) in embed_together(chosen, images, loaded)])
    assert np.array_equal(np.concatenate(blocks[0]), np.concatenate(blocks[1]))


def test_without_a_gpu_the_key_is_refused(images: ImageSet) -> None:
    with pytest.raises(UserError, match=r"embedding\.decode_on"):
        list(embed_together([(make_network(32), EmbeddingSettings(workers=0, decode_on="device"))], images))


def test_vectors_of_another_decoder_are_stale_and_those_of_before_are_not() -> None:
    cpu, device = EmbeddingSettings(), EmbeddingSettings(decode_on="device")
    assert "decode_on" not in cpu.what_makes_shards()  # a key that has its default changes no digest
    assert device.on_cpu() == cpu and cpu.what_makes_shards() != device.what_makes_shards()
    states = [describe_state({}, settings.what_makes_vectors()) for settings in (cpu, device)]
    for old, new in (states, states[::-1]):
        assert find_changes(to_json(old), new, []) == ["parameter decode_on changed"]
    one, other = (EmbeddingJob(Path("x"), settings, Path("y")) for settings in (cpu, device))
    assert one.makes_shards_with(one) and other.makes_shards_with(other) and not one.makes_shards_with(other)
