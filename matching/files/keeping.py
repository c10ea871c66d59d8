"""The choice of the picture of a group to keep, with the reason."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import DTypeLike

from image_copies.data.errors import UserError

from .companions import EDITED_WORDS, is_in_library
from .facts import Facts

REFERENCE = "a reference"  # the reason to keep one
FIRST_BY_PATH = "nothing else decides, first by its path"
KeepRule = Literal["largest", "oldest", "folder-order"]
KEEP_RULES: tuple[KeepRule, ...] = get_args(KeepRule)
PATH = "path:"  # begins a rule by path
# what file managers and galleries call what they make of a file: "a (1)", "a - Copy (2)", "a 2", "Kopie von a", "a-edited"
MADE = r"copy|copie|c[oòó]pia|kopi[aeio]?|kópia|kopya|копия|копія|" + EDITED_WORDS
MADE_ATTACHED = r"コピー|副本|拷贝|複製|복사본|編集済み|已编辑|수정됨"  # in scripts that leave no gap
MADE_OF_ANOTHER = re.compile(
    rf"\(\d+\)$|\S[ ~-][2-9]$|^(?:{MADE}|{MADE_ATTACHED})(?:[\W_]|$)|(?:[\W_](?:{MADE})|{MADE_ATTACHED})[\W_]*\d*\W*$",
    re.IGNORECASE,
)
# folders of copies and of what was thrown away: "Backup", "old disk", "Kopien", "Downloads", "$RECYCLE.BIN", ".Trash-1000"
AWAY = r"back-?ups?|sicherung(?:en)?|sauvegardes?|old|copies|kopien|duplicates?|downloads?|trash(?:es)?|recycle|papierkorb"
OF_COPIES = re.compile(rf"(?:^|[\W_])(?:{MADE}|{AWAY})(?:[\W\d_]|$)|{MADE_ATTACHED}", re.IGNORECASE)
MOST_COMPANIONS = 99  # that are counted


def _is_neither(path: Path) -> bool:
    return False


@dataclass(frozen=True)
class KeepSettings:
    """Which picture of a group is kept.

    Attributes:
        keep: "largest": most pixels; "oldest": earliest date taken, or file date where EXIF has none; "folder-order": in the
            first of `folders`.
        preferred: Patterns of paths; files of the first one that any file matches come before the others, whatever the rule.
        folders: Folders in order of preference, for "folder-order".
        is_protected: Whether a file must not be touched.
        is_reference: Whether a file stays because it is a reference; those come before the others, whatever the rule.
        targets: Files that links of the group lead to, by their resolved paths; found where files are sorted.
    """

    keep: KeepRule = "largest"
    preferred: Sequence[str] = ()
    folders: Sequence[Path] = ()
    is_protected: Callable[[Path], bool] = _is_neither
    is_reference: Callable[[Path], bool] = _is_neither
    targets: Collection[Path] = ()


@dataclass(frozen=True)
class Criterion:
    """A reason to keep a file rather than others.

    Attributes:
        key: Of a file; the lowest stays.
        words: The reason, a format of the file that stays, the next one, and the keys of both.
        column: Type of its keys in an array; None where what it needs is not known of millions of files.
    """

    key: Callable[[Facts, KeepSettings], Any]
    words: str
    column: DTypeLike | None = None


def is_rule(word: str) -> bool:
    """Whether a word is a rule, or `path:` and a pattern."""
    return word in KEEP_RULES or (word.startswith(PATH) and word != PATH)


def read_rules(words: Sequence[str]) -> tuple[KeepRule, tuple[str, ...]]:
    """Return the rule and the patterns of paths that come before it: `path:originals/* path:*.png oldest`.

    Raises:
        UserError: One is no rule, or two are not by path.
    """
    if wrong := [word for word in words if not is_rule(word)]:
        known = f"give {', '.join(KEEP_RULES)} or {PATH}PATTERN"
        raise UserError(f"--keep {wrong[0]}: {known}, and folders before --keep.")
    patterns = tuple(word.removeprefix(PATH) for word in words if word.startswith(PATH))
    rules = [word for word in words if not word.startswith(PATH)]
    if len(rules) > 1:
        raise UserError(
            f"--keep {' '.join(rules)}: give one of them; any number of {PATH}PATTERN may come before it."
        )
    rule: KeepRule = KEEP_RULES[KEEP_RULES.index(rules[0])] if rules else "largest"
    return rule, patterns


def find_pattern(path: Path, patterns: Sequence[str]) -> int:
    """Return the number of the first pattern that a path matches; that of patterns if it matches none.

    A pattern is one of a shell, but `*` matches slashes, too; unless it begins with a slash, it may begin at any folder.
    """
    whole = path.as_posix()
    matches = (
        fnmatchcase(whole, pattern if pattern.startswith("/") else f"*/{pattern}") for pattern in patterns
    )
    return next((number for number, matching in enumerate(matches) if matching), len(patterns))


def is_named_as_copy(path: Path) -> bool:
    """Whether a file's name says that it was made of another one, as `IMG_7 (1).jpg` and `IMG_7 - Copy.jpg` do."""
    return MADE_OF_ANOTHER.search(unicodedata.normalize("NFC", path.stem)) is not None


def is_among_copies(path: Path) -> bool:
    """Whether a folder of a file is one of copies by its name, as `Backup` and `Downloads` are."""
    return any(OF_COPIES.search(unicodedata.normalize("NFC", part)) for part in path.parent.parts)


def find_link_targets(files: Iterable[Facts]) -> set[Path]:
    """Return the files to which links among some files lead, by their resolved paths."""
    return {facts.path.resolve() for facts in files if facts.linked}


def _find_preferred(facts: Facts, settings: KeepSettings) -> tuple[int, str]:
    """Return the number of the first pattern that a file matches, and the pattern."""
    patterns = settings.preferred
    place = find_pattern(facts.path, patterns)
    return place, (*patterns, "")[place]


def _find_place(facts: Facts, settings: KeepSettings) -> int:
    """Return the number of the first folder that a file lies in, from 1."""
    places = enumerate(settings.folders, 1)
    around = facts.path, *facts.path.parents
    return next((place for place, folder in places if folder in around), len(settings.folders) + 1)


OLDEST = Criterion(
    lambda facts, _: facts.date,
    "older: {0.described_date}, the next {1.described_date}",
)
IN_ORDER = Criterion(_find_place, "in folder {2} of the order, the next in {3}")
BY_RULE: dict[KeepRule, list[Criterion]] = {"largest": [], "oldest": [OLDEST], "folder-order": [IN_ORDER]}
ASKED = [  # before the rule
    Criterion(
        lambda facts, _: facts.linked or facts.archived,
        "the only file that is neither a link nor inside an archive",
        column=bool,
    ),
    Criterion(lambda facts, settings: not settings.is_reference(facts.path), REFERENCE),
    Criterion(_find_preferred, "its path matches {2[1]}"),
]
CRITERIA = [  # after the rule
    Criterion(
        lambda facts, _: -facts.width * facts.height,
        "largest: {0.width} × {0.height}, the next {1.width} × {1.height}",
        column=np.int64,
    ),
    Criterion(
        lambda facts, _: -facts.frames, "as large, more frames or pages: {0.frames}, the next {1.frames}"
    ),
    Criterion(
        lambda facts, _: -min(len(facts.companions), MOST_COMPANIONS),
        "as large, more files belong to it than to the next",
        column=np.int8,
    ),
    Criterion(lambda facts, _: facts.form == "GIF", "as large, the next is a GIF of at most 256 colours"),
    Criterion(
        lambda facts, _: -facts.size,
        "as large in pixels, more bytes: {0.size:,}, the next {1.size:,}",
        column=np.int64,
    ),
    Criterion(
        lambda facts, settings: not settings.targets or facts.path.resolve() not in settings.targets,
        "all the same, but a link leads to it",
    ),
    Criterion(
        lambda facts, _: not is_in_library(facts.path),
        "all the same, but inside the library of a program",
        column=bool,
    ),
    Criterion(
        lambda facts, _: is_named_as_copy(facts.path),
        "all the same, but {1.name} is named as a copy",
        column=bool,
    ),
    Criterion(
        lambda facts, _: is_among_copies(facts.path),
        "all the same, but the next is in a folder of copies",
        column=np.bool_,
    ),
    OLDEST,
]


def choose_kept(
    members: Sequence[Facts],
    settings: KeepSettings,
    is_sound: Callable[[Path], bool] = lambda path: True,
) -> tuple[Facts, str]:
    """Choose the picture to keep and give the reason in words: the first criterion by which it comes before the next one.

    Damaged files are chosen only if all are.

    Args:
        members: Facts of the group's files, at least one.
        settings: Which one to keep.
        is_sound: Whether a file can be decoded whole; asked until one can.
    """
    ranked = _rank(members, settings)
    keys, best = ranked[0]
    next_keys, second = ranked[min(1, len(ranked) - 1)]
    if (
        len(ranked) > 1
        and (sound := next((facts for _, facts in ranked if is_sound(facts.path)), best)) is not best
    ):
        return sound, f"{best.name}, which comes before it, is damaged"
    for criterion, *both in zip(_list_criteria(settings), keys, next_keys, strict=True):
        if both[0] != both[1]:
            return best, criterion.words.format(best, second, *both)
    return best, FIRST_BY_PATH


def sort_files(members: Sequence[Facts], settings: KeepSettings = KeepSettings()) -> list[Facts]:
    """Sort files, those to keep first."""
    return [facts for _, facts in _rank(members, settings)]


def _rank(members: Sequence[Facts], settings: KeepSettings) -> list[tuple[list[Any], Facts]]:
    """Return the files, each with its keys, those to keep first."""
    settings = replace(settings, targets=find_link_targets(members))
    criteria = _list_criteria(settings)
    ranked = [([criterion.key(facts, settings) for criterion in criteria], facts) for facts in members]
    return sorted(ranked, key=lambda keyed: (keyed[0], keyed[1].path))


def _list_criteria(settings: KeepSettings) -> list[Criterion]:
    return [*ASKED, *BY_RULE[settings.keep], *CRITERIA]
