"""AutoAugment's ImageNet policy as one edit, the only one that needs torch; it imports torch when applied."""

from functools import lru_cache
from typing import Any

import numpy as np

from image_copies.augmentations.edits.registry import Image, edit


@edit("policy")
def auto_augment(image: Image, seed: int) -> Image:
    """Apply torchvision's AutoAugment with the ImageNet policy; its draws depend on `seed` only."""
    import torch  # imported here: only this edit needs torch

    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        edited = _make_policy()(pixels)
    return np.ascontiguousarray(edited.permute(1, 2, 0).numpy())


@lru_cache(maxsize=1)
def _make_policy() -> Any:
    from torchvision.transforms import AutoAugment, AutoAugmentPolicy

    return AutoAugment(AutoAugmentPolicy.IMAGENET)
