import numpy as np
import pytest
import torch

from image_copies.data.errors import UserError
from image_copies.data.images import ImageSet
from image_copies.data.labels import label_images
from image_copies.studies.multigrain.in_aug import InAugImages, choose_in_aug
from tests.pictures import write_images


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    images = write_images(tmp_path_factory.mktemp("pictures"), 13)
    images.paths[-1].write_bytes(b"no image")
    return images


def test_copies_of_different_readable_images_evenly_of_the_classes(images: ImageSet) -> None:
    chosen = choose_in_aug(label_images(images, images.ids), seed=0, count=8)
    assert len(set(chosen.sources.ids)) == 8 and "T000012" not in chosen.sources.ids
    assert chosen.groups.tolist() == [source for source in range(8) for _ in range(5)]
    assert (
        choose_in_aug(label_images(images, images.ids), seed=0, count=8).sources.ids
        == chosen.sources.ids
        != choose_in_aug(label_images(images, images.ids), seed=1, count=8).sources.ids
    )
    assert len(choose_in_aug(label_images(images, images.ids), seed=0).sources) == 12  # all that can be read: fewer than 2,000
    labelled = label_images(images, ["common"] * 8 + ["rare"] * 5)
    chosen = choose_in_aug(labelled, seed=0, count=6)
    classes = dict(zip(images.ids, labelled.labels.tolist(), strict=True))
    assert np.bincount([classes[image_id] for image_id in chosen.sources.ids]).tolist() == [3, 3]
    with pytest.raises(UserError, match="at least two training images that can be read"):
        choose_in_aug(label_images(images.select(["T000000", "T000012"]), ["a", "b"]), seed=0)


def test_copies_differ_and_are_reproducible(images: ImageSet) -> None:
    chosen = choose_in_aug(label_images(images, images.ids), seed=3, count=4)
    one, two = InAugImages(chosen, 32), InAugImages(chosen, 32)
    assert len(one) == 20
    pixels = [one[item][0] for item in range(20)]
    assert all(torch.equal(two[item][0], pixels[item]) for item in (19, 3, 0))
    assert len({p.numpy().tobytes() for p in pixels}) == 20
    assert all(p.shape == (3, 32, 32) and p.dtype == torch.uint8 for p in pixels)
