"""A threshold of one's own pictures is that of searches: queries are normalised, references are not."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from image_copies.data.errors import UserError
from image_copies.data.procedural import write_pictures
from image_copies.matching.extractor import Extractor, make_rule
from image_copies.matching.threshold import Tail
from image_copies.models.inference.embedders import Embedder, Squares
from image_copies.models.inference.settings import EmbeddingSettings


def embed(squares: Squares) -> NDArray[np.float32]:
    grey = squares[8].mean(axis=1, dtype=np.float32).reshape(-1, 64)
    return np.asarray(grey / np.linalg.norm(grey, axis=1, keepdims=True), np.float32)


def make_extractor(calibrate: Callable[[], Tail | None] = lambda: None) -> Extractor:
    """A descriptor that sees 8 × 8 grey pixels."""
    network = Embedder((8,), 64, embed, nullcontext)
    return Extractor([network], EmbeddingSettings(workers=1), lambda vectors: vectors, 64, "grey pixels", calibrate=calibrate)


def test_unrelated_pictures_are_compared_as_queries_with_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list(write_pictures(tmp_path / "unrelated", "U", 30, seed=5, workers=1))
    plain = make_rule(make_extractor(), None, 0.01, 10, [tmp_path / "unrelated"]).tail
    monkeypatch.setattr(Extractor, "normalize", lambda self, vectors: 3 * vectors)
    moved = make_rule(make_extractor(), None, 0.01, 10, [tmp_path / "unrelated"]).tail
    assert plain is not None and moved is not None and plain.pairs == moved.pairs == 30 * 30
    assert plain.start < 1 and 4 <= moved.start < 7  # (3 − 1)² of vectors that are alike


def test_without_a_calibration_of_its_own_a_network_needs_a_threshold() -> None:
    def calibrate() -> Tail:
        raise UserError("nothing to calibrate on")

    assert make_rule(make_extractor(calibrate), -0.5, 0.01, 10).tail is None
    with pytest.raises(UserError, match="nothing to calibrate on"):
        make_rule(make_extractor(calibrate), None, 0.01, 10)
