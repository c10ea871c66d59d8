"""MultiGrain, figure 3: a channel of the last feature map raised to p, at several sizes, with its GeM value below."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from drawn.sets import open_view

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.data.decode import decode_rgb
from image_copies.data.errors import UserError
from image_copies.data.preprocessing import preprocess
from image_copies.models.network.layers import EPSILON, GeM


def draw_channels(
    checkpoint: Path, images: Sequence[Path], channel: int | None, sizes: Sequence[int], exponents: Sequence[float], plot: Path
) -> None:
    """Draw a row for each image; maps of the same size and exponent share their colours.

    Raises:
        UserError: The network has no feature maps, or no such channel.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    maps = {size: [compute_maps(checkpoint, image, size) for image in images] for size in sizes}
    count = len(maps[sizes[0]][0])
    if channel is None:
        pooled = [GeM(exponents[-1], trainable=False)(found[None])[0] for found in maps[sizes[-1]]]
        channel = int((pooled[0] - pooled[-1]).abs().argmax())
    if not 0 <= channel < count:
        raise UserError(f"--channel {channel}: the last feature map has {count} channels, from 0.")
    columns = [(size, exponent) for size in sizes for exponent in exponents]
    figure, axes = pyplot.subplots(
        len(images), 1 + len(columns), figsize=(3 * (1 + len(columns)), 3.3 * len(images)), squeeze=False
    )
    for row, image in zip(axes, images, strict=True):
        row[0].imshow(decode_rgb(image))
        row[0].set_title(image.name)
    for place, (size, exponent) in enumerate(columns, start=1):
        shown = [np.clip(found[channel].numpy(), EPSILON, None) ** exponent for found in maps[size]]
        for axis, values, found in zip(axes[:, place], shown, maps[size], strict=True):
            axis.imshow(values, vmin=0, vmax=max(float(other.max()) for other in shown))
            value = float(GeM(exponent, trainable=False)(found[None, channel : channel + 1]))
            axis.set_title(f"s* {size}, p* {exponent:g}, channel {channel}: {value:.3g}", fontsize=9)
    for axis in axes.flat:
        axis.set_axis_off()
    figure.tight_layout()
    figure.savefig(plot)
    pyplot.close(figure)


def compute_maps(checkpoint: Path, image: Path, size: int) -> torch.Tensor:
    """Return the last feature maps [c, h, w] of an image at a size.

    Raises:
        UserError: The network has tokens or vectors instead.
    """
    view = open_view(checkpoint, size)
    pixels = torch.from_numpy(preprocess(decode_rgb(image), size, view.protocol)).permute(2, 0, 1)[None]
    with torch.inference_mode():
        shown = normalize_pixels(pixels.to(next(view.descriptor.parameters()).device), view.descriptor.mean, view.descriptor.std)
        features = view.descriptor.features(shown)
    if features.ndim != 4:
        raise UserError(
            f"{checkpoint}: its network has no feature maps but {list(features.shape)[1:]}; give a convolutional one."
        )
    return features[0].float().cpu()
