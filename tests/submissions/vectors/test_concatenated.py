from pathlib import Path

import numpy as np
import pytest

from image_copies.data.errors import UserError
from image_copies.submissions.vectors.concatenated import ConcatenatedVectors, open_concatenated
from image_copies.submissions.vectors.files import read_vectors, write_vectors


def file(folder: Path, name: str, ids: list[str], dimensions: int, unreadable: list[bool] | None = None) -> Path:
    values = np.random.default_rng(dimensions).standard_normal((len(ids), dimensions)).astype(np.float32)
    write_vectors(folder / name, ids, [values], np.array(unreadable) if unreadable else None)
    return folder / name


def test_models_stand_side_by_side_in_any_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [f"T{i}" for i in range(10)]
    one, two = file(tmp_path, "1.h5", ids, 3), file(tmp_path, "2.h5", ids, 4, [False] * 9 + [True])
    joined = open_concatenated([one, two])
    assert joined.dimensions == 7 and joined.unreadable.tolist() == [False] * 9 + [True]
    whole = np.concatenate([read_vectors(path).vectors for path in (one, two)], axis=1)
    assert (np.concatenate(list(joined.blocks(4))) == whole).all()
    assert (joined.rows(np.array([2, 7])) == whole[[2, 7]]).all()
    monkeypatch.setattr(ConcatenatedVectors.blocks, "__defaults__", (2,))
    assert [len(block) for block in joined.blocks_of(np.array([2, 6, 7]))] == [1, 2]
    assert len(joined.sample(100)) == 9 and len(joined.sample(5)) == 5
    assert (joined.sample(5, seed=1) == joined.sample(5, seed=1)).all()
    assert (joined.sample(100, among=np.array([1, 8, 9])) == whole[[1, 8]]).all()


def test_images_without_a_vector_are_named(tmp_path: Path) -> None:
    joined = open_concatenated([file(tmp_path, f"{number}.h5", ["a", "b", "c"], 3) for number in (1, 2, 3)])
    assert joined.rows_of(["c", "a"]).tolist() == [2, 0]
    with pytest.raises(UserError, match=r"1\.h5 and 2 more: 2 images have no vector, the first is 'x'\. Embed them \(step 02\)"):
        joined.rows_of(["b", "x", "y"])


def test_different_images_are_named(tmp_path: Path) -> None:
    one = file(tmp_path, "1.h5", ["a", "b", "c"], 3)
    with pytest.raises(UserError, match=r"1.h5 \(3 images\) and .*2.h5 \(3 images\) .*, first difference 'b' / 'x'"):
        open_concatenated([one, file(tmp_path, "2.h5", ["a", "x", "c"], 3)])
    with pytest.raises(UserError, match=r"\(2 images\) hold different images\. "):
        open_concatenated([one, file(tmp_path, "3.h5", ["a", "b"], 3)])
