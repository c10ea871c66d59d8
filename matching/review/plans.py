"""The plan of a folder of results: which files to keep, chosen by hand or by what is decided."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from image_copies.data.errors import UserError

from ..files.plan import BY_HAND, PlanRow, read_plan, write_plan
from ..groups.group_plan import plan_around
from ..index.decisions import Pair, Word
from ..knowledge import Knowledge
from ..matches import Match
from ..pairs import PairJudge
from ..results.folder import MATCHES, PLAN, hold_results_folder

CHANGED = "The search has been done again, or the plan was edited. Load the page again to see it."


@dataclass
class ReviewedPlan:
    """The plan as the page shows and changes it; every change is written to plan.csv at once.

    Attributes:
        folder: The folder of the results.
        groups: The rows of each group, by its number.
        listed: The listed pairs, by their two files.
        state: The state of the folder's files when they were read or last written here.
    """

    folder: Path
    groups: dict[int, list[PlanRow]]
    listed: Mapping[frozenset[Path], Match]
    state: str
    _judge: PairJudge = field(default_factory=PairJudge)

    def __post_init__(self) -> None:
        self.rows = {row.file: row for rows in self.groups.values() for row in rows}
        self._scores = {(row.kept, row.file): row.score for row in self.rows.values()}

    @property
    def current(self) -> bool:
        """Whether the folder still holds what was read, apart from changes made by this object."""
        return read_state(self.folder) == self.state

    def find_group(self, group: int) -> list[PlanRow]:
        """Return the rows of a group.

        Raises:
            UserError: There is no such group.
        """
        if group not in self.groups:
            raise UserError("There is no such group.")
        return self.groups[group]

    def keep(self, group: int, file: Path, words: Mapping[Pair, Word]) -> None:
        """Keep another file of a group, and write the plan.

        Raises:
            UserError: The file cannot be kept instead of the others, or the search has been done again.
        """
        rows = self.find_group(group)
        row = next((row for row in rows if row.file == file), None)
        if row is None:
            raise UserError("The file is not in this group.")
        if row.facts is None or row.facts.linked or row.facts.archived or not row.facts.width:
            raise UserError(
                "A link, a file inside an archive or one that cannot be read is not kept instead of another."
            )
        self._write(group, plan_around(rows, file, BY_HAND, self._know(rows, words)))

    def follow(self, pair: Pair, words: Mapping[Pair, Word]) -> None:
        """Let the plan follow what is decided about a pair of contents: only rows of one beside a file that stays change.

        Raises:
            UserError: The search has been done again.
        """
        for group, rows in self.groups.items():
            centers = find_centers(rows)
            asked = [row for row in rows if any(pair_of(row, center) == pair for center in centers)]
            changed = [row for row in asked if row.action != "keep"]
            if changed:
                knowledge = self._know(rows, words)
                self._write(group, [_plan(row, rows, knowledge) if row in changed else row for row in rows])

    def _know(self, rows: Sequence[PlanRow], words: Mapping[Pair, Word]) -> Knowledge:
        """Return what is known of a group's files: the pairs that were listed, and what is decided."""
        digests = {row.file: bytes.fromhex(row.sha256) for row in rows}

        def score(one: Path, other: Path) -> float | None:
            return 0.0 if digests[one] == digests[other] else self._scores.get((one, other))

        def decide(one: Path, other: Path) -> bool | None:
            word = words.get(frozenset((digests[one], digests[other])))
            return None if word is None else word == "copy"

        facts = {row.file: row.facts for row in rows if row.facts is not None}
        return Knowledge(digests, facts, self.listed, score, decide, self._judge)

    def _write(self, group: int, rows: list[PlanRow]) -> None:
        if rows == self.groups[group]:
            return
        with hold_results_folder(self.folder):
            if not self.current:
                raise UserError(CHANGED)
            every = self.groups | {group: rows}
            write_plan(self.folder / PLAN, [row for each in every.values() for row in each])
            self.state = read_state(self.folder)
        self.groups[group] = rows
        self.rows |= {row.file: row for row in rows}


def _plan(row: PlanRow, rows: Sequence[PlanRow], knowledge: Knowledge) -> PlanRow:
    """Return a row of a group as it is planned now: it goes for the file that is kept, or else for one that stays beside that."""
    main, *beside = find_centers(rows)
    parts = [plan_around(rows, main.file, main.reason, knowledge)]
    for center in beside:
        if knowledge.of(center.file, row.file).was_certain:
            parts.append(plan_around([center, row], center.file, center.reason, knowledge))
    planned = [each for part in parts for each in part if each.file == row.file]
    return next((each for each in planned if each.action == "remove" or each.merged), planned[0])


def read_groups(folder: Path) -> dict[int, list[PlanRow]]:
    """Read the rows of the plan by their groups; none where there is no plan.

    Raises:
        UserError: The plan is damaged.
    """
    groups: dict[int, list[PlanRow]] = {}
    for row in read_plan(folder / PLAN) if (folder / PLAN).exists() else []:
        groups.setdefault(row.group, []).append(row)
    return groups


def read_state(folder: Path) -> str:
    """Return the state of the files that a search writes: another one when it has been done again."""
    states = []
    for name in (MATCHES, PLAN):
        try:
            state = (folder / name).stat()
            states.append(f"{state.st_mtime_ns:x}-{state.st_ino:x}")
        except OSError:
            states.append("none")
    return "-".join(states)


def find_centers(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """Return the rows of the files that others' rows keep instead of them, that of the whole group first."""
    return [row for row in rows if row.action == "keep" and row.kept == row.file] or [rows[0]]


def pair_of(one: PlanRow, other: PlanRow) -> Pair:
    """Return the SHA-256 of the contents of two rows."""
    return frozenset((bytes.fromhex(one.sha256), bytes.fromhex(other.sha256)))
