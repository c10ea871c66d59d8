from collections import Counter
from collections.abc import Sequence

import pytest

from image_copies.augmentations.dataset import Key
from image_copies.augmentations.sampling import Batches, Stream
from image_copies.data.errors import UserError
from image_copies.data.kinds import PARTS, load_kind
from image_copies.models.training.settings import SamplingSettings


def build(kind: str, rows: Sequence[int], labels: Sequence[int], size: int, stream: Stream, **settings: int) -> Batches:
    sampling = SamplingSettings.model_validate({"kind": kind} | settings)
    batches: Batches = load_kind(PARTS, kind)(sampling, rows, labels, size, stream)
    return batches


@pytest.mark.parametrize(("size", "sizes"), [(12, [12, 12, 6]), (11, [11, 11, 6]), (10, [10, 10, 6])])
def test_repeated_batches_are_full_of_edited_copies_and_epochs_differ(size: int, sizes: list[int]) -> None:
    """MultiGrain's 512 are 171 images, the last of them in two copies instead of three."""
    batches = build("repeated", range(10), range(10), size, Stream(range(2), 1))
    drawn = list(batches)
    assert len(drawn) == len(batches) == 6
    assert [len(batch) for batch in drawn[:3]] == sizes
    for epoch in (0, 1):
        keys = [key for batch in drawn[epoch * 3 : epoch * 3 + 3] for key in batch]
        assert {key[1] for key in keys} == set(range(10)) and len(set(keys)) == sum(sizes)
        assert {key[0] for key in keys} == {epoch} and {key[2] for key in keys} == {0, 1, 2}
    assert [key[1] for key in drawn[0]] != [key[1] for key in drawn[3]]
    assert drawn == list(batches)
    assert drawn[3:] == list(build("repeated", range(10), range(10), size, Stream(range(1, 2), 1)))
    parts = [list(build("repeated", range(10), range(10), size, Stream(range(2), 1, rank, 2))) for rank in (0, 1)]
    assert [first + second for first, second in zip(*parts, strict=True)] == drawn


def test_pk_batches_contain_p_classes_of_k_images_and_every_image_is_drawn() -> None:
    rows, labels = list(range(20, 41)), [0] * 9 + [1] * 4 + [2] * 7 + [3]
    batches = list(build("pk", rows, labels, 8, Stream(range(1), 1)))
    label_of = dict(zip(rows, labels, strict=True))
    for batch in batches:
        assert len(batch) == 8 and len(set(batch)) == len(batch)
        assert list(Counter(label_of[row] for _, row, _ in batch).values()) == [4, 4]
    assert {row for batch in batches for _, row, _ in batch} == set(rows)
    alone = sorted(key for batch in batches for key in batch if key[1] == 40)
    assert len(alone) >= 4 and alone == [(0, 40, again) for again in range(len(alone))]


@pytest.mark.parametrize(("sizes", "classes"), [([40, 4, 4, 4, 1], 3), ([4] * 9, 4), ([9, 2, 5], 8), ([30, 1], 2)])
def test_no_pk_batch_lacks_classes_however_unequal_their_sizes(sizes: list[int], classes: int) -> None:
    labels = [label for label, size in enumerate(sizes) for _ in range(size)]
    batches = build("pk", range(len(labels)), labels, 2 * classes, Stream(range(2), 1), per_class=2)
    assert len(list(batches)) == len(batches)
    for batch in batches:
        of_class = Counter(labels[row] for _, row, _ in batch)
        assert len(of_class) == min(classes, len(sizes)) and len(set(of_class.values())) == 1
    keys = [key for batch in batches for key in batch]
    assert len(set(keys)) == len(keys) and {row for _, row, _ in keys} == set(range(len(labels)))


@pytest.mark.parametrize("ranks", [2, 3])
def test_processes_share_every_batch_by_whole_groups(ranks: int) -> None:
    def made(rank: int = 0, of: int = 1) -> list[list[Key]]:
        labels = [row // 2 for row in range(24)]
        return list(build("pk", range(24), labels, 12, Stream(range(2), 1, rank, of), per_class=2))

    parts = [made(rank, ranks) for rank in range(ranks)]
    for whole, *shares in zip(made(), *parts, strict=True):
        assert [key for share in shares for key in share] == whole
        assert all(len({key[1] // 2 for key in share}) == len(share) // 2 for share in shares)


def test_more_processes_than_groups_are_refused() -> None:
    with pytest.raises(UserError, match="processes"):
        build("repeated", range(4), range(4), 4, Stream(range(1), 0, 0, 3), copies=2)
