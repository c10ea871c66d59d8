import numpy as np
import pytest

from image_copies.submissions.vectors.files import Vectors, describe_repeated, find_repeated, hash_rows


@pytest.mark.parametrize("seed", range(20))
def test_repeated_rows_are_those_of_a_literal_search(seed: int) -> None:
    vectors = np.random.default_rng(seed).integers(-1, 2, (40, 3)).astype(np.float32)
    expected = [(row, next(at for at in range(row + 1) if (vectors[at] == vectors[row]).all())) for row in range(40)]
    found = find_repeated(hash_rows(vectors))
    assert list(zip(found.rows.tolist(), found.firsts.tolist(), strict=True)) == [pair for pair in expected if pair[0] != pair[1]]


def test_zero_and_repeated_vectors_are_described_and_unreadable_images_are_not() -> None:
    values = np.array([[1, 0], [0, 1], [1, 0], [0, 0], [0, 0]], np.float32)
    part = Vectors(list("abcde"), values, np.array([0, 0, 0, 0, 1], bool))
    zero, repeated = describe_repeated("query", part)
    assert zero == "query: 1 vectors are zero, the first is that of 'd'"
    assert "1 of 4 vectors repeat that of an earlier image, such as 'c' that of 'a'" in repeated and "collapsed" in repeated
    assert describe_repeated("query", Vectors(["a", "b"], values[:2], np.zeros(2, bool))) == []
    assert describe_repeated("query", Vectors([], values[:0], np.zeros(0, bool))) == []


def test_few_equal_vectors_are_those_of_equal_files() -> None:
    values = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    values[7] = values[3]
    (said,) = describe_repeated("reference", Vectors([str(row) for row in range(50)], values, np.zeros(50, bool)))
    assert "such as '7' that of '3': equal files" in said
