from pathlib import Path

import pytest

from image_copies.data.errors import UserError
from image_copies.data.layout import open_isc_folder


def test_missing_parts_are_all_named(tmp_path: Path) -> None:
    (tmp_path / "reference_images").mkdir()
    with pytest.raises(UserError, match=r"lacks training_images/, query_images/"):
        open_isc_folder(tmp_path)


def test_ground_truth_is_optional(tmp_path: Path) -> None:
    for name in ("training", "reference", "query"):
        (tmp_path / f"{name}_images").mkdir()
        (tmp_path / f"{name}_images" / f"{name}.jpg").write_bytes(b"x")
    assert open_isc_folder(tmp_path).ground_truth is None
    (tmp_path / "public_ground_truth.csv").write_text("query_id,reference_id\n")
    opened = open_isc_folder(tmp_path)
    assert opened.ground_truth == tmp_path / "public_ground_truth.csv"
    assert opened.query.ids == ["query"]
