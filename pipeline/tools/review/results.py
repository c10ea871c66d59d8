"""The results of match.py as the review page shows them; decisions go to the index, choices of files to keep to plan.csv."""

import shlex
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from data.errors import UserError
from data.names import text_of
from pipeline.tools.match_results import MATCHES, PLAN, SearchNotes, hold_results_folder, read_notes
from submissions.copies.facts import Facts, picture_facts
from submissions.copies.keeping import choose_kept
from submissions.copies.plan import PlanRow, plan_around, read_plan, write_plan
from submissions.index.database import DATABASE
from submissions.index.decisions import Decision, Pair, decide, read_decisions, take_back
from submissions.index.matches import Match, read_matches_csv
from submissions.index.store import digest_of, digests_of_files, open_known_store
from submissions.verification.geometry import Evidence

MAX_SHOWN_PAIRS = 100_000  # of the page; matches.csv lists all
MAX_CACHED_FACTS = 2000
Word = Literal["copy", "not-a-copy", "undecided"]
CHANGED = "The search has been done again, or the plan was edited. Load the page again to see it."


@dataclass
class Results:
    """An opened folder of results.

    Attributes:
        folder: of the results.
        notes: what is known of the search.
        index: where decisions are kept.
        token: names the state of the folder that was opened.
        files: every file of a pair or a group; the page names them by their place here.
        matches: pairs, best first, by the places of their files.
        rows: the plan by its groups.
        digests: SHA-256 of the files whose contents the plan or the index knows.
    """

    folder: Path
    notes: SearchNotes
    index: Path
    token: str
    files: list[Path]
    matches: dict[tuple[int, int], Match]
    rows: dict[int, list[PlanRow]]
    digests: dict[Path, bytes]
    _written: str = ""
    _numbers: dict[Path, int] = field(default_factory=dict)
    _groups: dict[Path, int] = field(default_factory=dict)
    _facts: OrderedDict[tuple[Path, int], Facts] = field(default_factory=OrderedDict)
    _changing: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._written = self.token
        self._numbers = {path: number for number, path in enumerate(self.files)}
        self._groups = {row.file: group for group, rows in self.rows.items() for row in rows}

    @property
    def current(self) -> bool:
        """Whether the folder still holds what was opened, apart from changes made by this object."""
        return _read_state(self.folder) == self._written

    def find_evidence(self, first: int, second: int) -> dict[str, Any] | None:
        """Look for what two files share, where the search did not; None where nothing confirms that one copies the other."""
        # imported here: nothing else needs OpenCV's features
        from pipeline.tools.match_verify import verify_two

        found = verify_two(self.file(first), self.file(second))
        return None if found is None else _evidence_values(found, turned=False)

    def overview(self) -> dict[str, Any]:
        """Return everything the page needs before it shows the first pair: pairs, groups and what is decided already."""
        decided = self._read_listed_decisions()
        pairs = [[*pair, decided.get(pair)] for pair, match in self.matches.items() if not self._same_bytes(match)]
        return {
            "token": self.token,
            "folder": text_of(self.folder),
            "index": text_of(self.index),
            "threshold": self.notes.threshold,
            "pairs": pairs,
            "same_bytes": len(self.matches) - len(pairs),
            "bounded": len(self.matches) >= MAX_SHOWN_PAIRS,
            "groups": [[group, len(rows)] for group, rows in self.rows.items()],
            "apply": f"python pipeline/match.py --apply move --output {shlex.quote(text_of(self.folder))}",
            "remove": sum(row.action == "remove" for rows in self.rows.values() for row in rows),
        }

    def pair(self, first: int, second: int) -> dict[str, Any]:
        """Return two files side by side, whether they were listed as a pair or not.

        Raises:
            UserError: one of them cannot be read any more.
        """
        one, other = self.file(first), self.file(second)
        facts = [self._facts_of(path) for path in (one, other)]
        digests = [digest_of(path) for path in (one, other)]
        match, turned = self.matches.get((first, second)), False
        if match is None:
            match, turned = self.matches.get((second, first)), True
        group = self._groups.get(one)
        return {
            "files": [self._describe_file(number, fact) for number, fact in zip((first, second), facts, strict=True)],
            "sha256": [digest.hex() for digest in digests],
            "same_bytes": digests[0] == digests[1],
            "score": None if match is None else match.score,
            "false_alarms": None if match is None else match.false_alarms,
            "evidence": None if match is None or match.evidence is None else _evidence_values(match.evidence, turned),
            "decision": self._read_decision(digests[0], digests[1]),
            "group": group if group is not None and group == self._groups.get(other) else None,
            "suggestion": self._suggestion(facts),
        }

    def group(self, number: int) -> dict[str, Any]:
        """Return a group with the plan for its files, the kept one first.

        Raises:
            UserError: there is no such group.
        """
        rows = self._rows(number)
        words, center = self._read_words(), _find_center(rows)
        return {
            "group": number,
            "kept": self._numbers[center.file],
            "files": [
                self._describe_file(self._numbers[row.file], self._row_facts(row))
                | {
                    "action": row.action,
                    "reason": row.reason,
                    "score": row.score,
                    "protected": row.protected,
                    "same_bytes": row.sha256 == center.sha256,
                    "decision": words.get(_pair_of(row, center), "undecided"),
                    "sha256": row.sha256,
                }
                for row in rows
            ],
        }

    def decide(self, first: int, second: int, sha256: Sequence[str], word: Word) -> Word:
        """Keep a decision about two files in the index, or take it back; the plan of their group follows it.

        Args:
            first: Position of one file in `files`.
            second: Position of the other file.
            sha256: SHA-256 of both as the page showed them, hexadecimal.
            word: The decision.

        Returns:
            The earlier decision.

        Raises:
            UserError: a file has changed since it was shown, both hold the same bytes, or the index cannot be used.
        """
        paths = self.file(first), self.file(second)
        digests = digest_of(paths[0]), digest_of(paths[1])
        if [digest.hex() for digest in digests] != list(sha256):
            raise UserError("One of the two files has changed since it was shown. Look at them again.")
        if digests[0] == digests[1]:
            raise UserError("The two files hold the same bytes: there is nothing to decide.")
        with self._changing:
            before = self._read_decision(*digests)
            with open_known_store(self.index) as store:
                if word == "undecided":
                    take_back(store, digests)
                else:
                    decide(store, paths, digests, word == "copy")
            group = self._groups.get(paths[0])
            if group is not None and group == self._groups.get(paths[1]):
                self._follow(group, *paths)
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
            for decision in reversed(self._read_decisions())
        ]

    def forget(self, sha256: Sequence[str]) -> bool:
        """Take a decision back; False where there was none."""
        one, other = (bytes.fromhex(text) for text in sha256)
        with self._changing:
            with open_known_store(self.index) as store:
                found = take_back(store, (one, other))
            for group, rows in self.rows.items():
                center = _find_center(rows)
                for row in rows:
                    if _pair_of(row, center) == frozenset((one, other)):
                        self._follow(group, row.file, center.file)
        return found

    def keep(self, group: int, file: int) -> None:
        """Keep another file of a group, and write the plan.

        Raises:
            UserError: the file cannot be kept instead of the others, or the search has been done again.
        """
        path = self.file(file)
        row = next((row for row in self._rows(group) if row.file == path), None)
        if row is None:
            raise UserError("The file is not in this group.")
        if row.facts is None or row.facts.linked or row.facts.archived or not row.facts.width:
            raise UserError("A link, a file inside an archive or one that cannot be read is not kept instead of another.")
        with self._changing:
            self._write(group, self._plan_around_file(group, path, "chosen by hand"))

    def _follow(self, group: int, one: Path, other: Path) -> None:
        """Let the plan for one pair follow what is decided now; only the line of the file beside the kept one changes."""
        rows = self.rows[group]
        center = _find_center(rows)
        if center.file not in (one, other):
            return
        changed = one if other == center.file else other
        planned = {row.file: row for row in self._plan_around_file(group, center.file, center.reason)}
        self._write(group, [planned[row.file] if row.file == changed and row.action != "keep" else row for row in rows])

    def _plan_around_file(self, group: int, kept: Path, why: str) -> list[PlanRow]:
        """The group planned around a file, by the pairs that were listed and by what is decided."""
        rows, words = self.rows[group], self._read_words()
        by_file = {row.file: row for row in rows}
        before = {row.file: row.score for row in rows if row.kept == kept}

        def called(one: PlanRow, other: PlanRow) -> bool | None:
            word = words.get(_pair_of(one, other))
            return None if word is None else word == "copy"

        def score(one: Path, other: Path) -> float | None:
            numbers = self._numbers[one], self._numbers[other]
            match = self.matches.get(numbers) or self.matches.get(numbers[::-1])
            if by_file[one].sha256 == by_file[other].sha256:
                return 0.0
            return before.get(other) if match is None else match.score

        return plan_around(rows, kept, why, score, called)

    def _write(self, group: int, rows: list[PlanRow]) -> None:
        if rows == self.rows[group]:
            return
        with hold_results_folder(self.folder):
            if not self.current:
                raise UserError(CHANGED)
            every = self.rows | {group: rows}
            write_plan(self.folder / PLAN, [row for each in every.values() for row in each])
            self._written = _read_state(self.folder)
        self.rows[group] = rows

    def file(self, number: int) -> Path:
        """Return the path of a file by its place.

        Raises:
            UserError: there is no such file.
        """
        if not 0 <= number < len(self.files):
            raise UserError("There is no such file.")
        return self.files[number]

    def _rows(self, group: int) -> list[PlanRow]:
        if group not in self.rows:
            raise UserError("There is no such group.")
        return self.rows[group]

    def _same_bytes(self, match: Match) -> bool:
        one, other = self.digests.get(match.query), self.digests.get(match.reference)
        return match.score == 0 and (one is None or one == other)

    def _suggestion(self, facts: Sequence[Facts]) -> dict[str, Any] | None:
        """Which of the two to keep by the search's rule, and why; nothing where one cannot be read."""
        if not all(fact.width for fact in facts) or self.notes.keep == "folder-order":
            return None
        kept, why = choose_kept(facts, self.notes.keep)
        return {"file": self._numbers[kept.path], "reason": why}

    def _facts_of(self, path: Path) -> Facts:
        try:
            key = path, path.stat().st_mtime_ns
        except OSError:
            return picture_facts(path)  # inside an archive, or gone
        with self._changing:
            known = self._facts.get(key)
        if known is None:
            known = picture_facts(path)
            with self._changing:
                self._facts[key] = known
                while len(self._facts) > MAX_CACHED_FACTS:
                    self._facts.popitem(last=False)
        return known

    def _row_facts(self, row: PlanRow) -> Facts:
        return row.facts if row.facts is not None else self._facts_of(row.file)

    def _describe_file(self, number: int, facts: Facts) -> dict[str, Any]:
        stamp = datetime.fromtimestamp(facts.modified // 10**9)
        return {
            "number": number,
            "name": text_of(Path(facts.path.name)),
            "folder": text_of(facts.path.parent),
            "width": facts.width,
            "height": facts.height,
            "bytes": facts.size,
            "format": facts.form,
            "taken": facts.taken,
            "modified": str(stamp) if facts.modified else "",
            "sharpness": facts.sharpness,
        }

    def _read_decisions(self) -> list[Decision]:
        if not (self.index / DATABASE).is_file():
            return []
        with open_known_store(self.index) as store:
            return read_decisions(store)

    def _read_words(self) -> dict[Pair, Word]:
        return {decision.pair: _word(decision) for decision in self._read_decisions()}

    def _read_decision(self, one: bytes, other: bytes) -> Word:
        return self._read_words().get(frozenset((one, other)), "undecided")

    def _read_listed_decisions(self) -> dict[tuple[int, int], Word]:
        """What is decided of the listed pairs, by the contents that are known and otherwise by the names of the time."""
        by_content, by_name = {}, {}
        for decision in self._read_decisions():
            by_content[decision.pair] = by_name[frozenset(decision.names)] = _word(decision)
        if not by_content:
            return {}
        found = {}
        for pair, match in self.matches.items():
            contents = [self.digests.get(match.query), self.digests.get(match.reference)]
            if None not in contents:
                word = by_content.get(frozenset(digest for digest in contents if digest is not None))
            else:
                word = by_name.get(frozenset((match.query, match.reference)))
            if word is not None:
                found[pair] = word
        return found


def open_results(folder: Path, index: Path | None = None) -> Results:
    """Open a folder of results.

    Args:
        folder: what match.py's --output named.
        index: where decisions are kept; None for the index that the search used.

    Raises:
        UserError: there is no search in it, it is damaged, or its index is gone.
    """
    state = _read_state(folder)
    notes = read_notes(folder)
    place = index or notes.index_in(folder)
    if not (place / DATABASE).is_file():
        raise UserError(f"{place} holds no index to keep decisions in. Search again, or name it with --index.")
    matches = read_matches_csv(folder / MATCHES, MAX_SHOWN_PAIRS)
    rows: dict[int, list[PlanRow]] = {}
    for row in read_plan(folder / PLAN) if (folder / PLAN).exists() else []:
        rows.setdefault(row.group, []).append(row)
    planned = {row.file: bytes.fromhex(row.sha256) for each in rows.values() for row in each}
    files = list(dict.fromkeys([path for match in matches for path in (match.query, match.reference)] + list(planned)))
    with open_known_store(place) as store:
        known = digests_of_files(store, files)
    numbers = {path: number for number, path in enumerate(files)}
    pairs = {(numbers[match.query], numbers[match.reference]): match for match in matches}
    return Results(folder, notes, place, state, files, pairs, rows, known | planned)


def _find_center(rows: Sequence[PlanRow]) -> PlanRow:
    """The row of the file that the others' rows keep instead of them."""
    return next((row for row in rows if row.action == "keep" and row.kept == row.file), rows[0])


def _read_state(folder: Path) -> str:
    """The state of the files that a search writes: another one when it has been done again."""
    states = []
    for name in (MATCHES, PLAN):
        try:
            state = (folder / name).stat()
            states.append(f"{state.st_mtime_ns:x}-{state.st_ino:x}")
        except OSError:
            states.append("none")
    return "-".join(states)


def _pair_of(one: PlanRow, other: PlanRow) -> Pair:
    return frozenset((bytes.fromhex(one.sha256), bytes.fromhex(other.sha256)))


def _word(decision: Decision) -> Word:
    return "copy" if decision.copy else "not-a-copy"


def _evidence_values(found: Evidence, turned: bool) -> dict[str, Any]:
    regions = [found.query_region, found.reference_region]
    return {"inliers": found.inliers, "change": found.change, "regions": regions[::-1] if turned else regions}
