"""Images that show two of a batch at once."""

import pytest
import torch

from models.training.mixing import draw_share, mix_batch
from models.training.settings import MixSettings

IMAGES = torch.arange(5.0)[:, None, None, None].expand(5, 3, 8, 10).contiguous()  # each of one value, its number


def test_mixup_is_the_weighted_mean_of_both() -> None:
    torch.manual_seed(0)
    mixed = mix_batch(IMAGES, 0.7, cut=False)
    assert mixed.share == 0.7 and sorted(mixed.partner.tolist()) == [0, 1, 2, 3, 4]
    for number, partner in enumerate(mixed.partner.tolist()):
        assert torch.allclose(mixed.images[number], torch.tensor(0.7 * number + 0.3 * partner))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.75, 1.0])
def test_cutmix_puts_a_box_of_the_partner_and_counts_its_pixels(share: float) -> None:
    torch.manual_seed(1)
    mixed = mix_batch(IMAGES, share, cut=True)
    assert mixed.share == pytest.approx(share, abs=0.1)
    for number, partner in enumerate(mixed.partner.tolist()):
        if partner != number:
            assert float((mixed.images[number] == number).float().mean()) == pytest.approx(mixed.share)
            assert ((mixed.images[number] == number) | (mixed.images[number] == partner)).all()


def test_as_many_batches_are_mixed_as_asked_for() -> None:
    torch.manual_seed(2)
    drawn = [draw_share(MixSettings(kind="mixup", probability=0.25, alpha=0.5)) for _ in range(400)]
    shares = [share for share in drawn if share is not None]
    assert 70 < len(shares) < 130 and all(0 <= share <= 1 for share in shares)
    assert sum(share < 0.1 or share > 0.9 for share in shares) > 0.3 * len(shares)  # Beta(½, ½) is high at its ends
