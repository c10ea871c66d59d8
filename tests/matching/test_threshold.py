"""The threshold keeps its promise: for other vectors and more references than its tail was fitted on, and on own pictures.

It follows the user's references: few or many, alike or not, holding the synthetic queries' own pictures or not.
"""

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from image_copies.data.errors import UserError
from image_copies.data.procedural import write_pictures
from image_copies.matching import threshold
from image_copies.matching.extractor import Extractor, checkpoint_extractor, make_rule
from image_copies.matching.threshold import (
    CHANCES,
    DRAWN_VIEWS,
    MAX_REFERENCES,
    SyntheticQueries,
    Tail,
    choose_sample,
    fit_tail,
    read_synthetic,
    synthetic_path,
    write_synthetic,
)
from image_copies.matching.views import VIEWS
from image_copies.models.inference.embedders import Embedder, Squares
from image_copies.models.inference.settings import EmbeddingSettings
from image_copies.models.shipped import SHIPPED


def unit(rng: np.random.Generator, count: int, dimensions: int = 24) -> NDArray[np.float32]:
    vectors = rng.standard_normal((count, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3])
def test_unrelated_queries_raise_no_more_false_alarms_than_stated(rate: float) -> None:
    """Evenly spread vectors have a bounded tail: close to what was seen the rate is met, far out it is not exceeded."""
    rng = np.random.default_rng(1)
    tail = fit_tail(unit(rng, 500), unit(rng, 300), np.full(500, -1))
    queries, references = unit(rng, 4000), unit(rng, 3000)
    nearest = (2 - 2 * queries @ references.T).min(axis=1)
    measured = (nearest <= tail.threshold(rate, 3000)).mean()
    assert measured < 0.75 * rate  # half of the rate is that of the views
    assert measured > rate / 6 or rate < 0.3


def test_related_pairs_are_left_out() -> None:
    rng = np.random.default_rng(2)
    references = unit(rng, 200)
    queries = np.concatenate([references[:100], unit(rng, 100)])
    own = np.concatenate([np.arange(100), np.full(100, -1)])
    clean = fit_tail(queries, references, own)
    polluted = fit_tail(queries, references, np.full(200, -1))
    assert polluted.start < clean.start - 0.1


def test_threshold_and_false_alarms_are_each_others_inverse() -> None:
    tail = Tail(start=1.5, scale=0.1, share=0.005, pairs=10_000, views=Tail(1.4, 0.05, 0.01, 10_000))
    distance = tail.threshold(0.01, 1000)
    assert tail.false_alarms(np.array([distance]), 1000)[0] == pytest.approx(0.01)
    assert tail.threshold(0.01, 10_000) < distance
    assert tail.threshold(1.0, 10) == 1.5  # the tail says nothing beyond its start
    assert tail.threshold(1e-30, 10**9) == 0


def test_a_view_counts_as_the_whole_that_is_as_rare_but_never_as_nearer() -> None:
    tail = Tail(start=1.5, scale=0.1, share=0.005, pairs=10_000, views=(views := Tail(1.3, 0.15, 0.01, 10_000)))
    distance = tail.threshold(0.01, 1000)
    view = np.array([views.distance(0.01, 1000)])
    assert view[0] < distance == pytest.approx(tail.as_whole(view, 17)[0])
    steep = replace(tail, views=Tail(1.4, 0.01, 0.01, 10_000))
    assert steep.as_whole(np.array([1.2]), 17)[0] == 1.2


def test_too_few_pairs_are_refused() -> None:
    rng = np.random.default_rng(3)
    with pytest.raises(UserError, match="at least 20 unrelated"):
        fit_tail(unit(rng, 10), unit(rng, 10), np.arange(10))


DIMENSIONS = 256


def unit_rows(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    vectors = rng.standard_normal((*shape, DIMENSIONS)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors


@pytest.fixture(scope="module")
def queries() -> SyntheticQueries:
    """Each view is as good as a query of its own, not one of those that a draw stands for."""
    rng = np.random.default_rng(0)
    return SyntheticQueries(unit_rows(rng, 500), unit_rows(rng, 500, 3), unit_rows(rng, 100))


@pytest.mark.parametrize("count", [100, 1000])
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_a_picture_and_its_views_raise_together_what_is_stated(
    queries: SyntheticQueries, count: int, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the references are as unlike as the synthetic queries are; the threshold for a collection's own is stricter."""
    stricter = queries.fit(unit_rows(np.random.default_rng(1), count)).threshold(rate, count)
    monkeypatch.setattr(threshold, "STRETCH", 1.0)
    rng = np.random.default_rng(1)
    references, asked, views = unit_rows(rng, count), unit_rows(rng, 2000), unit_rows(rng, 2000, round(CHANCES * DRAWN_VIEWS))
    tail = queries.tail.against(lambda: references)
    limit = tail.threshold(rate, count)
    assert stricter < limit
    own = (2 - 2 * asked @ references.T).min(axis=1) <= limit
    of_views = tail.as_whole((2 - 2 * views @ references.T).min(axis=(1, 2)), VIEWS) <= limit
    assert 0.25 * rate < own.mean() < 0.75 * rate and 0.25 * rate < of_views.mean() < 0.75 * rate
    assert 0.6 * rate < (own | of_views).mean() < 1.3 * rate
    assert tail.false_alarms(np.array([limit]), count)[0] == pytest.approx(rate)


def test_references_that_look_alike_make_it_stricter(queries: SyntheticQueries) -> None:
    rng = np.random.default_rng(2)
    middle = unit_rows(rng, 1)
    alike = unit_rows(rng, 500) + 2 * middle
    alike /= np.linalg.norm(alike, axis=1, keepdims=True)
    near = SyntheticQueries(queries.whole + middle, queries.views + middle, queries.pictures)
    one, other = near.fit(unit_rows(rng, 500)), near.fit(alike.astype(np.float32))
    assert other.threshold(0.01, 500) < one.threshold(0.01, 500) - 0.2


@pytest.mark.parametrize("count", [0, 1, 5, 99])
def test_few_references_change_little_and_fewer_are_more_lenient(queries: SyntheticQueries, count: int) -> None:
    few, many = queries.fit(unit_rows(np.random.default_rng(3), count)), queries.fit(unit_rows(np.random.default_rng(3), 1000))
    assert abs(few.start - queries.tail.start) < 0.1 and 0.5 < few.scale / queries.tail.scale < 2
    assert few.threshold(0.001, max(count, 1)) > many.threshold(0.001, 1000)


@pytest.mark.parametrize("held", [50, 200])
def test_references_that_hold_the_queries_own_pictures_do_not_count(queries: SyntheticQueries, held: int) -> None:
    references = unit_rows(np.random.default_rng(4), 1000)
    copies = np.concatenate([queries.whole[:held] * np.float32(1.01), references[held:]])
    assert queries.fit(copies).threshold(0.001, 1000) > queries.fit(references).threshold(0.001, 1000) - 0.1


def test_a_threshold_is_fitted_once(queries: SyntheticQueries) -> None:
    fitted = queries.tail.against(lambda: unit_rows(np.random.default_rng(5), 200))
    assert fitted.against(lambda: pytest.fail("read again")) is fitted


def test_a_sample_is_spread_over_all_references() -> None:
    assert choose_sample(5).tolist() == [0, 1, 2, 3, 4] and len(choose_sample(0)) == 0
    sample = choose_sample(10**8)
    assert len(np.unique(sample)) == MAX_REFERENCES and (sample[0], sample[-1]) == (0, 10**8 - 1)


def test_what_is_kept_is_read_again_and_belongs_to_its_weights(queries: SyntheticQueries, tmp_path: Path) -> None:
    checkpoint, other = tmp_path / "one.safetensors", tmp_path / "other.safetensors"
    save_file({"weights": np.zeros(3, np.float32)}, checkpoint)
    save_file({"weights": np.ones(3, np.float32)}, other)
    assert read_synthetic(checkpoint) is None
    moved = SyntheticQueries(queries.whole * np.float32(1.3), queries.views, queries.pictures)
    write_synthetic(checkpoint, moved)
    read = read_synthetic(checkpoint)
    assert read is not None and synthetic_path(checkpoint).stat().st_size < 0.6 * DIMENSIONS * 2100 + 4 * 2100 + 1000
    for kept, made in ((read.whole, moved.whole), (read.views, moved.views), (read.pictures, moved.pictures)):
        assert kept.shape == made.shape and np.abs(kept - made).max() < 0.06
        assert np.allclose(np.linalg.norm(kept, axis=-1), np.linalg.norm(made, axis=-1), rtol=1e-4)
    shutil.copy(synthetic_path(checkpoint), synthetic_path(other))
    with pytest.raises(UserError, match=r"other weights.*--unrelated"):
        read_synthetic(other)
    synthetic_path(checkpoint).write_bytes(b"damaged")
    with pytest.raises(UserError, match=r"cannot be read.*--unrelated"):
        read_synthetic(checkpoint)


@pytest.mark.skipif(not synthetic_path(SHIPPED).is_file(), reason="the project is packed without its weights")
def test_what_ships_states_its_false_alarms() -> None:
    extractor = checkpoint_extractor(SHIPPED)
    tail = extractor.calibrate()
    assert tail is not None and tail.refit is not None and tail.views is not None
    assert synthetic_path(SHIPPED).stat().st_size < 900_000
    references = np.random.default_rng(0).standard_normal((400, extractor.dimensions)).astype(np.float32)
    fitted = tail.against(lambda: references / np.linalg.norm(references, axis=1, keepdims=True))
    assert 0 < fitted.threshold(0.001, 400) < fitted.threshold(0.1, 400) < 2.5


def embed(squares: Squares) -> NDArray[np.float32]:
    grey = squares[8].mean(axis=1, dtype=np.float32).reshape(-1, 64)
    return np.asarray(grey / np.linalg.norm(grey, axis=1, keepdims=True), np.float32)


def make_extractor(calibrate: Callable[[], Tail | None] = lambda: None) -> Extractor:
    """A descriptor that sees 8 × 8 grey pixels."""
    network = Embedder((8,), 64, embed, nullcontext)
    return Extractor([network], EmbeddingSettings(workers=1), lambda vectors: vectors, 64, "grey pixels", calibrate=calibrate)


def test_unrelated_pictures_are_compared_as_queries_with_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list(write_pictures(tmp_path / "unrelated", "U", 30, seed=5, workers=1))
    plain = make_rule(make_extractor(), None, 0.01, [tmp_path / "unrelated"]).tail
    monkeypatch.setattr(Extractor, "normalize", lambda self, vectors: 3 * vectors)
    moved = make_rule(make_extractor(), None, 0.01, [tmp_path / "unrelated"]).tail
    assert plain is not None and moved is not None and plain.pairs == moved.pairs == 30 * 30
    assert plain.start < 1 and 4 <= moved.start < 7  # (3 − 1)² of vectors that are alike


def test_without_a_calibration_of_its_own_a_network_needs_a_threshold() -> None:
    def calibrate() -> Tail:
        raise UserError("nothing to calibrate on")

    assert make_rule(make_extractor(calibrate), -0.5, 0.01).tail is None
    with pytest.raises(UserError, match="nothing to calibrate on"):
        make_rule(make_extractor(calibrate), None, 0.01)
