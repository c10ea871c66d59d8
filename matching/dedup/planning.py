"""Whether a picture may go for another one, as the plan of `match` decides it."""

from dataclasses import dataclass, replace
from pathlib import Path

from image_copies.matching.files.facts import Facts, picture_facts
from image_copies.matching.files.integrity import is_intact
from image_copies.matching.files.plan import PlanRow
from image_copies.matching.groups.group_plan import plan_around
from image_copies.matching.index.store import digest_of
from image_copies.matching.knowledge import Knowledge
from image_copies.matching.pairs import PairJudge
from image_copies.matching.verification.judgement import Kind

LAST_SEEN = 32  # pictures of which the pixels are kept
DAMAGED = "the picture that would stay is damaged"


@dataclass(frozen=True)
class PairVerdict:
    """What a picture is to the one that would stay instead of it.

    Attributes:
        kind: The class of the two.
        reason: Why.
        certainty: How sure that is, 0…100.
        missed: Whether a copy is to be looked at all the same, such as one that has, or may have, something that the other lacks.
    """

    kind: Kind | str
    reason: str
    certainty: int
    missed: bool = False


class PairPlanner:
    """Plans pairs of pictures; of those that were looked at last, much is known."""

    def __init__(self) -> None:
        self._facts: dict[Path, Facts] = {}
        self._digests: dict[Path, bytes] = {}
        self._known = Knowledge(self._digests, self._facts, {}, lambda one, other: 0.0, judge=PairJudge(LAST_SEEN))

    def plan(self, file: Path, kept: Path, leaked: bool) -> PairVerdict:
        """Return whether a picture may go for one that stays; `leaked`: whatever it has that the other lacks.

        Raises:
            UserError: One of them cannot be read.
        """
        rows = [self._describe(path, kept) for path in (kept, file)]
        if leaked:
            known = self._known.of(kept, file).judgement
            return PairVerdict(known.kind, known.reason, known.certainty)
        row = plan_around(rows, kept, "", self._known, name_originals=False)[1]
        judgement = row.judgement or replace(self._known.of(kept, file).judgement, reason=row.reason)
        if row.action == "remove" and not is_intact(kept):
            return PairVerdict(judgement.kind, f"{judgement.reason}, but {DAMAGED}", judgement.certainty, True)
        missed = judgement.is_certain and row.action != "remove"
        return PairVerdict(judgement.kind, judgement.reason, judgement.certainty, missed)

    def _describe(self, path: Path, kept: Path) -> PlanRow:
        """Return the row of a picture, which may be a link, or lie in an archive: what may stay for what is decided before."""
        if path not in self._facts:
            self._digests[path] = digest_of(path)
            self._facts[path] = replace(picture_facts(path), linked=False, archived=False)
        return PlanRow(1, "leave", path, kept, facts=self._facts[path], sha256=self._digests[path].hex())
