"""Each image of a batch turned to a rotation of its own."""

import torch

from image_copies.augmentations.dataset import rotate_to_domains


def test_every_image_is_turned_as_its_domain_says_and_the_batch_keeps_its_format() -> None:
    images = torch.arange(5 * 3 * 4 * 4.0).reshape(5, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    domains = torch.tensor([2, 0, 3, 1, 3])
    turned = rotate_to_domains(images, domains)
    for image, result, domain in zip(images, turned, domains.tolist(), strict=True):
        assert torch.equal(result, torch.rot90(image, domain, dims=(1, 2)))
    assert turned.is_contiguous(memory_format=torch.channels_last)
