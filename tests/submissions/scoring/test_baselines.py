from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import find_images
from image_copies.data.layout import open_isc_folder
from image_copies.data.procedural import draw_picture
from image_copies.submissions.ensemble.projection import fit_projection
from image_copies.submissions.scoring.baselines import compute_perceptual_hash, describe_grey_pixels, describe_images
from image_copies.submissions.scoring.metrics import evaluate
from image_copies.submissions.vectors.files import Vectors


def test_hashes_count_bits_and_grey_pixels_forget_brightness(tmp_path: Path) -> None:
    pictures = [draw_picture(np.random.default_rng(number), 96) for number in range(2)]
    first, second = (compute_perceptual_hash(picture) for picture in pictures)
    assert first.shape == (64,) and np.isclose(np.linalg.norm(first), 1)
    assert np.isclose(((first - second) ** 2).sum(), (first != second).sum() / 16)
    smaller = np.asarray(Image.fromarray(pictures[0]).resize((60, 60)))
    assert ((first - compute_perceptual_hash(smaller)) ** 2).sum() < 8 / 16
    picture = draw_picture(np.random.default_rng(3), 96)
    Image.fromarray(picture).save(tmp_path / "a.png")
    Image.fromarray((picture * 0.5).astype(np.uint8)).save(tmp_path / "b.png")
    (tmp_path / "c.png").write_bytes(b"x")
    described = describe_images(find_images(tmp_path), describe_grey_pixels, workers=1)
    assert described.vectors.shape == (3, 576) and described.unreadable.tolist() == [False, False, True]
    assert described.vectors[0] @ described.vectors[1] > 0.99 and not described.vectors[2].any()


def test_the_known_floors_on_photos(copysets: Path) -> None:
    """Published with the photos: .337 / .320 for the hash, .385 / .368 for whitened grey pixels."""
    data = open_isc_folder(copysets / "photos")
    truth = read_ground_truth(copysets / "photos" / "public_ground_truth.csv")
    queries, references = (describe_images(part, compute_perceptual_hash) for part in (data.query, data.reference))
    scores, _ = evaluate(
        Vectors(data.query.ids, queries.vectors, queries.unreadable),
        Vectors(data.reference.ids, references.vectors, references.unreadable),
        truth,
    )
    assert scores.micro_average_precision == pytest.approx(0.337, abs=0.002)
    assert scores.recall_at_precision_90 == pytest.approx(0.320, abs=0.002)
    training, queries, references = (
        describe_images(part, describe_grey_pixels) for part in (data.training, data.query, data.reference)
    )
    projection = fit_projection(training.vectors)
    scores, _ = evaluate(
        Vectors(data.query.ids, projection.apply(queries.vectors, 256, -0.5), queries.unreadable),
        Vectors(data.reference.ids, projection.apply(references.vectors, 256, -0.5), references.unreadable),
        truth,
    )
    assert scores.micro_average_precision == pytest.approx(0.385, abs=0.003)
    assert scores.recall_at_precision_90 == pytest.approx(0.368, abs=0.003)
