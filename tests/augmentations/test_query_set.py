"""Query sets."""

import json
from pathlib import Path

import pytest

from image_copies.augmentations.query_set import make_query_set, read_families
from image_copies.augmentations.settings import AugmentationSettings
from image_copies.data.errors import UserError
from image_copies.data.ground_truth import read_ground_truth
from image_copies.data.images import ImageSet, find_images
from tests.pictures import write_images

Parts = tuple[ImageSet, ImageSet, ImageSet]


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    """References, distractors and overlays."""
    images = write_images(tmp_path / "pictures", 14, seed=1)
    return images.select(images.ids[:4]), images.select(images.ids[4:8]), images.select(images.ids[8:])


def test_a_broken_overlay_costs_no_query_and_a_broken_source_costs_its_own(
    parts: Parts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    references, distractors, overlays = parts
    for path in (*overlays.paths[:5], references.paths[0]):
        path.write_bytes(b"")
    make_query_set(*parts, AugmentationSettings(intensity=1.0, extra=True), 0, 8, 4, tmp_path / "queries")
    assert len(find_images(tmp_path / "queries" / "query_images")) == 7
    assert "1 of 8 queries were not made" in capsys.readouterr().out
    records = (tmp_path / "queries" / "query_records.jsonl").read_text()
    assert overlays.ids[5] in records and not any(image_id in records for image_id in overlays.ids[:5])
    settings, broken = AugmentationSettings(), references.select(references.ids[:1])
    with pytest.raises(UserError, match="no query could be made"):
        make_query_set(broken, broken, overlays, settings, 0, 2, 1, tmp_path / "none")
    with pytest.raises(UserError, match="3 copies were asked for among 2 queries"):
        make_query_set(distractors, distractors, overlays, settings, 0, 2, 3, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_queries_have_edits_of_their_own_and_none_is_pasted_into_its_own_copy(tmp_path: Path) -> None:
    images, pasting = write_images(tmp_path / "pictures", 2), AugmentationSettings(only=("paste",))
    make_query_set(images, images, images, pasting, 0, 8, 8, tmp_path / "queries")
    lines = [json.loads(line) for line in (tmp_path / "queries" / "query_records.jsonl").read_text().splitlines()]
    assert len({json.dumps(line["record"]) for line in lines}) == 8
    for line in lines:
        assert line["source_id"] not in json.dumps(line["record"])


def test_every_second_query_has_edits_that_are_left_out_too_by_turns(parts: Parts, tmp_path: Path) -> None:
    learnt = AugmentationSettings(intensity=1.0, without=("warp", "paste"), extra=True)
    left_out = AugmentationSettings(only=("warp",)), AugmentationSettings(only=("paste",))
    make_query_set(*parts, learnt, 0, 8, 4, tmp_path / "both", left_out)
    make_query_set(*parts, learnt, 0, 8, 4, tmp_path / "plain")
    families = read_families(tmp_path / "both" / "query_records.jsonl")
    other = {query_id for query_id, found in families.items() if found & {"warp", "paste"}}
    assert len(other) == 4 and any(families[query_id] - {"warp", "paste"} for query_id in other)  # the learnt edits come after
    truth = read_ground_truth(tmp_path / "both" / "public_ground_truth.csv")
    copied = [query for query, _ in truth.pairs if query in other]
    for part in (copied, other - set(copied)):  # one of each among copies, and among the others
        assert sorted(map(sorted, (families[query] & {"warp", "paste"} for query in part))) == [["paste"], ["warp"]]
    for query_id in families.keys() - other:  # the same queries as without the others
        both, plain = (tmp_path / name / "query_images" / f"{query_id}.jpg" for name in ("both", "plain"))
        assert both.read_bytes() == plain.read_bytes()
