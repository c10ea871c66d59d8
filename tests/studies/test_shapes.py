"""The procedural shapes of claims 2 to 9: deterministic, with classes that can be told apart."""

from pathlib import Path

import numpy as np
from PIL import Image

from image_copies.studies.claims.shapes import CLASSES, HUES, class_names, draw_shape, write_disjoint_shapes


def test_every_class_can_be_drawn_at_any_size() -> None:
    assert len(set(CLASSES)) == len(CLASSES) > 400
    for number, name in enumerate(CLASSES[::7]):
        picture = draw_shape(name, np.random.default_rng(number), size=40 + number % 3)
        assert picture.shape == (40 + number % 3,) * 2 + (3,) and picture.dtype == np.uint8 and picture.std() > 5


def test_the_order_of_classes_is_seeded_and_complete() -> None:
    assert sorted(class_names(0)) == sorted(CLASSES)
    assert class_names(0) == class_names(0) != class_names(1)


def test_sets_are_deterministic(tmp_path: Path) -> None:
    one, test = write_disjoint_shapes(tmp_path / "one", 5, 2, 3, seed=2, size=48, workers=1)
    two, _ = write_disjoint_shapes(tmp_path / "two", 5, 2, 3, seed=2, size=48, workers=2)
    assert [path.read_bytes() for path in one.images.paths] == [path.read_bytes() for path in two.images.paths]
    assert len({path.read_bytes() for path in one.images.paths}) == 15
    assert np.bincount(one.labels).tolist() == [3] * 5 and one.names == sorted(class_names(2)[:5])
    assert len(test) == 6 and not set(one.names) & set(test.names)
    other, _ = write_disjoint_shapes(tmp_path / "other", 5, 2, 3, seed=3, size=48, workers=1)
    assert other.names != one.names


def test_more_instances_keep_the_first_ones(tmp_path: Path) -> None:
    few, more = (write_disjoint_shapes(tmp_path / str(count), 2, 1, count, seed=0, size=48, workers=1)[0] for count in (1, 2))
    kept = more.images.select(few.images.ids)
    assert [path.read_bytes() for path in few.images.paths] == [path.read_bytes() for path in kept.paths]


def test_instances_differ_more_than_a_saved_copy_does() -> None:
    """Two instances of a class differ far more than an instance and its blurred, smaller copy."""
    name = "heart-plain-pink"
    pictures = [draw_shape(name, np.random.default_rng([0, number])) for number in range(8)]
    small = np.array([np.asarray(Image.fromarray(picture).resize((12, 12)), float).ravel() for picture in pictures])
    copies = np.array(
        [np.asarray(Image.fromarray(picture).resize((40, 40)).resize((12, 12)), float).ravel() for picture in pictures]
    )
    distances = np.linalg.norm(small[:, None] - copies[None], axis=2)
    assert np.diag(distances).max() * 3 < distances[~np.eye(8, dtype=bool)].min()


def test_hues_cannot_be_mistaken() -> None:
    hues = np.sort(np.array(list(HUES.values())))
    # between neighbours; an instance's own shift has σ 3.5
    assert np.diff(np.append(hues, hues[0] + 180)).min() >= 16
