"""JPEG files decoded and resized on the network's device: `decode_on: device` of `embedding`.

The device decodes at full size and takes means over whole blocks where the CPU decodes at a reduced scale; what remains is
resized as `data.squares.resize_square` does. `docs/gpu.md` says how far the pixels are from the CPU's.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from image_copies.data.encoded import EncodedBatch, find_plain_jpeg, join_encoded
from image_copies.data.errors import UserError
from image_copies.data.loader import load_squares
from image_copies.models.device import describe_device, is_lack_of_memory

PIXELS_AT_ONCE = 2**27  # decoded by one call: 400 MB, in addition to what the decoder needs
MAX_MEAN_DIFFERENCE = 6.0  # levels, between the squares of the two decoders' sample picture; several times what is expected
Decode = Callable[[list[Tensor]], list[Tensor]]  # JPEG files uint8 [b] on the host → RGB uint8 [3, h, w] on the device
REMEDY = "Set embedding.decode_on to cpu in the recipe, or leave it out; the vectors are then made again."


class DeviceDecoder:
    """Makes squares of batches whose JPEG files are decoded on a device.

    It counts the files that `decode` refused by a RuntimeError: these are decoded on the CPU.
    """

    def __init__(self, device: torch.device, decode: Decode) -> None:
        self._device, self._decoder, self.refused = device, decode, 0
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    @torch.no_grad()
    def make_squares(self, batch: EncodedBatch) -> dict[int, tuple[Tensor, Tensor]]:
        """Return the squares of a batch by size: uint8 [n, 3, size, size] on the device, and which images could be read [n].

        Raises:
            RuntimeError: The device's memory does not suffice.
        """
        made = {}
        with self.beside_the_network():
            of_files = [squares for part in _divide(batch.shapes) for squares in self._decode_part(batch, part)]
            for size, (pixels, readable) in batch.squares.items():
                others = zip(pixels.to(self._device), readable.tolist(), strict=True)
                files = dict(zip(batch.rows, (squares[size] for squares in of_files), strict=True))
                squares = [files[row] if row in files else next(others) for row in range(len(batch))]
                made[size] = torch.stack([square for square, _ in squares]), torch.tensor([whether for _, whether in squares])
        if self._stream is not None:
            for pixels, _ in made.values():
                pixels.record_stream(torch.cuda.current_stream(self._device))
        return made

    @contextmanager
    def beside_the_network(self) -> Iterator[None]:
        """Use a separate stream within the block; what follows on the network's stream waits for it."""
        if self._stream is None:
            yield
            return
        with torch.cuda.stream(self._stream):
            yield
        torch.cuda.current_stream(self._device).wait_stream(self._stream)

    def decode(self, files: list[Tensor]) -> list[Tensor]:
        """Decode files, all or none of them; called `beside_the_network`.

        torchvision's decoder writes from a third stream, and does not wait for those that still read memory which it is given.
        That memory comes from the stream of this block, which is therefore waited for.

        Raises:
            RuntimeError: The decoder refuses one of them, or the device's memory does not suffice.
        """
        if self._stream is not None:
            self._stream.synchronize()
        return list(self._decoder(files))

    def _decode_part(self, batch: EncodedBatch, part: slice) -> Iterator[dict[int, tuple[Tensor, bool]]]:
        """Yield the squares of some of a batch's files, by size."""
        files = batch.files[part]
        for file, image, shape in zip(files, self._decode_some(files), batch.shapes[part], strict=True):
            if image is None or tuple(image.shape) != (3, *shape):
                self.refused += 1
                squares = load_squares(file.numpy().tobytes(), batch.squares)
                yield {size: (square.to(self._device), readable) for size, (square, readable) in squares.items()}
            else:
                yield {size: (resize_to_square(image, size), True) for size in batch.squares}

    def _decode_some(self, files: list[Tensor]) -> list[Tensor | None]:
        """Decode files; None for those that the decoder refuses, which it does not name."""
        try:
            return list[Tensor | None](self.decode(files))
        except RuntimeError as error:
            if is_lack_of_memory(error):
                raise
        if len(files) == 1:
            return [None]
        middle = len(files) // 2
        return self._decode_some(files[:middle]) + self._decode_some(files[middle:])


def open_decoder(device: torch.device) -> DeviceDecoder:
    """Return the decoder of JPEG files on a GPU, once it has decoded a sample picture as the CPU does, but for a few levels.

    Raises:
        UserError: The device is no NVIDIA GPU, torchvision cannot be imported or has no such decoder, or it gives other pixels.
        RuntimeError: The device's memory does not suffice.
    """
    if device.type != "cuda":
        raise UserError(
            f"embedding.decode_on: device is for NVIDIA GPUs, and images are embedded on {describe_device(device)}. {REMEDY}"
        )
    return check_decoder(DeviceDecoder(device, find_decoder(device)))


def find_decoder(device: torch.device) -> Decode:
    """Return torchvision's decoder of JPEG files on a device.

    Raises:
        UserError: torchvision cannot be imported.
    """
    try:
        from torchvision.io import ImageReadMode, decode_jpeg
    except (ImportError, RuntimeError, OSError, AttributeError) as error:  # also one that was built for another torch
        raise UserError(
            "embedding.decode_on: device needs torchvision in a build for this torch, which cannot be imported "
            f"({(str(error).splitlines() or [type(error).__name__])[0]}). Install the pair of requirements.txt. {REMEDY}"
        ) from error
    return partial(decode_jpeg, mode=ImageReadMode.RGB, device=device)


def check_decoder(decoder: DeviceDecoder) -> DeviceDecoder:
    """Compare a decoder's square of a sample picture with the CPU's, and return the decoder.

    Raises:
        UserError: It refuses the picture, or its pixels are too different.
        RuntimeError: The device's memory does not suffice.
    """
    content, size = _encode_sample(), 64
    sample = find_plain_jpeg(content)
    assert sample is not None
    try:
        with decoder.beside_the_network():
            decoder.decode([torch.frombuffer(bytearray(content), dtype=torch.uint8)])
    except RuntimeError as error:
        if is_lack_of_memory(error):
            raise
        raise UserError(
            "embedding.decode_on: device needs a torchvision that decodes JPEG files on the GPU (nvJPEG), and this one does not: "
            f"{(str(error).splitlines() or [type(error).__name__])[0]}. {REMEDY}"
        ) from error
    squares, _ = decoder.make_squares(join_encoded([sample], [size]))[size]
    apart = (squares[0].cpu().int() - load_squares(content, [size])[size][0].int()).abs().float().mean().item()
    if apart > MAX_MEAN_DIFFERENCE:
        raise UserError(
            f"embedding.decode_on: device decodes a sample picture to pixels {apart:.1f} levels from the CPU's on average, more "
            f"than {MAX_MEAN_DIFFERENCE:.0f}: this decoder cannot be used. {REMEDY}"
        )
    return decoder


def resize_to_square(image: Tensor, size: int) -> Tensor:
    """Resize RGB uint8 [3, h, w] to [3, size, size] as decoding at a reduced scale and `data.squares.resize_square` do."""
    pixels, scale = image.float(), _find_scale(min(image.shape[1:]), size)
    if scale > 1:
        pixels = functional.avg_pool2d(pixels[None], scale, ceil_mode=True)[0]
    height, width = pixels.shape[1:]
    weigh = weigh_areas if min(height, width) > size else weigh_neighbours
    rows, columns = (weigh(length, size, image.device) for length in (height, width))
    return (rows @ pixels @ columns.T).round_().clamp_(0, 255).byte()


def _find_scale(short_side: int, size: int) -> int:
    """Return the divisor 8, 4, 2 or 1 of the scale at which the CPU decodes a JPEG for a square."""
    return next((scale for scale in (8, 4, 2) if short_side // size >= scale), 1)


@lru_cache(maxsize=64)  # of a photo's usual sides: 40 MB at 160 px
def weigh_areas(length: int, size: int, device: torch.device) -> Tensor:
    """Weights [size, length] that resize a side by the means over areas."""
    place, source, scale = _place_pixels(length, size, device)
    return (torch.minimum(source + 1, (place + 1) * scale) - torch.maximum(source, place * scale)).clamp_(min=0) / scale


@lru_cache(maxsize=64)
def weigh_neighbours(length: int, size: int, device: torch.device) -> Tensor:
    """Weights [size, length] that resize a side by linear interpolation."""
    place, source, scale = _place_pixels(length, size, device)
    middle = ((place + 0.5) * scale - 0.5).clamp_(0, length - 1)
    return (1 - (middle - source).abs()).clamp_(min=0)


def _place_pixels(length: int, size: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return the numbers of the pixels after [size, 1] and before [length] a side is resized, and its length before / after."""
    after, before = (torch.arange(count, dtype=torch.float32, device=device) for count in (size, length))
    return after[:, None], before, torch.tensor(length / size, device=device)


def _divide(shapes: Sequence[tuple[int, int]]) -> Iterator[slice]:
    """Divide images of these heights and widths into parts of at most PIXELS_AT_ONCE; one that has more is a part."""
    first, pixels = 0, 0
    for place, (height, width) in enumerate(shapes):
        if place > first and pixels + height * width > PIXELS_AT_ONCE:
            yield slice(first, place)
            first, pixels = place, 0
        pixels += height * width
    if len(shapes) > first:
        yield slice(first, len(shapes))


def _encode_sample() -> bytes:
    """Encode a picture of soft colours as a JPEG file."""
    y, x = np.mgrid[0:192, 0:256]
    waves = [np.sin(x / 17) * np.cos(y / 23), np.sin((x + y) / 29), np.cos(np.hypot(x - 90, y - 80) / 13)]
    with io.BytesIO() as file:
        Image.fromarray(np.stack([np.uint8(127 + 90 * wave) for wave in waves], axis=2)).save(file, "JPEG", quality=90)
        return file.getvalue()
