"""How much a search looks at a second time where nobody said: it depends on the number of pictures alone."""

from dataclasses import dataclass

from image_copies.data.errors import UserError
from image_copies.data.process import usable_cores
from image_copies.matching.matches import Rule

NEAREST = 10  # references of each query that are verified
MOST = 50_000  # pictures up to which everything is on
# Seconds of one core, measured with pictures of 320 to 500 pixels: verifying a picture's nearest and judging what is found, with
# views; and the share that the features of a reference take
SECONDS, FEATURES_SHARE = 0.095, 0.27


@dataclass(frozen=True)
class Effort:
    """What a search looks at a second time.

    Attributes:
        verified: Number of nearest references of each query that are verified by local features; 0 for none.
        views: Whether the views of queries are searched with, too.
        left_out: What was left out because it would take too long, with the option that asks for it; empty for nothing.
    """

    verified: int
    views: bool
    left_out: str = ""


def choose_effort(
    rule: Rule, queries: int | None, references: int, verified: int | None, views: bool | None
) -> Effort:
    """Return what to look at a second time; what is None is chosen, by the pictures. Queries None are the references.

    Without a threshold the nearest references are listed, whatever they are, and nothing is looked at unless it is asked for.

    Raises:
        UserError: Views are asked for, and nothing says how rare their scores are.
    """
    if views and rule.tail is None:
        raise UserError(
            "--views needs a network whose false alarms are calibrated: add --unrelated DIR, or omit --views."
        )
    if verified is not None and views is not None:
        return Effort(verified, views)
    if rule.threshold(references) is None:
        return Effort(verified or 0, bool(views))
    pictures = (
        references
        if queries is None
        else queries + round(FEATURES_SHARE * min(references, NEAREST * queries))
    )
    if verified is not None:
        return Effort(verified, bool(views))
    if pictures <= MOST:
        return Effort(NEAREST, rule.tail is not None if views is None else views)
    return Effort(0, bool(views), _describe(pictures, bool(views)))


def _describe(pictures: int, views: bool) -> str:
    minutes = round(pictures * SECONDS / usable_cores() / 60)
    missing = "pairs were not verified by local features" + (
        "" if views else ", nor views of the pictures searched with"
    )
    option = "--verify" if views else "--verify --views"
    return (
        f"{missing}, because of more than {MOST:,} pictures it would take about {minutes} min: turned pictures, crops and "
        f"pictures on a page may have been missed. {option} asks for it"
    )
