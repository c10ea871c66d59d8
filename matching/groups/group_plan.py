"""What becomes of each file of a group, and why: which is kept, which may go, and which are to be looked at."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import get_args

from image_copies.data.errors import text_of

from ..files.companions import find_pictures, is_in_library, is_raw
from ..files.facts import Facts
from ..files.keeping import (
    REFERENCE,
    KeepSettings,
    choose_kept,
    find_link_targets,
    find_pattern,
    sort_files,
)
from ..files.plan import BY_HAND, Action, PlanRow, list_companions
from ..knowledge import Knowledge, PairKnowledge
from ..verification.edits import OTHER
from ..verification.judgement import Judgement

TO_LOOK_AT = "a person should look"
LEAST_EDITED = "least edited"  # begins the reason to keep a file that is not the largest one
MAX_COMPARED = 8  # files that are compared with the largest one


def plan_group(
    group: int, files: Sequence[Path], knowledge: Knowledge, settings: KeepSettings
) -> list[PlanRow]:
    """Plan one group: the kept file first, then those that may be removed, those to be looked at, and those that are left.

    A file may be removed only if it certainly is a copy of the kept file itself, is no link, lies in no archive and is neither
    protected nor a reference. What stays beside the kept file, such as another shot of the same scene, is kept instead of its own
    certain copies, by the pairs that are known to be such; equal bytes go first. Where there are references, one of them is kept.
    The rule "largest" keeps the least edited of the largest file and its certain copies. A person is to look at what has
    something that the kept file lacks, whatever it is kept for.
    """
    members = [knowledge.facts[path] for path in files]
    digests = knowledge.digests
    is_sound = knowledge.is_intact if len({digests[path] for path in files}) > 1 else lambda path: True
    kept, why = choose_kept(members, settings, is_sound)
    preferred = find_pattern(kept.path, settings.preferred) < len(settings.preferred)
    if settings.keep == "largest" and not preferred and not settings.is_reference(kept.path):
        kept, why = _choose_least_edited(kept, members, knowledge) or (kept, why)
    rows = [
        PlanRow(
            group=group,
            action="leave",
            file=facts.path,
            kept=kept.path,
            facts=facts,
            protected=settings.is_protected(facts.path),
            sha256=digests[facts.path].hex(),
            reference=settings.is_reference(facts.path),
        )
        for facts in members
    ]
    return _plan_remaining(plan_around(rows, kept.path, why, knowledge), kept.path, knowledge, settings)


def _choose_least_edited(
    largest: Facts, members: Sequence[Facts], knowledge: Knowledge
) -> tuple[Facts, str] | None:
    """Choose the file to keep instead of the largest one, and give the reason; None where the largest one is to be kept."""
    kept, why = largest, ""
    others = (facts for facts in sort_files(members) if _can_replace(facts, largest, knowledge))
    for other in islice(others, MAX_COMPARED):
        known = knowledge.of(kept.path, other.path)
        if known.origin is None or known.origin[0] != other.path:
            continue
        if known.edits is not None and known.edits.cropped[OTHER]:
            continue
        size = f"{kept.width} × {kept.height}"
        kept, why = other, f"{LEAST_EDITED}: {text_of(kept.path.name)}, {size}, {known.origin[1]}"
    return (kept, why) if why else None


def _plan_remaining(
    planned: Sequence[PlanRow], kept: Path, knowledge: Knowledge, settings: KeepSettings
) -> list[PlanRow]:
    """Let files that stay beside the kept one be kept instead of their own certain copies; none of those goes through a chain."""
    rows = {row.file: row for row in planned}
    for facts in sort_files([row.facts for row in planned if row.facts is not None], settings):
        file, center = facts.path, rows[facts.path]
        if file == kept or center.action == "remove" or center.merged or not facts.width or is_raw(file):
            continue
        copies = [
            row
            for row in rows.values()
            if row.action in ("review", "leave")
            and not row.merged
            and row.file != file
            and knowledge.of(file, row.file).was_certain
        ]
        if copies and not knowledge.is_intact(file):
            copies = [row for row in copies if row.sha256 == center.sha256]
        why = center.reason
        if center.action != "keep":
            members = [facts, *(row.facts for row in copies if row.facts is not None)]
            why = choose_kept(members, settings)[1]
        part = plan_around([center, *copies], file, why, knowledge)
        gone = [row for row in part if row.action == "remove" or row.merged]
        if gone:
            rows |= {row.file: row for row in gone} | {file: part[0]}
    return _sort_rows(list(rows.values()), kept)


def _can_replace(facts: Facts, kept: Facts, knowledge: Knowledge) -> bool:
    """Whether a file, certainly a copy of another one, could be kept instead of it, if that was edited."""
    if facts.linked or facts.archived or is_raw(facts.path) or not facts.width:
        return False
    known = knowledge.of(kept.path, facts.path)
    if (
        known.same_bytes
        or known.decision is not None
        or not known.matches
        or not known.judgement.is_certain
        or not knowledge.is_intact(facts.path)
    ):
        return False
    lasting, _ = knowledge.of(facts.path, kept.path).surplus
    return not lasting


def plan_around(
    rows: Sequence[PlanRow], kept: Path, why: str, knowledge: Knowledge, name_originals: bool = True
) -> list[PlanRow]:
    """Plan a group again around the file to keep, for the reason `why`.

    With `name_originals` rows to be looked at say which of two files was made of the other, which may take longer than all else.
    """
    center = next(row for row in rows if row.file == kept)
    going: dict[Path, Path] = {}  # companions of the files that are removed
    targets = find_link_targets(row.facts for row in rows if row.facts is not None)
    planned = [replace(center, action="keep", kept=kept, reason=why, score=None, judgement=None)]
    for row in rows:
        if row.file != kept:
            known = knowledge.of(kept, row.file)
            different = _find_difference(row, center, known)
            guard = _find_guard(row, center, targets)
            judgement = None if different else known.judgement
            merged = ""
            if guard or judgement is None:
                action, reason = guard or ("leave", different)
            else:
                loss, merged = known.find_loss(by_hand=why == BY_HAND)
                action, reason = _decide_action(judgement, loss)
            original = _name_original(known) if name_originals and action == "review" else ""
            made = replace(
                row, action=action, kept=kept, reason=reason, score=known.score, judgement=judgement
            )
            planned.append(replace(made, merged=merged, original=original))
            going |= dict.fromkeys(list_companions(planned[-1]), row.file)
    planned = [
        replace(row, reason=f"goes with {text_of(going[row.file].name)}")
        if row.action == "leave" and row.file in going
        else row
        for row in planned
    ]
    return _sort_rows(planned, kept)


def _sort_rows(rows: Iterable[PlanRow], kept: Path) -> list[PlanRow]:
    """Sort the rows of a group by their actions, the kept file first."""
    return sorted(rows, key=lambda row: (row.file != kept, get_args(Action).index(row.action), row.file))


def _find_guard(row: PlanRow, kept: PlanRow, targets: Collection[Path]) -> tuple[Action, str] | None:
    """Return the action for a file that stays, whatever it looks like, and the reason; None for another one.

    Args:
        row: The file.
        kept: The file that is kept instead.
        targets: The files of the group that links of the group lead to.
    """
    if row.protected:
        return "keep", "protected"
    if row.reference:
        return "keep", REFERENCE
    if row.facts is None or kept.facts is None:
        return "leave", "nothing is known of it or of the kept file"
    if row.facts.archived:
        return "leave", "inside an archive"
    if row.facts.linked:
        return "leave", "a link"
    if targets and row.file.resolve() in targets:
        return "leave", "a link leads to it"
    if is_in_library(row.file):
        return "leave", "inside the library of a program"
    if _is_one_file(row.file, kept.file):
        return "leave", "a hard link to the kept file: removing it would free nothing"
    if kept.facts.linked or kept.facts.archived:
        return "leave", "the group holds no file that could be kept instead"
    return None


def _is_one_file(file: Path, kept: Path) -> bool:
    """Whether two paths lead to one file on the disk."""
    try:
        return file.samefile(kept)
    except OSError:  # gone, or not of this disk
        return False


def _name_original(known: PairKnowledge) -> str:
    """Return which of a file and the kept one the other was made of, if they certainly are copies, in words."""
    if not known.judgement.is_certain:
        return ""
    if known.origin is None:
        return "not known"
    origin, reason = known.origin
    of, made = ("the kept file", "this one") if origin == known.kept else ("this file", "the kept one")
    return f"{of}: {made} {reason}"


def _find_difference(row: PlanRow, kept: PlanRow, known: PairKnowledge) -> str:
    """Return why a file is no copy of the kept one, or nothing says that it is, before anybody looks; empty for no reason."""
    if known.decision is False:
        return "called no copy of the kept file"
    if not known.matches:
        return "does not match the kept file by itself"
    if row.facts is not None and not row.facts.width:
        return "cannot be read any more"
    if not known.same_bytes and (is_raw(row.file) or is_raw(kept.file)):
        return "a RAW file, of which only the same bytes are a copy"
    if is_raw(row.file) and (pictures := find_pictures(row.file)):
        return f"a RAW file, which goes where {pictures[0]} goes"
    return ""


def _decide_action(judgement: Judgement, loss: str) -> tuple[Action, str]:
    if loss:
        return "review", f"{judgement.reason}; {TO_LOOK_AT}: {loss}"
    if judgement.is_certain:
        return "remove", judgement.reason
    return "review", f"{judgement.kind}: {judgement.reason}; {TO_LOOK_AT}"
