"""A cache that a power cut has torn is made again."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from PIL import Image

from data.cache import cache_images
from data.images import find_images


@pytest.mark.parametrize("form", ["pixels", "jpeg"])
@pytest.mark.parametrize("aspect", ["own", "square"])
@pytest.mark.parametrize("kept", [0.0, 0.02, 0.6])
def test_a_torn_cache_is_made_again(
    tmp_path: Path, form: Literal["pixels", "jpeg"], aspect: Literal["own", "square"], kept: float
) -> None:
    """Training ended with a traceback at each start until the cache was removed by hand."""
    (tmp_path / "pictures").mkdir()
    for number in range(4):
        Image.new("RGB", (20, 30), (60 * number, 0, 0)).save(tmp_path / "pictures" / f"{number}.png")
    images, cache = find_images(tmp_path / "pictures"), tmp_path / "cache"
    whole = [np.array(cache_images(images, 16, cache, form, aspect=aspect).pixels[row]) for row in range(4)]
    for path in sorted(cache.iterdir()):
        content = path.read_bytes()
        path.write_bytes(content[: int(kept * len(content))])
        again = cache_images(images, 16, cache, form, aspect=aspect)
        assert path.read_bytes() == content
        assert all(np.array_equal(again.pixels[row], whole[row]) for row in range(4))
