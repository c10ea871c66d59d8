"""Files are verified and judged at sizes that differ, as JPEGs are decoded reduced."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from image_copies.data.procedural.pictures import draw_picture
from image_copies.matching.verification.pairs import KnownPair, PairJudge, verify_two


@pytest.mark.parametrize("side", [480, 600, 720, 800])
def test_a_cropped_jpeg_of_any_size_is_certainly_a_copy(side: int, tmp_path: Path) -> None:
    """Features were found in a JPEG decoded at half its size, and taken for those of the picture at 480 pixels."""
    whole = draw_picture(np.random.default_rng(3), side)
    height, width = whole.shape[:2]
    part = whole[height // 8 : height * 7 // 8, width // 10 : width * 8 // 10]
    files = tmp_path / "whole.jpg", tmp_path / "part.jpg"
    for file, pixels in zip(files, (whole, part), strict=True):
        cv2.imwrite(str(file), pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])
    evidence = verify_two(*files)
    assert evidence is not None and evidence.homography is not None
    assert PairJudge().judge(KnownPair(*files, evidence=evidence)).kind == "certain"
    corners = np.array([[0.1, 0.125, 1], [0.8, 0.875, 1]]) @ evidence.homography.T
    np.testing.assert_allclose(corners[:, :2] / corners[:, 2:], [[0, 0], [1, 1]], atol=0.02)


@pytest.mark.parametrize(
    ("blur", "false_alarms", "confirmed"), [(20, 1e-7, True), (20, 1e-5, False), (20, None, False), (0, 1e-7, False)]
)
def test_what_nothing_can_confirm_must_be_far_beyond_the_threshold(
    blur: float, false_alarms: float | None, confirmed: bool, tmp_path: Path
) -> None:
    """`compare` called every other reference of a set a copy of the one nearest to it, by its score alone."""
    files = tmp_path / "one.png", tmp_path / "other.png"
    for seed, file in enumerate(files):
        pixels = draw_picture(np.random.default_rng(seed), 300)
        cv2.imwrite(str(file), cv2.GaussianBlur(pixels, (0, 0), blur) if blur else pixels)
    found = PairJudge().judge(KnownPair(*files, false_alarms=false_alarms))
    assert found.kind == "likely" and found.confirmed == confirmed, found


def test_features_that_were_verified_confirm_a_pair(tmp_path: Path) -> None:
    pixels = draw_picture(np.random.default_rng(3), 400)
    files = tmp_path / "one.png", tmp_path / "other.png", tmp_path / "blank.png"
    for file, image in zip(files, (pixels, pixels[40:], np.full_like(pixels, 128)), strict=True):
        cv2.imwrite(str(file), image)
    evidence = verify_two(*files[:2])
    assert PairJudge().judge(KnownPair(files[0], files[2], evidence=evidence)).confirmed
    assert not PairJudge().judge(KnownPair(files[0], files[2])).confirmed
