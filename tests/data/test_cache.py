"""A cache that a power cut has torn is made again; all threads make it."""

from pathlib import Path
from threading import Barrier, get_ident
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from image_copies.data import cache
from image_copies.data.cache import cache_images
from image_copies.data.images import find_images


@pytest.mark.parametrize("form", ["pixels", "jpeg"])
@pytest.mark.parametrize("kept", [0.0, 0.02, 0.6])
def test_a_torn_cache_is_made_again(tmp_path: Path, form: Literal["pixels", "jpeg"], kept: float) -> None:
    """Training ended with a traceback at each start until the cache was removed by hand."""
    (tmp_path / "pictures").mkdir()
    for number in range(4):
        Image.new("RGB", (20, 30), (60 * number, 0, 0)).save(tmp_path / "pictures" / f"{number}.png")
    images, cache = find_images(tmp_path / "pictures"), tmp_path / "cache"
    whole = [np.array(cache_images(images, 16, cache, form).pixels[row]) for row in range(4)]
    for path in sorted(cache.iterdir()):
        content = path.read_bytes()
        path.write_bytes(content[: int(kept * len(content))])
        again = cache_images(images, 16, cache, form)
        assert path.read_bytes() == content
        assert all(np.array_equal(again.pixels[row], whole[row]) for row in range(4))
    turned = cache_images(images.select(images.ids[::-1]), 16, cache, form)  # as another model takes the classes
    assert len(list(cache.iterdir())) == 3  # with the lock
    larger = cache_images(images, 24, cache, form)
    assert larger.pixels[0].size == pytest.approx(1.5**2 * whole[0].size, rel=0.1)
    assert [path.suffix for path in cache.iterdir() if "-16." in path.name] == []  # a stage of another size follows
    assert all(np.array_equal(turned.pixels[3 - row], whole[row]) for row in range(4))
    held = {path: path.stat().st_mtime_ns for path in cache.iterdir() if not path.name.startswith(".")}
    other = cache_images(images, 24, cache, "jpeg" if form == "pixels" else "pixels")  # beside it
    assert held == {path: path.stat().st_mtime_ns for path in held}
    again = cache_images(images, 24, cache, form)
    for row in range(4):
        assert np.abs(other.pixels[row].astype(int) - larger.pixels[row]).mean() < 6
        assert np.array_equal(again.pixels[row], larger.pixels[row])


def test_images_are_encoded_by_all_threads_and_come_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoding in the thread that writes took as long with sixteen workers as with one."""
    rng = np.random.default_rng(0)
    for number in range(6):
        Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(tmp_path / f"{number}.png")
    images, encode = find_images(tmp_path), cache._encode_jpeg
    together, threads = Barrier(3, timeout=20), set[int]()

    def noted(pixels: NDArray[np.uint8]) -> bytes:
        threads.add(get_ident())
        together.wait()  # three at a time, or none goes on
        return encode(pixels)

    alone = cache_images(images, 32, tmp_path / "alone", "jpeg", workers=1)
    monkeypatch.setattr(cache, "_encode_jpeg", noted)
    shared = cache_images(images, 32, tmp_path / "shared", "jpeg", workers=3)
    assert len(threads) == 3 and get_ident() not in threads
    assert all((alone.pixels[row] == shared.pixels[row]).all() for row in range(6))
