"""What is known of two files: one object, which the plan, the groups, the pages and the commands ask."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from .files.facts import Facts, is_intact
from .files.originals import EditComparer, find_advantage
from .files.surplus import describe_notes, find_surplus, join_words, read_attributes, read_holdings
from .matches import Match
from .pairs import LastUsed, PairJudge
from .verification.contents import Contents, Notes
from .verification.edits import Comparison
from .verification.judgement import Judgement

SAME_BYTES = Judgement("same file", "the same bytes as the kept file", 100)
MAX_PAIRS = 100_000  # that are remembered, some 2 kB each
MAX_HELD = 1000  # files whose contents are remembered, some kB each
CALLED_COPY = Judgement("certain", "called a copy of the kept file", 100)


def _know_nothing(one: Path, other: Path) -> None:
    return None


@dataclass(frozen=True, eq=False)
class PairKnowledge:
    """What is known of a file and of one that would stay instead of it; what takes time is found out when it is asked for.

    Attributes:
        kept: The file that would stay.
        file: The other one.
        match: What a search found of them; None where it listed no such pair.
        knowledge: Where the rest is found out.
    """

    kept: Path
    file: Path
    match: Match | None
    knowledge: "Knowledge"

    @property
    def same_bytes(self) -> bool:
        """Whether they hold the same bytes."""
        return self.knowledge.digests[self.kept] == self.knowledge.digests[self.file]

    @cached_property
    def score(self) -> float | None:
        """−‖q − r‖²; None where they do not match by themselves."""
        return self.knowledge.score(self.kept, self.file) if self.match is None else self.match.score

    @cached_property
    def decision(self) -> bool | None:
        """Whether a person has called them copies; None where nothing has been said."""
        return self.knowledge.decide(self.kept, self.file)

    @property
    def matches(self) -> bool:
        """Whether the two match by themselves, or were called copies."""
        return self.decision is not False and (self.decision is not None or self.score is not None)

    @cached_property
    def judgement(self) -> Judgement:
        """Its class, why, and how sure that is."""
        if self.same_bytes:
            return SAME_BYTES
        return (
            CALLED_COPY
            if self.decision
            else self._seen or self.knowledge.judge.judge(Match(self.file, self.kept))
        )

    @property
    def _seen(self) -> Judgement | None:
        return None if self.match is None else self.match.judgement

    @property
    def was_certain(self) -> bool:
        """Whether they are known to be the same file, or certainly copies, without another look."""
        return self.same_bytes or (self._seen is not None and self._seen.is_certain)

    @cached_property
    def surplus(self) -> tuple[list[str], Notes]:
        """What the file holds, notes, and has belonging to it that the kept one lacks (`find_surplus`)."""
        beside = self.knowledge.facts[self.file].companions
        if self.same_bytes and not beside and not read_attributes(self.file):
            return [], {}
        return find_surplus(self.knowledge.held.of(self.kept), self.knowledge.held.of(self.file))

    @cached_property
    def edits(self) -> Comparison | None:
        """What was done to the kept file, the query, and to the other one; None where the same pixels are shown."""
        knowledge = self.knowledge
        if self.file < self.kept:  # each two are compared once
            back = knowledge.of(self.file, self.kept).edits
            return back and back.exchange()
        return knowledge.comparer.compare(knowledge.facts[self.kept], knowledge.facts[self.file])

    @cached_property
    def origin(self) -> tuple[Path, str] | None:
        """Which of the two, certainly copies of each other, the other was made of, and why; None where that is not known.

        The reason is said of the one that was made, in words that follow its name.
        """
        if self.same_bytes or not self.judgement.is_certain:
            return None
        files = self.kept, self.file
        kept, file = (self.knowledge.facts[path] for path in files)
        made = self.knowledge.comparer.find_made(kept, file, self.edits)
        return made and (files[1 - made[0]], made[1])

    def find_loss(self, by_hand: bool) -> tuple[str, str]:
        """Return what the file has, or may have, that the kept one lacks, in words; empty for nothing.

        The second is what it notes, if that is all: it can be written next to the kept file.

        Args:
            by_hand: Whether a person chose the kept file, having seen both: only what cannot be seen counts.
        """
        if not self.judgement.is_certain:
            return "", ""
        kept, file = (self.knowledge.facts[path] for path in (self.kept, self.file))
        lasting, notes = self.surplus
        noted = "" if self.decision else describe_notes(notes)
        held = f"it has {', '.join(filter(None, (join_words(lasting), noted)))}, unlike the kept file"
        if lasting:
            return held, ""
        seen = by_hand or self.decision or (self.judgement.kind == "same file" and kept.form == file.form)
        doubt = "" if seen else self._find_doubt(kept, file)
        return ", and ".join(filter(None, (noted and held, doubt))), "" if doubt else noted

    def _find_doubt(self, kept: Facts, file: Facts) -> str:
        if self.edits is not None:
            return find_advantage(self.edits, kept, file)
        first, second = sorted((self.kept, self.file))
        if not self.knowledge.judge.judge(Match(first, second)).is_certain:
            return "nothing shows which of the two is the original"
        return f"the kept file {self.origin[1]}" if self.origin and self.origin[0] == self.file else ""


@dataclass
class Knowledge:
    """What is known of the pairs of some files.

    Attributes:
        digests: SHA-256 of the files.
        facts: What is known of each.
        listed: The pairs that a search found, by their two files.
        score: Scores of other pairs; None where they do not match.
        decide: What a person has said of two files.
        judge: Judges pairs of which no class is known.
    """

    digests: Mapping[Path, bytes]
    facts: Mapping[Path, Facts]
    listed: Mapping[frozenset[Path], Match]
    score: Callable[[Path, Path], float | None] = _know_nothing
    decide: Callable[[Path, Path], bool | None] = _know_nothing
    judge: PairJudge = field(default_factory=PairJudge)

    @cached_property
    def held(self) -> LastUsed[Contents]:
        """What the files that were looked at last hold."""
        return LastUsed(read_holdings, MAX_HELD)

    @cached_property
    def comparer(self) -> EditComparer:
        """Compares copies."""
        return EditComparer(self.judge)

    def is_intact(self, path: Path) -> bool:
        """Whether a file is decoded whole."""
        readable = self.facts[path].sharpness > 0
        return self.judge.verdicts.ask((path,), "intact", (), lambda: is_intact(path, readable))

    @cached_property
    def of(self) -> Callable[[Path, Path], PairKnowledge]:
        """What is known of a file, the second, and of the one that would stay instead of it."""

        def find(kept: Path, file: Path) -> PairKnowledge:
            return PairKnowledge(kept, file, self.listed.get(frozenset((kept, file))), self)

        return lru_cache(MAX_PAIRS)(find)


def list_pairs(matches: Iterable[Match]) -> dict[frozenset[Path], Match]:
    """Return matches by their two files, the first of each."""
    listed: dict[frozenset[Path], Match] = {}
    for match in matches:
        listed.setdefault(frozenset(match.files), match)
    return listed
