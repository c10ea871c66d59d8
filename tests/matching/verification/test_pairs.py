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
