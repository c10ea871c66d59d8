"""The choice of the picture of a group to keep, with the reason."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from image_copies.data.errors import UserError
from image_copies.data.names import text_of
from image_copies.matching.files.companions import is_in_library
from image_copies.matching.files.facts import Facts

REFERENCE = "a reference"  # the reason to keep one
KeepRule = Literal["largest", "oldest", "folder-order"]
KEEP_RULES: tuple[KeepRule, ...] = get_args(KeepRule)
PATH = "path:"  # begins a rule by path
# what file managers and galleries call what they make of a file: "a (1)", "a - Copy (2)", "Kopie von a", "aのコピー", "a-edited"
MADE = r"copy|copie|c[oòó]pia|kopi[aeio]?|kópia|kopya|копия|копія|edited|edit|bearbeitet|modifié|editad[ao]|modificato|bewerkt"
MADE_ATTACHED = r"コピー|副本|拷贝|複製|복사본|編集済み|已编辑|수정됨"  # in scripts that leave no gap
MADE_OF_ANOTHER = re.compile(
    rf"\(\d+\)$|^(?:{MADE}|{MADE_ATTACHED})(?:[\W_]|$)|(?:[\W_](?:{MADE})|{MADE_ATTACHED})[\W_]*\d*\W*$", re.IGNORECASE
)


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
    """

    keep: KeepRule = "largest"
    preferred: Sequence[str] = ()
    folders: Sequence[Path] = ()
    is_protected: Callable[[Path], bool] = _is_neither
    is_reference: Callable[[Path], bool] = _is_neither


def is_rule(word: str) -> bool:
    """Whether a word is a rule, or `path:` and a pattern."""
    return word in KEEP_RULES or (word.startswith(PATH) and word != PATH)


def read_rules(words: Sequence[str]) -> tuple[KeepRule, tuple[str, ...]]:
    """Return the rule and the patterns of paths that come before it: `path:originals/* path:*.png oldest`.

    Raises:
        UserError: two rules are not by path.
    """
    patterns = tuple(word.removeprefix(PATH) for word in words if word.startswith(PATH))
    rules = [word for word in words if not word.startswith(PATH)]
    if len(rules) > 1:
        raise UserError(f"--keep {' '.join(rules)}: give one of them; any number of {PATH}PATTERN may come before it.")
    rule: KeepRule = KEEP_RULES[KEEP_RULES.index(rules[0])] if rules else "largest"
    return rule, patterns


def find_pattern(path: Path, patterns: Sequence[str]) -> int:
    """Return the number of the first pattern that a path matches; that of patterns if it matches none.

    A pattern is one of a shell, but `*` matches slashes, too; unless it begins with a slash, it may begin at any folder.
    """
    whole = path.as_posix()
    matches = (fnmatchcase(whole, pattern if pattern.startswith("/") else f"*/{pattern}") for pattern in patterns)
    return next((number for number, matching in enumerate(matches) if matching), len(patterns))


def choose_kept(
    members: Sequence[Facts], settings: KeepSettings, is_sound: Callable[[Path], bool] = lambda path: True
) -> tuple[Facts, str]:
    """Choose the picture to keep and give the reason in words.

    Ties are broken by pixels, frames, companions, bytes, EXIF entries, names that say that a file was made of another one, date,
    and finally by path. Links and members of archives are chosen only if the group contains nothing else, damaged files only if
    all are.

    Args:
        members: Facts of the group's files, at least one.
        settings: Which one to keep.
        is_sound: Whether a file can be decoded whole; asked until one can.
    """
    ordered = sort_files(members, settings)
    if len(ordered) > 1 and (sound := next((facts for facts in ordered if is_sound(facts.path)), ordered[0])) != ordered[0]:
        return sound, f"{text_of(ordered[0].path.name)}, which comes before it, is damaged"
    if settings.is_reference(ordered[0].path):
        return ordered[0], REFERENCE
    if (place := find_pattern(ordered[0].path, settings.preferred)) < len(settings.preferred):
        return ordered[0], f"its path matches {settings.preferred[place]}"
    return ordered[0], _explain_choice(ordered, settings.keep, settings.folders, find_link_targets(members))


def sort_files(members: Sequence[Facts], settings: KeepSettings) -> list[Facts]:
    """Sort files, those to keep first; without links and members of archives where there is anything else."""
    real = [facts for facts in members if not facts.linked and not facts.archived] or list(members)
    make_size_key = partial(_make_size_key, targets=find_link_targets(members))
    orders: dict[KeepRule, Callable[[Facts], Any]] = {
        "largest": make_size_key,
        "oldest": lambda facts: (_get_date(facts), make_size_key(facts)),
        "folder-order": lambda facts: (_find_place(facts.path, settings.folders), make_size_key(facts)),
    }

    def make_key(facts: Facts) -> Any:
        first = not settings.is_reference(facts.path), find_pattern(facts.path, settings.preferred)
        return *first, orders[settings.keep](facts), facts.path

    return sorted(real, key=make_key)


def find_link_targets(files: Iterable[Facts]) -> set[Path]:
    """Return the files to which links among some files lead, by their resolved paths."""
    return {facts.path.resolve() for facts in files if facts.linked}


def order_by_size(members: Iterable[Facts]) -> list[Facts]:
    """Return files in the order of the rule "largest"."""
    return sorted(members, key=lambda facts: (_make_size_key(facts), facts.path))


def _explain_choice(ordered: list[Facts], rule: KeepRule, folders: Sequence[Path], targets: Collection[Path]) -> str:
    best = ordered[0]
    if len(ordered) == 1:
        return "the only file that is neither a link nor inside an archive"
    second = ordered[1]
    if rule == "oldest" and _get_date(best) != _get_date(second):
        return f"oldest: {_format_date(best)}, the next {_format_date(second)}"
    if rule == "folder-order" and _find_place(best.path, folders) != _find_place(second.path, folders):
        place = _find_place(best.path, folders)
        return f"in folder {place + 1} of the order, the next in {_find_place(second.path, folders) + 1}"
    if best.width * best.height != second.width * second.height:
        return f"largest: {best.width} × {best.height}, the next {second.width} × {second.height}"
    if best.frames != second.frames:
        return f"as large, more frames or pages: {best.frames}, the next {second.frames}"
    if len(best.companions) != len(second.companions):
        return f"as large, more files belong to it: {len(best.companions)}, to the next {len(second.companions)}"
    if best.size != second.size:
        return f"as large in pixels, more bytes: {best.size:,}, the next {second.size:,}"
    if best.tags != second.tags:
        return f"as large, more EXIF entries: {best.tags}, the next {second.tags}"
    if targets and (best.path.resolve() in targets) != (second.path.resolve() in targets):
        return "all the same, but a link leads to it"
    if is_in_library(best.path) != is_in_library(second.path):
        return "all the same, but inside the library of a program"
    if is_named_as_copy(second.path) != is_named_as_copy(best.path):
        return f"all the same, but by its name {text_of(second.path.name)} was made of another file"
    if _get_date(best) != _get_date(second):
        return f"as large, older: {_format_date(best)}, the next {_format_date(second)}"
    return "all the same, first by its path"


def is_named_as_copy(path: Path) -> bool:
    """Whether a file's name says that it was made of another one, as `IMG_7 (1).jpg` and `IMG_7 - Copy.jpg` do."""
    return MADE_OF_ANOTHER.search(unicodedata.normalize("NFC", path.stem)) is not None


def _make_size_key(facts: Facts, targets: Collection[Path] = ()) -> tuple[int, int, int, int, int, bool, bool, bool, str]:
    size = -facts.width * facts.height, -facts.frames, -len(facts.companions), -facts.size, -facts.tags
    guarded = not (targets and facts.path.resolve() in targets), not is_in_library(facts.path)
    return *size, *guarded, is_named_as_copy(facts.path), _get_date(facts)


def _get_date(facts: Facts) -> str:
    """Return the date taken or, where EXIF has none, the file date, as text that sorts by time."""
    return facts.taken or _format_file_date(facts)


def _format_file_date(facts: Facts) -> str:
    return str(datetime.fromtimestamp(facts.modified // 10**9))


def _format_date(facts: Facts) -> str:
    return f"{_get_date(facts)} ({'taken' if facts.taken else 'file date'})"


def _find_place(path: Path, folders: Sequence[Path]) -> int:
    return next((place for place, folder in enumerate(folders) if folder == path or folder in path.parents), len(folders))
