"""The results of match.py as the review page shows them; decisions go to the index, choices of files to keep to plan.csv."""

import hashlib
import os
import shlex
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError, text_of
from image_copies.data.files import is_there
from image_copies.data.sources.archives import find_archive

from ..commands.applying import carry_out, list_removed, take_back
from ..commands.indexing import find_index
from ..files.acting import Outcome
from ..files.facts import Facts, picture_facts
from ..files.journal import Way
from ..files.plan import PlanRow, facts_values
from ..groups.series import list_series
from ..index.decisions import Decisions, Word
from ..index.store import digest_of, digests_of_files, open_store
from ..knowledge import list_pairs
from ..matches import PICTURED, Match, match_values, read_matches_csv
from ..results.folder import MATCHES, MOVED, SearchNotes, read_notes
from ..results.overlays import lay_pair
from .plans import CHANGED, ReviewedPlan, find_centers, pair_of, read_groups, read_state

MAX_SHOWN_PAIRS = 100_000  # pairs on the page; matches.csv lists all
MAX_CACHED_FACTS = 2000
SURE = 60  # certainty from which a pair is worth a look before those about which little is known
MAX_SHOWN_LEFT = 20  # files that were left alone


@dataclass
class Results:
    """An opened folder of results.

    Attributes:
        folder: The folder.
        notes: What is known of the search.
        token: Names the state of the folder that was opened.
        files: Every file of a pair or a group; the page names them by their positions here.
        matches: Pairs, best first, by the positions of their files.
        digests: SHA-256 of the files whose contents the plan or the index knows.
        plan: The plan by its groups.
        decisions: What is decided.
    """

    folder: Path
    notes: SearchNotes
    token: str
    files: list[Path]
    matches: dict[tuple[int, int], Match]
    digests: dict[Path, bytes]
    plan: ReviewedPlan
    decisions: Decisions
    _changing: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._numbers = {path: number for number, path in enumerate(self.files)}
        self._references = {row.file for row in self.plan.rows.values() if row.reference}
        if self.notes.references:
            self._references |= {match.reference for match in self.matches.values()}

    def lay(self, first: int, second: int) -> dict[str, Any] | None:
        """Lay one of two files on the other; None where nothing says how.

        Raises:
            ImageError: One of them cannot be read.
        """
        found = lay_pair(self.file(first), self.file(second))
        return None if found is None else found.values()

    def overview(self) -> dict[str, Any]:
        """Return everything the page needs before it shows the first pair: pairs, groups and what is decided already."""
        decided = self._read_listed_decisions()
        pairs = [
            [*pair, decided.get(pair)] for pair, match in self.matches.items() if not self._same_bytes(match)
        ]
        series = list_series(self.matches.values(), self.plan.rows.values())
        return {
            "token": self.token,
            "folder": text_of(self.folder),
            "threshold": self.notes.threshold,
            "pairs": pairs,
            "same_bytes": len(self.matches) - len(pairs),
            "series": [[self._name(file) for file in files] for files in series],
            "bounded": len(self.matches) >= MAX_SHOWN_PAIRS,
            "apply": f"{name_command('match')} --apply move --output {shlex.quote(text_of(self.folder))}",
            "moved_to": text_of(self.folder / MOVED),
        } | self.summarize_plan()

    def summarize_plan(self) -> dict[str, Any]:
        """Return what the plan would do, and what was done already."""
        removed = self._find_removed()
        rows = self.plan.rows.values()
        going = _list_going(rows, removed)
        ranked = [
            [group, len(rows), _rank(rows), _sum_bytes(_list_going(rows, removed))]
            for group, rows in self.plan.groups.items()
        ]
        return {
            "groups": sorted(ranked, key=lambda group: (group[2], -group[3], group[0])),
            "remove": {"files": len(going), "bytes": _sum_bytes(going), "plan": _digest_plan(going)},
            "review": sum(row.action == "review" for row in rows),
            "removed": len(removed),
            "gone": [self._numbers[path] for path in removed if path in self._numbers and not is_there(path)],
        }

    def pair(self, first: int, second: int) -> dict[str, Any]:
        """Return two files side by side, whether they were listed as a pair or not.

        Raises:
            UserError: One of them cannot be read any more.
        """
        paths = self.file(first), self.file(second)
        digests = [digest_of(path) for path in paths]
        match, turned = self.matches.get((first, second)), False
        if match is None:
            match, turned = self.matches.get((second, first)), True
        rows = [self.plan.rows[path] for path in paths if path in self.plan.rows]
        grouped = len(rows) == 2 and rows[0].group == rows[1].group
        kept = [other for row in rows for other in rows if row.file != other.file == row.kept]
        return {
            "files": [self._describe(path, _facts_of(path)) for path in paths],
            "sha256": [digest.hex() for digest in digests],
            "same_bytes": digests[0] == digests[1],
            **_show_values({} if match is None else match_values(match), turned),
            "decision": self.decisions.words().get(frozenset(digests), "undecided"),
            "group": rows[0].group if grouped else None,
            "suggestion": {"file": self._numbers[kept[0].file], "reason": kept[0].reason} if kept else None,
        }

    def group(self, number: int) -> dict[str, Any]:
        """Return a group with the plan for its files, the kept one first.

        Raises:
            UserError: There is no such group.
        """
        rows = self.plan.find_group(number)
        words = self.decisions.words()
        center = find_centers(rows)[0]
        return {
            "group": number,
            "kept": self._numbers[center.file],
            "files": [
                self._describe(row.file, row.facts or _facts_of(row.file))
                | {
                    name: getattr(row, name)
                    for name in ("action", "reason", "original", "protected", "sha256")
                }
                | {
                    "certainty": None if row.judgement is None else row.judgement.certainty,
                    "same_bytes": row.sha256 == center.sha256,
                    "decision": words.get(pair_of(row, center), "undecided"),
                }
                for row in rows
            ],
        }

    def decide(self, first: int, second: int, sha256: Sequence[str], word: Word) -> Word:
        """Keep a decision about two files with the SHA-256 that the page showed, or take it back; the plan follows.

        Returns the earlier decision.

        Raises:
            UserError: A file has changed since it was shown, both hold the same bytes, or the index cannot be used.
        """
        paths = self.file(first), self.file(second)
        digests = digest_of(paths[0]), digest_of(paths[1])
        if [digest.hex() for digest in digests] != list(sha256):
            raise UserError("One of the two files has changed since it was shown. Look at them again.")
        if digests[0] == digests[1]:
            raise UserError("The two files hold the same bytes: there is nothing to decide.")
        with self._changing:
            before = self.decisions.record(paths, digests, word)
            self.plan.follow(frozenset(digests), self.decisions.words())
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
            for decision in reversed(self.decisions.read())
        ]

    def forget(self, sha256: Sequence[str]) -> bool:
        """Take a decision back; False where there was none."""
        one, other = (bytes.fromhex(text) for text in sha256)
        with self._changing:
            found = self.decisions.forget([(one, other)])
            self.plan.follow(frozenset((one, other)), self.decisions.words())
        return found

    def keep(self, group: int, file: int) -> None:
        """Keep another file of a group, and write the plan.

        Raises:
            UserError: The file cannot be kept instead of the others, or the search has been done again.
        """
        path = self.file(file)
        with self._changing:
            self.plan.keep(group, path, self.decisions.words())

    def carry_out(self, way: Way, shown: str) -> dict[str, Any]:
        """Carry out the plan, and return how many files were dealt with and which were left alone, with the reasons.

        Raises:
            UserError: It is not what the page has `shown`, or cannot be carried out.
        """
        with self._changing:
            if not self.plan.current or self.summarize_plan()["remove"]["plan"] != shown:
                raise UserError(CHANGED)
            return _describe_outcome(carry_out(self.folder, way, self.decisions.index))

    def put_back(self) -> dict[str, Any]:
        """Undo what was carried out, and return the same.

        Raises:
            UserError: It cannot be undone now.
        """
        with self._changing:
            return _describe_outcome(take_back(self.folder))

    def file(self, number: int) -> Path:
        """Return the path of a file by its position.

        Raises:
            UserError: There is no such file.
        """
        if not 0 <= number < len(self.files):
            raise UserError("There is no such file.")
        return self.files[number]

    def _find_removed(self) -> set[Path]:
        """Files that a plan removed; none where that cannot be seen now."""
        try:
            return set(list_removed(self.folder))
        except UserError:
            return set()

    def _same_bytes(self, match: Match) -> bool:
        one = self.digests.get(match.query)
        other = self.digests.get(match.reference)
        return match.score == 0 and (one is None or one == other)

    def _name(self, path: Path) -> dict[str, Any]:
        return {
            "number": self._numbers[path],
            "name": text_of(Path(path.name)),
            "folder": text_of(path.parent),
        }

    def _describe(self, path: Path, facts: Facts) -> dict[str, Any]:
        """Return what is known of a file, by name."""
        known = facts_values(facts)
        del known["companions"]  # names that may be no text
        stamp = str(datetime.fromtimestamp(facts.modified // 10**9)) if facts.modified else ""
        shown = {"reference": path in self._references, "modified": stamp, "sharpness": facts.sharpness}
        return known | self._name(path) | shown

    def _read_listed_decisions(self) -> dict[tuple[int, int], Word]:
        """What is decided of the listed pairs, by the contents that are known and otherwise by the names of the time."""
        decided: dict[frozenset[Any], Word] = {}
        for decision in self.decisions.read():
            decided[decision.pair] = decided[frozenset(decision.names)] = decision.word
        found = {}
        for pair, match in self.matches.items():
            contents = [self.digests.get(file) for file in match.files]
            asked = frozenset(match.files if None in contents else contents)
            if asked in decided:
                found[pair] = decided[asked]
        return found


def _facts_of(path: Path) -> Facts:
    """Return the facts of a file, which are read once; those of one inside an archive, too."""
    held = find_archive(path) or path
    return _read_facts(path, held.stat().st_mtime_ns if is_there(held) else 0)


@lru_cache(MAX_CACHED_FACTS)
def _read_facts(path: Path, modified: int) -> Facts:
    """Return the facts of a file as it is since `modified`, which tells it from an earlier one of its name."""
    return picture_facts(path)


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


def _digest_plan(going: Sequence[PlanRow]) -> str:
    """Return the SHA-256 of what goes and what stays instead, hexadecimal."""
    return hashlib.sha256(b"".join(os.fsencode(f"{row.file}\0{row.kept}\0") for row in going)).hexdigest()


def open_results(folder: Path, index: Path | None = None) -> Results:
    """Open a folder of results; decisions are kept in `index`, or in the one that the search used.

    Raises:
        UserError: There is no search in it, it is damaged, or its index is gone.
    """
    state = read_state(folder)
    notes = read_notes(folder)
    place = find_index(index, folder)
    matches = read_matches_csv(folder / MATCHES, MAX_SHOWN_PAIRS)
    plan = ReviewedPlan(folder, read_groups(folder), list_pairs(matches), state)
    files = list(dict.fromkeys([*(path for match in matches for path in match.files), *plan.rows]))
    with open_store(place) as store:
        known = digests_of_files(store, files)
    planned = {file: bytes.fromhex(row.sha256) for file, row in plan.rows.items()}
    numbers = {path: number for number, path in enumerate(files)}
    pairs = {(numbers[match.query], numbers[match.reference]): match for match in matches}
    return Results(folder, notes, state, files, pairs, known | planned, plan, Decisions(place))
