"""The plan of a folder of results: which files to keep, chosen by hand or by what is decided."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.matching.files.plan import BY_HAND, PlanRow, read_plan, write_plan
from image_copies.matching.groups.group_plan import plan_around
from image_copies.matching.index.decisions import Pair, Word
from image_copies.matching.knowledge import Knowledge
from image_copies.matching.matches import Match
from image_copies.matching.pairs import PairJudge
from image_copies.matching.results.folder import MATCHES, PLAN, hold_results_folder

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
    _group_of: dict[Path, int] = field(default_factory=dict)
    _judge: PairJudge = field(default_factory=PairJudge)

    def __post_init__(self) -> None:
        self._scores = {(row.kept, row.file): row.score for rows in self.groups.values() for row in rows}
        self._group_of = {row.file: group for group, rows in self.groups.items() for row in rows}

    @property
    def current(self) -> bool:
        """Whether the folder still holds what was read, apart from changes made by this object."""
        return read_state(self.folder) == self.state

    def rows(self, group: int) -> list[PlanRow]:
        """Return the rows of a group.

        Raises:
            UserError: There is no such group.
        """
        if group not in self.groups:
            raise UserError("There is no such group.")
        return self.groups[group]

    def common_group(self, one: Path, other: Path) -> int | None:
        """Return the number of the group that two files belong to; None if they do not share one."""
        group = self._group_of.get(one)
        return group if group == self._group_of.get(other) else None

    def find_certain(
        self, removed: Collection[Path], words: Mapping[Pair, Word]
    ) -> list[tuple[PlanRow, PlanRow]]:
        """Certain copies that are undecided and not removed, each with the kept file, of groups where none is to be looked at."""
        found = []
        for rows in self.groups.values():
            center = find_center(rows)
            if all(row.action in ("keep", "remove") for row in rows):
                found += [
                    (row, center)
                    for row in rows
                    if row.action == "remove"
                    and row.file not in removed
                    and row.sha256 != center.sha256
                    and pair_of(row, center) not in words
                ]
        return found

    def keep(self, group: int, file: Path, words: Mapping[Pair, Word]) -> None:
        """Keep another file of a group, and write the plan.

        Raises:
            UserError: The file cannot be kept instead of the others, or the search has been done again.
        """
        row = next((row for row in self.rows(group) if row.file == file), None)
        if row is None:
            raise UserError("The file is not in this group.")
        if row.facts is None or row.facts.linked or row.facts.archived or not row.facts.width:
            raise UserError(
                "A link, a file inside an archive or one that cannot be read is not kept instead of another."
            )
        self._write(group, plan_around(self.groups[group], file, BY_HAND, self._know(group, words)))

    def follow(self, group: int, files: tuple[Path, Path], words: Mapping[Pair, Word]) -> None:
        """Let the plan for one pair follow what is decided now; only the row of the file beside one that stays changes.

        Raises:
            UserError: The search has been done again.
        """
        rows = {row.file: row for row in self.groups[group]}
        main = find_center(self.groups[group])
        centers = [
            main,
            *(row for row in rows.values() if row.action == "keep" and row.kept == row.file != main.file),
        ]
        staying = {center.file for center in centers}
        beside = (rows[one] for one, other in (files, files[::-1]) if other in staying)
        changed = next((row for row in beside if row.action != "keep"), None)
        if changed is None:
            return
        knowledge = self._know(group, words)
        planned = _find_row(plan_around(list(rows.values()), main.file, main.reason, knowledge), changed.file)
        for center in centers[1:]:
            if (
                planned.action != "remove"
                and not planned.merged
                and knowledge.of(center.file, changed.file).was_certain
            ):
                other = _find_row(
                    plan_around([center, changed], center.file, center.reason, knowledge), changed.file
                )
                planned = other if other.action == "remove" or other.merged else planned
        self._write(group, [planned if row is changed else row for row in rows.values()])

    def follow_everywhere(self, pair: Pair, words: Mapping[Pair, Word]) -> None:
        """Let the plan follow what is decided about a pair of contents, in every group whose kept file has one of them.

        Raises:
            UserError: The search has been done again.
        """
        for group, rows in self.groups.items():
            for row in rows:
                for center in rows:
                    if center.kept == center.file and pair_of(row, center) == pair:
                        self.follow(group, (row.file, center.file), words)

    def _know(self, group: int, words: Mapping[Pair, Word]) -> Knowledge:
        """Return what is known of a group's files: the pairs that were listed, and what is decided."""
        digests = {row.file: bytes.fromhex(row.sha256) for row in self.groups[group]}

        def score(one: Path, other: Path) -> float | None:
            return 0.0 if digests[one] == digests[other] else self._scores.get((one, other))

        def decide(one: Path, other: Path) -> bool | None:
            word = words.get(frozenset((digests[one], digests[other])))
            return None if word is None else word == "copy"

        facts = {row.file: row.facts for row in self.groups[group] if row.facts is not None}
        return Knowledge(
            digests=digests, facts=facts, listed=self.listed, score=score, decide=decide, judge=self._judge
        )

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


def _find_row(rows: Sequence[PlanRow], file: Path) -> PlanRow:
    return next(row for row in rows if row.file == file)


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


def find_center(rows: Sequence[PlanRow]) -> PlanRow:
    """Return the row of the file that the others' rows keep instead of them."""
    return next((row for row in rows if row.action == "keep" and row.kept == row.file), rows[0])


def pair_of(one: PlanRow, other: PlanRow) -> Pair:
    """Return the SHA-256 of the contents of two rows."""
    return frozenset((bytes.fromhex(one.sha256), bytes.fromhex(other.sha256)))
