"""How much a search looks at a second time where nobody said: as much as takes about a minute."""

import time
from dataclasses import dataclass

import numpy as np

from image_copies.data.errors import UserError
from image_copies.data.process import usable_cores
from image_copies.matching.extractor import Extractor
from image_copies.matching.matches import Rule
from image_copies.matching.views import embed_views_of

MOST_SECONDS = 60.0
NEAREST = 10  # references of each query that are verified
# Seconds of one core, measured with pictures of 320 to 800 pixels: a picture's features, verifying a pair, and judging one, which
# takes 0.13 s and falls on every third query of an album
FEATURES_SECONDS, PAIR_SECONDS, JUDGING_SECONDS = 0.035, 0.005, 0.045


@dataclass(frozen=True)
class Effort:
    """What a search looks at a second time.

    Attributes:
        verified: Number of nearest references of each query that are verified by local features; 0 for none.
        views: Whether the views of unsure queries are searched with, too.
        left_out: What was left out because it would take too long, with the option that asks for it; empty for nothing.
    """

    verified: int
    views: bool
    left_out: str = ""


def choose_effort(
    extractor: Extractor, rule: Rule, queries: int | None, references: int, verified: int | None, views: bool | None
) -> Effort:
    """Return what to look at a second time; what is None is chosen, by the time that it takes. Queries None are the references.

    Without a threshold the nearest references are listed, whatever they are, and nothing is looked at unless it is asked for.

    Raises:
        UserError: Views are asked for, and nothing says how rare their scores are.
    """
    if views and rule.tail is None:
        raise UserError("--views needs a network whose false alarms are calibrated: add --unrelated DIR, or omit --views.")
    if verified is not None and views is not None:
        return Effort(verified, views)
    if rule.threshold(references) is None:
        return Effort(verified or 0, bool(views))
    needed = _estimate_verification(queries, references)
    chosen = verified if verified is not None else NEAREST * (needed <= MOST_SECONDS)
    if views is None and verified is None and chosen and rule.tail is not None:
        needed += (references if queries is None else queries) * _time_views(extractor)
        views = needed <= MOST_SECONDS
        left_out = "" if views else _describe("views of the pictures were not searched with", needed, "--views")
        return Effort(chosen, views, left_out)
    left_out = "" if chosen or verified == 0 else _describe("pairs were not verified by local features", needed, "--verify")
    return Effort(chosen, bool(views), left_out)


def _estimate_verification(queries: int | None, references: int) -> float:
    """Return the seconds that it takes to verify each query's nearest references, and to judge what is found."""
    asked = references if queries is None else queries
    pictures = references if queries is None else queries + min(references, NEAREST * queries)
    seconds = pictures * FEATURES_SECONDS + asked * (min(NEAREST, references) * PAIR_SECONDS + JUDGING_SECONDS)
    return seconds / usable_cores()


def _time_views(extractor: Extractor) -> float:
    """Return the seconds that it takes to embed the views of a picture."""
    picture = np.zeros((256, 256, 3), np.uint8)
    embed_views_of(extractor, picture)  # the first call takes longer
    started = time.perf_counter()
    embed_views_of(extractor, picture)
    return time.perf_counter() - started


def _describe(what: str, seconds: float, option: str) -> str:
    return (
        f"{what}, because it would take about {max(1, round(seconds / 60))} min: turned pictures, crops and pictures on a page "
        f"may have been missed. {option} asks for it"
    )
