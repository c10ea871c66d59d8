"""Images that show two of a batch at once."""

from pathlib import Path

import torch
from torch import Tensor

from image_copies.augmentations.dataset import normalize_pixels
from image_copies.data.images import ImageSet
from image_copies.models.network.descriptor import Descriptor
from image_copies.models.objectives.base import Objective
from image_copies.models.training.launch import launch_fabric
from image_copies.models.training.model_settings import ModelSettings
from image_copies.models.training.settings import MixSettings
from image_copies.models.training.trainer import Trainer
from image_copies.studies.multigrain.batches import Mixup


def test_as_many_batches_are_mixed_as_asked_for() -> None:
    torch.manual_seed(2)
    mixup = Mixup(MixSettings(kind="mixup", probability=0.25, alpha=0.5))
    drawn = [mixup.draw_share() for _ in range(400)]
    shares = [share for share in drawn if share is not None]
    assert 70 < len(shares) < 130 and all(0 <= share <= 1 for share in shares)
    assert sum(share < 0.1 or share > 0.9 for share in shares) > 0.3 * len(shares)  # Beta(½, ½) is high at its ends


def mix_by_hand(images: Tensor) -> tuple[Tensor, Tensor, float]:
    """Mixed images, partners and λ of a batch, drawn as training draws them, from the definition of MixUp."""
    assert float(torch.rand(())) < 1
    share = float(torch.distributions.Beta(0.7, 0.7).sample())
    partner = torch.randperm(len(images))
    rows = [share * images[row] + (1 - share) * images[other] for row, other in enumerate(partner)]
    return torch.stack(rows), partner, share


def test_the_loss_counts_the_image_and_its_partner_by_their_shares() -> None:
    """λ · L(own classes) + (1 − λ) · L(the partners')."""
    settings = ModelSettings.model_validate(
        {
            "descriptor": {"backbone": "test_nfnet", "dimensions": 8},
            "objective": {"kind": "arcface", "scale": 16, "margin": 0.4},
            "mix": {"kind": "mixup", "probability": 1, "alpha": 0.7},
            "stages": [{"image_size": 32, "batch_size": 8}],
        }
    )
    trainer = Trainer(settings, ImageSet([], []), ImageSet([], []), Path(), Path(), seed=0)
    trainer.fabric = launch_fabric("32")
    trainer.descriptor = trainer.network = descriptor = Descriptor(settings.descriptor)
    head: Objective = settings.objective.build(8, 5, 0)
    trainer.prepare(head)
    pixels = torch.randint(256, (6, 3, 32, 32), dtype=torch.uint8)
    labels, instances = torch.tensor([0, 0, 3, 3, 4, 4]), torch.tensor([7, 7, 8, 8, 9, 9])
    drawn = []
    for seed in range(4):
        torch.manual_seed(seed)
        loss = trainer.compute_batch_loss(pixels, labels, instances).loss
        torch.manual_seed(seed)
        mixed, partner, share = mix_by_hand(normalize_pixels(pixels, descriptor.mean, descriptor.std))
        embeddings = descriptor(mixed, raw=True)
        own, others = (head(embeddings, of, instances).loss for of in (labels, labels[partner]))
        torch.testing.assert_close(loss, share * own + (1 - share) * others, rtol=1e-4, atol=1e-5)
        drawn.append(abs(1 - 2 * share) * abs(float((own - others).detach())))  # by which swapped shares would show
    assert max(drawn) > 1e-2
