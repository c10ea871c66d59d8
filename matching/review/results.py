"""The results of match.py as the review page shows them; decisions go to the index, choices of files to keep to plan.csv."""

import hashlib
import os
import shlex
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from image_copies.data.commands import name_command
from image_copies.data.errors import UserError, text_of
from image_copies.data.files import is_there
from image_copies.matching.commands.applying import carry_out, list_removed, take_back
from image_copies.matching.commands.indexing import find_index
from image_copies.matching.files.facts import Facts
from image_copies.matching.files.journal import Way
from image_copies.matching.files.keeping import KeepSettings
from image_copies.matching.files.plan import PlanRow
from image_copies.matching.groups.group_plan import suggest
from image_copies.matching.groups.series import list_series
from image_copies.matching.index.decisions import Decisions, Word
from image_copies.matching.index.store import digest_of, digests_of_files, open_store
from image_copies.matching.knowledge import Knowledge, list_pairs
from image_copies.matching.matches import Match, evidence_values, match_values, read_matches_csv
from image_copies.matching.pairs import verify_two
from image_copies.matching.results.folder import MATCHES, MOVED, SearchNotes, read_notes
from image_copies.matching.results.overlays import lay_pair
from image_copies.matching.review.plans import (
    CHANGED,
    ReviewedPlan,
    find_center,
    pair_of,
    read_groups,
    read_state,
)
from image_copies.matching.review.shown import (
    describe_outcome,
    facts_of,
    rank_group,
    show_facts,
    show_name,
    show_values,
    sum_bytes,
)

MAX_SHOWN_PAIRS = 100_000  # pairs on the page; matches.csv lists all


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
    _numbers: dict[Path, int] = field(default_factory=dict)
    _accepted: list[list[tuple[bytes, bytes]]] = field(default_factory=list)
    _references: set[Path] = field(default_factory=set)
    _changing: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._numbers = {path: number for number, path in enumerate(self.files)}
        self._references = {row.file for rows in self.plan.groups.values() for row in rows if row.reference}
        if self.notes.references:
            self._references |= {match.reference for match in self.matches.values()}

    def find_evidence(self, first: int, second: int) -> dict[str, Any] | None:
        """Look for what two files share, where the search did not; None where nothing confirms that one copies the other."""
        found = verify_two(self.file(first), self.file(second))
        return None if found is None else show_values(evidence_values(found), turned=False)

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
        return {
            "token": self.token,
            "folder": text_of(self.folder),
            "index": text_of(self.decisions.index),
            "threshold": self.notes.threshold,
            "pairs": pairs,
            "same_bytes": len(self.matches) - len(pairs),
            "series": [
                [{"number": self._numbers[file], **show_name(file)} for file in files]
                for files in list_series(
                    self.matches.values(), [row for rows in self.plan.groups.values() for row in rows]
                )
            ],
            "bounded": len(self.matches) >= MAX_SHOWN_PAIRS,
            "apply": f"{name_command('match')} --apply move --output {shlex.quote(text_of(self.folder))}",
            "moved_to": text_of(self.folder / MOVED),
        } | self.summarize_plan()

    def summarize_plan(self) -> dict[str, Any]:
        """Return what the plan would do, what of it is certain, and what was done already."""
        groups, removed = self.plan.groups, self._find_removed()
        certain = self.plan.find_certain(removed, self.decisions.words())
        going = [
            row
            for rows in groups.values()
            for row in rows
            if row.action == "remove" and row.file not in removed
        ]
        ranked = [
            [group, len(rows), rank_group(rows), sum_bytes(rows, removed)] for group, rows in groups.items()
        ]
        return {
            "groups": sorted(ranked, key=lambda group: (group[2], -group[3], group[0])),
            "remove": {"files": len(going), "bytes": sum_bytes(going, removed), "plan": _digest_plan(going)},
            "review": sum(row.action == "review" for rows in groups.values() for row in rows),
            "certain": {"groups": len({row.group for row, _ in certain}), "pairs": len(certain)},
            "removed": len(removed),
            "gone": [self._numbers[path] for path in removed if path in self._numbers and not is_there(path)],
        }

    def pair(self, first: int, second: int) -> dict[str, Any]:
        """Return two files side by side, whether they were listed as a pair or not.

        Raises:
            UserError: One of them cannot be read any more.
        """
        one, other = self.file(first), self.file(second)
        facts = [facts_of(path) for path in (one, other)]
        digests = [digest_of(path) for path in (one, other)]
        match, turned = self.matches.get((first, second)), False
        if match is None:
            match, turned = self.matches.get((second, first)), True
        return {
            "files": [
                self._describe_file(number, fact) for number, fact in zip((first, second), facts, strict=True)
            ],
            "sha256": [digest.hex() for digest in digests],
            "same_bytes": digests[0] == digests[1],
            **show_values({} if match is None else match_values(match), turned),
            "decision": self.decisions.words().get(frozenset(digests), "undecided"),
            "group": self.plan.common_group(one, other),
            "suggestion": self._suggestion(facts, digests),
        }

    def group(self, number: int) -> dict[str, Any]:
        """Return a group with the plan for its files, the kept one first.

        Raises:
            UserError: There is no such group.
        """
        rows = self.plan.rows(number)
        words, center = self.decisions.words(), find_center(rows)
        return {
            "group": number,
            "kept": self._numbers[center.file],
            "files": [
                self._describe_file(self._numbers[row.file], row.facts or facts_of(row.file))
                | {
                    "action": row.action,
                    "reason": row.reason,
                    "original": row.original,
                    "certainty": None if row.judgement is None else row.judgement.certainty,
                    "protected": row.protected,
                    "same_bytes": row.sha256 == center.sha256,
                    "decision": words.get(pair_of(row, center), "undecided"),
                    "sha256": row.sha256,
                }
                for row in rows
            ],
        }

    def decide(self, first: int, second: int, sha256: Sequence[str], word: Word) -> Word:
        """Keep a decision about two files with the SHA-256 that the page showed, or take it back; their group's plan follows.

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
            group = self.plan.common_group(*paths)
            if group is not None:
                self.plan.follow(group, paths, self.decisions.words())
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
            self.plan.follow_everywhere(frozenset((one, other)), self.decisions.words())
        return found

    def keep(self, group: int, file: int) -> None:
        """Keep another file of a group, and write the plan.

        Raises:
            UserError: The file cannot be kept instead of the others, or the search has been done again.
        """
        path = self.file(file)
        with self._changing:
            self.plan.keep(group, path, self.decisions.words())

    def accept_certain(self, pairs: int) -> int:
        """Decide for all certain copies of the groups in which nothing else is to be looked at; return their number.

        Raises:
            UserError: They are not as many as the page showed, or the index cannot be used.
        """
        with self._changing:
            found = self.plan.find_certain(self._find_removed(), self.decisions.words())
            if len(found) != pairs:
                raise UserError(CHANGED)
            named = [
                ((row.file, center.file), (bytes.fromhex(row.sha256), bytes.fromhex(center.sha256)))
                for row, center in found
            ]
            self.decisions.keep(named, True)
            self._accepted.append([digests for _, digests in named])
        return len(found)

    def forget_accepted(self) -> int:
        """Take back what `accept_certain` decided last; return the number of decisions.

        Raises:
            UserError: The index cannot be used.
        """
        with self._changing:
            last = self._accepted.pop() if self._accepted else []
            self.decisions.forget(last)
        return len(last)

    def carry_out(self, way: Way, shown: str) -> dict[str, Any]:
        """Carry out the plan, and return how many files were dealt with and which were left alone, with the reasons.

        Raises:
            UserError: It is not what the page has `shown`, or cannot be carried out.
        """
        with self._changing:
            if not self.plan.current or self.summarize_plan()["remove"]["plan"] != shown:
                raise UserError(CHANGED)
            return describe_outcome(carry_out(self.folder, way, self.decisions.index))

    def put_back(self) -> dict[str, Any]:
        """Undo what was carried out, and return the same.

        Raises:
            UserError: It cannot be undone now.
        """
        with self._changing:
            return describe_outcome(take_back(self.folder))

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
        one, other = self.digests.get(match.query), self.digests.get(match.reference)
        return match.score == 0 and (one is None or one == other)

    def _suggestion(self, facts: Sequence[Facts], digests: Sequence[bytes]) -> dict[str, Any] | None:
        """Which of the two to keep by the search's rule, and why; nothing where one cannot be read, or nobody can say."""
        if not all(fact.width for fact in facts) or self.notes.keep == "folder-order":
            return None
        paths = [fact.path for fact in facts]
        known = Knowledge(
            dict(zip(paths, digests, strict=True)), dict(zip(paths, facts, strict=True)), self.plan.listed
        )
        kept, why = suggest(facts, known, KeepSettings(self.notes.keep, self.notes.preferred))
        return None if kept is None else {"file": self._numbers[kept.path], "reason": why}

    def _describe_file(self, number: int, facts: Facts) -> dict[str, Any]:
        return {"number": number, "reference": facts.path in self._references} | show_facts(facts)

    def _read_listed_decisions(self) -> dict[tuple[int, int], Word]:
        """What is decided of the listed pairs, by the contents that are known and otherwise by the names of the time."""
        by_content, by_name = {}, {}
        for decision in self.decisions.read():
            by_content[decision.pair] = by_name[frozenset(decision.names)] = decision.word
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
    matches, groups = read_matches_csv(folder / MATCHES, MAX_SHOWN_PAIRS), read_groups(folder)
    planned = {row.file: bytes.fromhex(row.sha256) for rows in groups.values() for row in rows}
    files = list(
        dict.fromkeys([path for match in matches for path in (match.query, match.reference)] + list(planned))
    )
    with open_store(place) as store:
        known = digests_of_files(store, files)
    numbers = {path: number for number, path in enumerate(files)}
    pairs = {(numbers[match.query], numbers[match.reference]): match for match in matches}
    plan = ReviewedPlan(folder, groups, list_pairs(matches), state)
    return Results(
        folder=folder,
        notes=notes,
        token=state,
        files=files,
        matches=pairs,
        digests=known | planned,
        plan=plan,
        decisions=Decisions(place),
    )
