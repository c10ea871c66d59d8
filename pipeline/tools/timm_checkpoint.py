"""A network of timm's, with its weights, as a checkpoint that embeds and matches."""

from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.models.network.backbones import TIMM
from image_copies.models.network.checkpoint import save_descriptor
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.network.settings import DescriptorSettings, without_weights_files

DEFAULT_SIDE = 224  # pixels, where timm does not say what a network was trained at


def write_timm(name: str, weights: Path | None, path: Path) -> None:
    """Write the network `timm:NAME`, whose vectors are its pooled features at unit length, with weights of a file or timm's own.

    Raises:
        UserError: timm has no such network, its weights cannot be fetched or read, or are another one's.
    """
    if not name.removeprefix(TIMM):
        raise UserError("timm: names no network; expected timm:NAME, such as timm:resnet50. See timm.list_models().")
    settings = DescriptorSettings(backbone=name, weights="pretrained" if weights is None else str(weights), dimensions=None)
    descriptor = Descriptor(settings)
    published = getattr(descriptor.backbone, "pretrained_cfg", None) or {}
    side = int(published.get("input_size", (3, DEFAULT_SIDE, DEFAULT_SIDE))[-1])
    kept = without_weights_files(settings)
    assert isinstance(kept, DescriptorSettings)
    descriptor.settings = kept
    save_descriptor(path, descriptor, side, {"timm": name.removeprefix(TIMM)})
