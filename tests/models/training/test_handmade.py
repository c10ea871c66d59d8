"""Handmade descriptors are whitened on the training images that can be read."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.errors import UserError
from data.images import find_images
from data.procedural.pictures import draw_picture
from models.network.settings import HandmadeSettings
from models.training.handmade import fit_handmade


def test_unreadable_images_cost_dimensions_only_where_they_may(tmp_path: Path) -> None:
    for number in range(6):
        Image.fromarray(draw_picture(np.random.default_rng(number), 96)).save(tmp_path / f"{number}.png")
    (tmp_path / "damaged.png").write_bytes(b"no picture")
    settings, images = HandmadeSettings(kind="pixels", dimensions=6), find_images(tmp_path)
    with pytest.raises(UserError, match="at most 5"):
        fit_handmade(settings, images, workers=0)
    descriptor, readable = fit_handmade(settings, images, workers=0, reduce=True)
    assert (descriptor.dimensions, readable) == (5, 6)
