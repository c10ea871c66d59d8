from pathlib import Path

import pytest

from augmentations.query_set import make_query_set
from augmentations.settings import AugmentationSettings
from data.images import find_images
from data.procedural.sample import write_pictures


def test_a_broken_overlay_costs_no_query_and_a_broken_source_costs_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    list(write_pictures(tmp_path / "pictures", "T", 14, seed=1, workers=1))
    images = find_images(tmp_path / "pictures")
    references, distractors, overlays = (images.select(images.ids[start:end]) for start, end in ((0, 4), (4, 8), (8, 14)))
    for path in (*overlays.paths[:5], references.paths[0]):
        path.write_bytes(b"")
    make_query_set(
        references=references,
        distractors=distractors,
        overlays=overlays,
        settings=AugmentationSettings(intensity=1.0, extra=True),
        seed=0,
        count=8,
        copies=4,
        folder=tmp_path / "queries",
    )
    assert len(find_images(tmp_path / "queries" / "query_images")) == 7
    assert "1 of 8 queries were not made" in capsys.readouterr().out
    records = (tmp_path / "queries" / "query_records.jsonl").read_text()
    assert overlays.ids[5] in records and not any(image_id in records for image_id in overlays.ids[:5])
