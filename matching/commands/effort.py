"""How much a search looks at a second time where nobody said: it depends on the number of pictures alone."""

from dataclasses import dataclass

from image_copies.data.errors import UserError
from image_copies.data.process import usable_cores
from image_copies.matching.matches import Rule

NEAREST = 10  # references of each query that are verified
MOST_VERIFIED, MOST_WITH_VIEWS = 920, 460  # pictures, about a minute's work of two cores
# Seconds of one core, measured with pictures of 320 to 800 pixels: verifying a picture's nearest and judging what is found, the
# same with views; and the share that the features of a reference take
SECONDS, SECONDS_WITH_VIEWS, FEATURES_SHARE = 0.13, 0.35, 0.27


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


def choose_effort(rule: Rule, queries: int | None, references: int, verified: int | None, views: bool | None) -> Effort:
    """Return what to look at a second time; what is None is chosen, by the pictures. Queries None are the references.

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
    pictures = references if queries is None else queries + round(FEATURES_SHARE * min(references, NEAREST * queries))
    chosen = verified if verified is not None else NEAREST * (pictures <= MOST_VERIFIED)
    if views is None and verified is None and chosen and rule.tail is not None:
        views = pictures <= MOST_WITH_VIEWS
        left_out = (
            "" if views else _describe("views of the pictures were not searched with", pictures * SECONDS_WITH_VIEWS, "--views")
        )
        return Effort(chosen, views, left_out)
    skipped = not chosen and verified is None
    left_out = _describe("pairs were not verified by local features", pictures * SECONDS, "--verify") if skipped else ""
    return Effort(chosen, bool(views), left_out)


def _describe(what: str, seconds: float, option: str) -> str:
    minutes = max(1, round(seconds / usable_cores() / 60))
    return (
        f"{what}, because it would take about {minutes} min: turned pictures, crops and pictures on a page may have been missed. "
        f"{option} asks for it"
    )
