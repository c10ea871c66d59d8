"""The results of match.py as the review page shows them; decisions go to the index, choices of files to keep to plan.csv."""

import shlex
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError, text_of
from image_copies.data.files import is_there

from .. import results
from ..files.acting import Outcome
from ..files.facts import Facts, picture_facts
from ..files.journal import Way
from ..files.plan import BY_HAND, PlanRow, facts_values, read_plan, write_plan
from ..groups.group_plan import plan_around
from ..groups.series import list_series
from ..index.decisions import Decisions, Pair, Word
from ..index.store import digest_of, digests_of_files, open_store
from ..knowledge import Knowledge, list_pairs
from ..matches import PICTURED, match_values, read_matches_csv
from ..pairs import PairJudge
from .overlays import lay_pair

MAX_SHOWN_PAIRS = 100_000  # pairs on the page; matches.csv lists all
SURE = 60  # certainty from which a pair is worth a look before those about which little is known
MAX_SHOWN_LEFT = 20  # files that were left alone
IN_GROUP = ("action", "reason", "original", "protected", "sha256")  # of a row of the plan, on the page
CHANGED = "The search has been done again, or the plan was edited. Load the page again to see it."


class Results:
    """An opened folder of results; every change of its plan is written at once.

    Attributes:
        token: Names the state of the folder that was opened.
        state: The state of the folder's files when they were read or last written here.
        groups: The rows of the plan by the numbers of their groups.
        rows: The same by their files.
        files: Every file of a pair or a group; the page names them by their positions here.
        matches: Pairs, best first, by the positions of their files.
    """

    def __init__(self, folder: Path, index: Path | None = None) -> None:
        """Open a folder; decisions are kept in `index`, or in the one that the search used.

        Raises:
            UserError: There is no search in it, it is damaged, or its index is gone.
        """
        self.folder = folder
        self.token = self.state = read_state(folder)
        self._notes = results.read_notes(folder)
        self._decisions = Decisions(results.find_index(index, folder))
        matches = read_matches_csv(folder / results.MATCHES, MAX_SHOWN_PAIRS)
        self._listed = list_pairs(matches)
        plan = folder / results.PLAN
        self.rows = {row.file: row for row in (read_plan(plan) if plan.exists() else [])}
        self.groups: dict[int, list[PlanRow]] = {}
        for row in self.rows.values():
            self.groups.setdefault(row.group, []).append(row)
        self._scores = {(row.kept, row.file): row.score for row in self.rows.values()}
        paired = [path for match in matches for path in match.files]
        self.files = list(dict.fromkeys([*paired, *self.rows]))
        self._numbers = {path: number for number, path in enumerate(self.files)}
        self.matches = {
            (self._numbers[match.query], self._numbers[match.reference]): match for match in matches
        }
        with open_store(self._decisions.index) as store:
            self._digests = digests_of_files(store, self.files)
        self._digests |= {file: bytes.fromhex(row.sha256) for file, row in self.rows.items()}
        self._references = {row.file for row in self.rows.values() if row.reference}
        if self._notes.references:
            self._references |= {match.reference for match in matches}
        self._judge = PairJudge()
        self._changing = threading.Lock()

    @property
    def current(self) -> bool:
        """Whether the folder still holds what was read, apart from changes made by this object."""
        return read_state(self.folder) == self.state

    def overview(self) -> dict[str, Any]:
        """Return everything the page needs before it shows the first pair: pairs, groups and what is decided already."""
        decided = self._read_listed_decisions()
        pairs = []
        for pair, match in self.matches.items():
            one, other = map(self._digests.get, match.files)
            if match.score != 0 or one not in (None, other):
                pairs.append([*pair, decided.get(pair)])
        series = list_series(self.matches.values(), self.rows.values())
        place = shlex.quote(text_of(self.folder))
        return {
            "token": self.token,
            "folder": text_of(self.folder),
            "threshold": self._notes.threshold,
            "pairs": pairs,
            "same_bytes": len(self.matches) - len(pairs),
            "series": [[self._name(file) for file in files] for files in series],
            "bounded": len(self.matches) >= MAX_SHOWN_PAIRS,
            "apply": f"{name_command('match')} --apply move --output {place}",
            "moved_to": text_of(self.folder / results.MOVED),
        } | self.summarize_plan()

    def summarize_plan(self) -> dict[str, Any]:
        """Return what the plan would do, and what was done already."""
        removed = results.list_removed(self.folder)
        rows = self.rows.values()
        going = _list_going(rows, removed)
        named = hash(tuple((row.file, row.kept) for row in going))
        ranked = [
            [group, len(rows), _rank(rows), _sum_bytes(_list_going(rows, removed))]
            for group, rows in self.groups.items()
        ]
        return {
            "groups": sorted(ranked, key=lambda group: (group[2], -group[3], group[0])),
            "remove": {"files": len(going), "bytes": _sum_bytes(going), "plan": str(named)},
            "review": sum(row.action == "review" for row in rows),
            "removed": len(removed),
            "gone": [
                self._numbers[path] for path in removed if path in self._numbers and not is_there(path)
            ],
        }

    def pair(self, first: int, second: int) -> dict[str, Any]:
        """Return two files side by side, whether they were listed as a pair or not.

        Raises:
            UserError: One of them cannot be read any more.
        """
        paths = self.file(first), self.file(second)
        digests = [digest_of(path) for path in paths]
        turned = (second, first) in self.matches
        match = self.matches.get((second, first) if turned else (first, second))
        rows = [self.rows[path] for path in paths if path in self.rows]
        grouped = len(rows) == 2 and rows[0].group == rows[1].group
        kept = [other for row in rows for other in rows if row.file != other.file == row.kept]
        return {
            "files": [self._describe(path) for path in paths],
            "sha256": [digest.hex() for digest in digests],
            "same_bytes": digests[0] == digests[1],
            **_show_values({} if match is None else match_values(match), turned),
            "decision": self._decisions.words().get(frozenset(digests), "undecided"),
            "group": rows[0].group if grouped else None,
            "suggestion": {"file": self._numbers[kept[0].file], "reason": kept[0].reason} if kept else None,
        }

    def lay(self, first: int, second: int) -> dict[str, Any] | None:
        """Lay one of two files on the other; None where nothing says how.

        Raises:
            ImageError: One of them cannot be read.
        """
        found = lay_pair(self.file(first), self.file(second))
        return None if found is None else found.values()

    def group(self, number: int) -> dict[str, Any]:
        """Return a group with the plan for its files, the kept one first.

        Raises:
            UserError: There is no such group.
        """
        rows = self._find_group(number)
        words = self._decisions.words()
        center = _find_centers(rows)[0]
        return {
            "group": number,
            "kept": self._numbers[center.file],
            "files": [
                self._describe(row.file)
                | {name: getattr(row, name) for name in IN_GROUP}
                | {
                    "certainty": None if row.judgement is None else row.judgement.certainty,
                    "same_bytes": row.sha256 == center.sha256,
                    "decision": words.get(_pair_of(row, center), "undecided"),
                }
                for row in rows
            ],
        }

    def decide(self, sha256: Sequence[str], word: Word, first: int, second: int) -> Word:
        """Keep a decision about two files with the SHA-256 that the page showed; or take it back, whatever files there are.

        The plan follows. Returns the earlier decision.

        Raises:
            UserError: A file has changed since it was shown, both hold the same bytes, or the index cannot be used.
        """
        paths = Path(), Path()
        if word != "undecided":
            paths = self.file(first), self.file(second)
            if [digest_of(path).hex() for path in paths] != list(sha256):
                raise UserError("One of the two files has changed since it was shown. Look at them again.")
        one, other = map(bytes.fromhex, sha256)
        with self._changing:
            before = self._decisions.record(paths, (one, other), word)
            self._follow(frozenset((one, other)))
        return before

    def list_decisions(self) -> list[dict[str, Any]]:
        """Return every decision that the index holds, the latest first."""
        return [
            {
                "sha256": [decision.first.hex(), decision.second.hex()],
                "names": [text_of(name) for name in decision.names],
                "files": [self._numbers.get(name) for name in decision.names],
                "copy": decision.copy,
                "decided": decision.decided,
            }
            for decision in reversed(self._decisions.read())
        ]

    def keep(self, group: int, file: int) -> None:
        """Keep another file of a group, and write the plan.

        Raises:
            UserError: The file cannot be kept instead of the others, or the search has been done again.
        """
        path = self.file(file)
        with self._changing:
            rows = self._find_group(group)
            row = self.rows.get(path)
            if row is None or row.group != group:
                raise UserError("The file is not in this group.")
            if row.facts is None or row.facts.linked or row.facts.archived or not row.facts.width:
                raise UserError(
                    "A link, a file inside an archive or one that cannot be read is not kept instead of another."
                )
            self._write(group, plan_around(rows, path, BY_HAND, self._know(rows)))

    def carry_out(self, way: Way, shown: str) -> dict[str, Any]:
        """Carry out the plan, and return how many files were dealt with and which were left alone, with the reasons.

        Raises:
            UserError: It is not the one that the page has `shown`, or it cannot be carried out.
        """
        with self._changing:
            if not self.current or self.summarize_plan()["remove"]["plan"] != shown:
                raise UserError(CHANGED)
            return _describe_outcome(results.carry_out(self.folder, way, self._decisions.index))

    def put_back(self) -> dict[str, Any]:
        """Undo what was carried out, and return the same.

        Raises:
            UserError: It cannot be undone now.
        """
        with self._changing:
            return _describe_outcome(results.take_back(self.folder))

    def file(self, number: int) -> Path:
        """Return the path of a file by its position.

        Raises:
            UserError: There is no such file.
        """
        if not 0 <= number < len(self.files):
            raise UserError("There is no such file.")
        return self.files[number]

    def _find_group(self, group: int) -> list[PlanRow]:
        if group not in self.groups:
            raise UserError("There is no such group.")
        return self.groups[group]

    def _follow(self, pair: Pair) -> None:
        """Let the plan follow what is decided about a pair of contents: only rows of one beside a file that stays change."""
        for group, rows in self.groups.items():
            centers = _find_centers(rows)
            changed = [
                row
                for row in rows
                if row.action != "keep" and any(_pair_of(row, center) == pair for center in centers)
            ]
            if changed:
                knowledge = self._know(rows)
                self._write(group, [_plan(row, rows, knowledge) if row in changed else row for row in rows])

    def _know(self, rows: Sequence[PlanRow]) -> Knowledge:
        """Return what is known of a group's files: the pairs that were listed, and what is decided."""
        digests = {row.file: bytes.fromhex(row.sha256) for row in rows}
        words = self._decisions.words()

        def score(one: Path, other: Path) -> float | None:
            return 0.0 if digests[one] == digests[other] else self._scores.get((one, other))

        def decide(one: Path, other: Path) -> bool | None:
            word = words.get(frozenset((digests[one], digests[other])))
            return None if word is None else word == "copy"

        facts = {row.file: row.facts for row in rows if row.facts is not None}
        return Knowledge(digests, facts, self._listed, score, decide, self._judge)

    def _write(self, group: int, rows: list[PlanRow]) -> None:
        """Write a group's rows into the plan.

        Raises:
            UserError: The search has been done again, or is being done.
        """
        if rows == self.groups[group]:
            return
        with results.hold_results_folder(self.folder):
            if not self.current:
                raise UserError(CHANGED)
            every = self.groups | {group: rows}
            write_plan(self.folder / results.PLAN, [row for each in every.values() for row in each])
            self.state = read_state(self.folder)
        self.groups[group] = rows
        self.rows |= {row.file: row for row in rows}

    def _name(self, path: Path) -> dict[str, Any]:
        return {
            "number": self._numbers[path],
            "name": text_of(Path(path.name)),
            "folder": text_of(path.parent),
        }

    def _describe(self, path: Path) -> dict[str, Any]:
        """Return what is known of a file, by name."""
        row = self.rows.get(path)
        facts: Facts = (row and row.facts) or picture_facts(path)
        known = facts_values(facts)
        del known["companions"]  # names that may be no text
        stamp = str(datetime.fromtimestamp(facts.modified // 10**9)) if facts.modified else ""
        shown = {"reference": path in self._references, "modified": stamp, "sharpness": facts.sharpness}
        return known | self._name(path) | shown

    def _read_listed_decisions(self) -> dict[tuple[int, int], Word]:
        """What is decided of the listed pairs, by the contents that are known and otherwise by the names of the time."""
        decided: dict[frozenset[Any], Word] = {}
        for decision in self._decisions.read():
            decided[decision.pair] = decided[frozenset(decision.names)] = decision.word
        found = {}
        for pair, match in self.matches.items():
            contents = [self._digests.get(file) for file in match.files]
            asked = frozenset(match.files if None in contents else contents)
            if asked in decided:
                found[pair] = decided[asked]
        return found


def read_state(folder: Path) -> str:
    """Return the state of the files that a search writes: another one when it has been done again."""
    states = []
    for name in (results.MATCHES, results.PLAN):
        with suppress(OSError):
            state = (folder / name).stat()
            states.append(f"{name}-{state.st_mtime_ns:x}-{state.st_ino:x}")
    return "-".join(states)


def _plan(row: PlanRow, rows: Sequence[PlanRow], knowledge: Knowledge) -> PlanRow:
    """Return a row of a group as it is planned now: it goes for the file that is kept, or else for one that stays beside that."""
    main, *beside = _find_centers(rows)
    parts = [plan_around(rows, main.file, main.reason, knowledge)]
    for center in beside:
        if knowledge.of(center.file, row.file).was_certain:
            parts.append(plan_around([center, row], center.file, center.reason, knowledge))
    planned = [each for part in parts for each in part if each.file == row.file]
    return next((each for each in planned if each.action == "remove" or each.merged), planned[0])


def _find_centers(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """Return the rows of the files that others' rows keep instead of them, that of the whole group first."""
    return [row for row in rows if row.action == "keep" and row.kept == row.file] or [rows[0]]


def _pair_of(one: PlanRow, other: PlanRow) -> Pair:
    """Return the SHA-256 of the contents of two rows."""
    return frozenset((bytes.fromhex(one.sha256), bytes.fromhex(other.sha256)))


def _list_going(rows: Collection[PlanRow], removed: Collection[Path]) -> list[PlanRow]:
    return [row for row in rows if row.action == "remove" and row.file not in removed]


def _sum_bytes(rows: Sequence[PlanRow]) -> int:
    return sum(row.facts.size for row in rows if row.facts is not None)


def _rank(rows: Sequence[PlanRow]) -> int:
    """Return 0 for a group of which files go, or nothing is asked; 1 for one that is worth a look, 2 for a doubtful one."""
    asked = [row.judgement for row in rows if row.action == "review"]
    if not asked or any(row.action == "remove" for row in rows):
        return 0
    return 1 if any(each is None or each.certainty >= SURE for each in asked) else 2


def _describe_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return how many files were dealt with, and which were left alone, with the reasons."""
    left = [[text_of(path), reason] for path, reason in outcome.left[:MAX_SHOWN_LEFT]]
    return {"done": len(outcome.done), "left": left, "left_files": len(outcome.left)}


def _show_values(values: Mapping[str, Any], turned: bool) -> dict[str, Any]:
    """Return what is known of a pair by name, and its regions, if it has any, in the order in which its files are shown."""
    regions = [values[name] for name in ("query_region", "reference_region") if name in values]
    others = {name: value for name, value in values.items() if name not in PICTURED}
    return {"values": others, "regions": regions[::-1] if turned else regions}
