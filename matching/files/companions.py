"""Files that belong to a picture and go where it goes: notes and edits, the film of a Live Photo, the RAW file of a JPEG."""

import os
import re
from collections import defaultdict
from functools import lru_cache
from pathlib import Path, PurePath

from image_copies.data.formats import IMAGE_ENDINGS
from image_copies.data.remote import is_remote

_RAW = ".3fr .arw .cr2 .cr3 .dng .erf .iiq .kdc .mef .mos .mrw .nef .nrw .orf .pef .raf .raw .rw2 .rwl .sr2 .srf .srw .x3f"
RAW_ENDINGS = frozenset(_RAW.split())
LIBRARIES = frozenset({".git", "@eaDir", "iPhoto Library"})
LIBRARY_ENDINGS = frozenset(
    [".photoslibrary", ".photolibrary", ".aplibrary", ".lrdata", ".lrlibrary", ".cocatalog", ".app"]
)
NUMBERED = re.compile(r"\(\d+\)$")
# of a shot of Pixel phones: X.RAW-01.COVER.jpg, X.RAW-02.ORIGINAL.dng
PARTS = re.compile(r"\.RAW-\d+(?:\.MP)?\.(?:COVER|ORIGINAL)$", re.IGNORECASE)
EDITED_WORDS = "edited|edit|bearbeitet|modifié|editad[ao]|modificato|bewerkt"
EDITED = re.compile(rf"-(?:{EDITED_WORDS})(?=\(\d+\)$|$)")
# darktable's further ones: IMG_1_01.jpg.xmp of IMG_1.jpg
DEVELOPMENT = re.compile(r"_\d\d(?=\.[^.]+\.xmp$)", re.IGNORECASE)
# Apple's IMG_E1 is the edited IMG_1, IMG_O1.AAE says how
LETTER = re.compile(r"(?<=^IMG_)[EO](?=\d)", re.IGNORECASE)
LONGEST_NOTED = 46  # characters of a picture's name to which Google Takeout cuts it for the notes
MAX_LISTED_FOLDERS = 64  # folders whose names are kept


def is_raw(path: Path) -> bool:
    """Whether a file is a camera's RAW file, of which a decoder sees no more than a small preview."""
    return path.suffix.lower() in RAW_ENDINGS


def is_in_library(path: Path) -> bool:
    """Whether a file lies in a folder that a program keeps for itself, and would miss it."""
    return any(
        part in LIBRARIES or PurePath(part).suffix.lower() in LIBRARY_ENDINGS for part in path.parts[:-1]
    )


def find_companions(picture: Path) -> tuple[str, ...]:
    """Return the names of the files next to a picture that belong to it: IMG_1.xmp and IMG_1.jpg.json to IMG_1.jpg.

    Where several pictures have the same stem, IMG_1.xmp belongs to none of them alone, and stays. Of a member of an archive, or a
    file on an object store, none are known.
    """
    if is_remote(picture):
        return ()
    try:
        listed = _list_names(picture.parent, picture.parent.stat().st_mtime_ns)
    except OSError:
        return ()
    names = [name for name in listed.get(_first_part(picture.name), []) if name != picture.name]
    owned = _list_of_shot(names, picture)
    begin = f"{picture.name}.".lower()
    for name in names:
        stem = _stem(name)
        if name.lower().startswith(begin):
            belongs = not NUMBERED.search(stem)
        else:
            developed = DEVELOPMENT.sub("", name).lower().startswith(begin)
            belongs = developed and not picture.with_name(stem).exists()
        if belongs or name == picture.stem:  # PXL_1.MP to PXL_1.MP.jpg
            owned.add(name)
    files = [name for name in names if name in owned and _ending(name) not in IMAGE_ENDINGS - RAW_ENDINGS]
    return (*files, *_find_notes(picture, listed))


def _list_of_shot(names: list[str], picture: Path) -> set[str]:
    """Return the names that a camera may have given together with a picture's, in any case; none that another picture shares."""
    ways = _name_shot, lambda name: _name_shot(name).lower(), lambda name: LETTER.sub("", _name_shot(name))
    groups = [{name for name in names if way(name) == way(picture.name)} for way in ways]
    shared = [group for group in groups if not any(_ending(name) in IMAGE_ENDINGS for name in group)]
    return set[str]().union(*shared)


def _find_notes(picture: Path, listed: dict[str, list[str]]) -> tuple[str, ...]:
    """Return the notes of a picture under other names that Google Takeout gives them.

    IMG_1.jpg(2).json belongs to IMG_1(2).jpg, IMG_1.jpg.json to IMG_1-edited.jpg where IMG_1.jpg is not there, and a name that is
    cut to that of the only picture that begins so.
    """
    cut = picture.name[:LONGEST_NOTED]
    owner = EDITED.sub("", picture.stem)
    if cut != picture.name:
        begun = [name for names in listed.values() for name in names if name.startswith(cut)]
        alone = sum(_ending(name) in IMAGE_ENDINGS for name in begun) == 1
        return tuple(name for name in begun if alone and name == f"{cut}.json")
    if owner + picture.suffix in listed.get(_first_part(owner), ()) and owner != picture.stem:
        return ()
    number = _find_number(owner)
    name = owner.removesuffix(number) + picture.suffix
    return tuple(
        each
        for each in listed.get(_first_part(name), ())
        if name != picture.name
        and each.startswith(name)
        and _ending(each) == ".json"
        and _find_number(_stem(each)) == number
    )


def find_pictures(raw: Path) -> list[str]:
    """Return the names of the pictures next to a RAW file that a camera wrote together with it."""
    try:
        names = _list_names(raw.parent, raw.parent.stat().st_mtime_ns)[_first_part(raw.name)]
    except OSError:
        return []
    return [
        name
        for name in names
        if _name_shot(name) == _name_shot(raw.name) and _ending(name) in IMAGE_ENDINGS
    ]


@lru_cache(MAX_LISTED_FOLDERS)
def _list_names(folder: Path, changed: int) -> dict[str, list[str]]:
    """Return the names in a folder, as it was when it was last changed, by the part before the first dot, in lower case."""
    names = defaultdict(list)
    with os.scandir(folder) as entries:
        for name in sorted(entry.name for entry in entries if not entry.is_dir()):
            for first in {_first_part(name), _first_part(DEVELOPMENT.sub("", name))}:
                names[first].append(name)
    return names


def _name_shot(name: str) -> str:
    """Return the name that a camera gives to all files of a shot, but for the ending."""
    return PARTS.sub("", _stem(name))


def _find_number(stem: str) -> str:
    found = NUMBERED.search(stem)
    return found[0] if found else ""


def _first_part(name: str) -> str:
    return LETTER.sub("", name.partition(".")[0]).lower()


def _stem(name: str) -> str:
    return PurePath(name).stem


def _ending(name: str) -> str:
    return PurePath(name).suffix.lower()
