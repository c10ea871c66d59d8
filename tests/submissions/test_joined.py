from pathlib import Path

import numpy as np
import pytest

from data.errors import UserError
from submissions.joined import join_files
from submissions.vectors import write_vectors


def file(folder: Path, name: str, ids: list[str], dimensions: int, unreadable: list[bool] | None = None) -> Path:
    values = np.random.default_rng(dimensions).standard_normal((len(ids), dimensions)).astype(np.float32)
    write_vectors(folder / name, ids, [values], np.array(unreadable) if unreadable else None)
    return folder / name


def test_models_stand_side_by_side_in_any_block(tmp_path: Path) -> None:
    ids = [f"T{i}" for i in range(10)]
    one, two = file(tmp_path, "1.h5", ids, 3), file(tmp_path, "2.h5", ids, 4, [False] * 9 + [True])
    joined = join_files([one, two])
    assert joined.dimensions == 7 and joined.unreadable.tolist() == [False] * 9 + [True]
    whole = joined.loaded().vectors
    assert (np.concatenate(list(joined.blocks(4))) == whole).all()
    assert (joined.rows(np.array([2, 7])) == whole[[2, 7]]).all()
    assert len(joined.sample(100)) == 9 and len(joined.sample(5)) == 5
    assert (joined.sample(5, seed=1) == joined.sample(5, seed=1)).all()


def test_different_images_are_named(tmp_path: Path) -> None:
    one = file(tmp_path, "1.h5", ["a", "b", "c"], 3)
    with pytest.raises(UserError, match=r"1.h5 \(3 images\) and .*2.h5 \(3 images\) .*, first difference 'b' / 'x'"):
        join_files([one, file(tmp_path, "2.h5", ["a", "x", "c"], 3)])
    with pytest.raises(UserError, match=r"\(2 images\) hold different images\. "):
        join_files([one, file(tmp_path, "3.h5", ["a", "b"], 3)])
