import io
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from image_copies.matching.verification.alignment import Homography, invert
from image_copies.matching.verification.derivation import Saved, _lay, find_made
from tests.album_kinds.pictures import scene
from tests.pictures import encode

Edit = Callable[[Image.Image], Image.Image]
SAME = np.eye(3)


def save(picture: Image.Image, form: str = "JPEG", quality: int = 90) -> Saved:
    content = encode(picture, form, quality=quality)
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB")), content


def mirror(width: int) -> Homography:
    return np.array([[-1.0, 0, width - 1], [0, 1, 0], [0, 0, 1]])


def turn(width: int) -> Homography:
    return np.array([[0, 1.0, 0], [-1, 0, width - 1], [0, 0, 1]])


@pytest.mark.parametrize("qualities", [(92, 75), (75, 92), (80, 97)])
@pytest.mark.parametrize(
    ("edit", "homography"),
    [
        (lambda picture: picture, lambda size: SAME),
        (lambda picture: ImageEnhance.Brightness(picture).enhance(1.2), lambda size: SAME),
        (lambda picture: ImageEnhance.Color(picture).enhance(1.5), lambda size: SAME),
        (ImageOps.mirror, lambda size: mirror(size[0])),
        (lambda picture: picture.transpose(Image.Transpose.ROTATE_90), lambda size: turn(size[0])),
        (lambda picture: picture.crop((13, 5, 400, 300)), lambda size: np.array([[1.0, 0, -13], [0, 1, -5], [0, 0, 1]])),
    ],
)
def test_it_is_seen_which_was_made_of_the_other_either_way_round(
    edit: Edit, homography: Callable[[tuple[int, int]], Homography], qualities: tuple[int, int]
) -> None:
    """Whichever of the two was saved more coarsely, and whichever is named first."""
    original = save(scene(np.random.default_rng(1)), quality=qualities[0])
    picture = Image.fromarray(original[0])
    edited = save(edit(picture), quality=qualities[1])
    to_edited = homography(picture.size)
    assert find_made(original, edited, to_edited) == 1
    assert find_made(edited, original, invert(to_edited)) == 0


def test_of_what_a_map_scales_nothing_is_said() -> None:
    original = save(scene(np.random.default_rng(2)), quality=75)
    edited = save(ImageEnhance.Brightness(Image.fromarray(original[0])).enhance(1.2), quality=95)
    assert find_made(original, edited, np.diag([0.999, 0.999, 1.0])) == 1
    assert find_made(original, edited, np.diag([0.98, 0.98, 1.0])) is None


def test_of_two_saved_alike_or_of_a_third_picture_nothing_is_said() -> None:
    photo = scene(np.random.default_rng(3))
    one, other = save(photo, quality=85), save(photo, quality=85)
    assert find_made(one, other, SAME) is None
    assert find_made(one, save(photo.resize((300, 280))), np.diag([300 / photo.width, 280 / photo.height, 1.0])) is None
    noisy = np.asarray(photo, np.float64) + np.random.default_rng(4).normal(0, 8, (*photo.size[::-1], 3))
    grainy = save(Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)), quality=95)
    assert find_made(one, grainy, SAME) is None


@pytest.mark.parametrize("form", ["WEBP", "AVIF"])
def test_of_another_lossy_format_it_is_seen_whether_it_shows_the_steps_of_a_jpeg_file(form: str) -> None:
    picture = scene(np.random.default_rng(3))
    first = save(picture, quality=85)
    assert find_made(first, made := save(Image.fromarray(first[0]), form, 95), SAME) == 1
    assert find_made(made, first, SAME) == 0
    other = save(picture, form, 95)
    assert find_made(other, save(Image.fromarray(other[0]), quality=85), SAME) is None
    assert find_made(save(picture, "PNG"), other, SAME) is None


def test_what_was_scaled_lies_in_no_blocks_of_its_source() -> None:
    picture = np.zeros((128, 128, 3), np.uint8)
    assert _lay(picture, picture, SAME) is not None
    assert _lay(picture, picture, np.diag([1.2, 1.2, 1.0])) is None
