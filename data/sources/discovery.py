"""Find the pictures in folders, archives and lists of files; everything skipped is counted by reason."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from ..errors import StorageError, UserError
from ..files import is_file, is_folder
from ..formats import IMAGE_ENDINGS, SIGNATURE_BYTES, detect_format
from ..images import ImageSet
from .archives import is_archive, list_archive, read_bytes
from .walking import expand_sources, find_files, known_path

NOT_A_PICTURE, CANNOT_BE_OPENED, DAMAGED_ARCHIVE = (
    "not a picture",
    "cannot be opened",
    "an archive that cannot be read",
)
SET_ASIDE = "a folder of removed files or of a gallery"


@dataclass(frozen=True)
class Discovered:
    """The pictures that `discover` found, and what it skipped."""

    # absolute paths of the pictures, without duplicates; archive members as `archive.zip/name/inside.jpg`
    paths: list[Path]
    skipped: dict[str, list[Path]] = field(default_factory=dict)  # by reason

    def images(self) -> ImageSet:
        """Return the pictures as an image set whose ids are the paths."""
        return ImageSet([str(path) for path in self.paths], self.paths)


def discover(sources: Sequence[Path], excluded: Sequence[Path] = ()) -> Discovered:
    """Find the pictures in each source: a folder with everything below it, an archive, one file, or `@list.txt`.

    A picture is recognised by its extension or, failing that, by its first bytes. Links to folders are not followed. Trashes,
    galleries and what a plan moved are passed over, unless they are named, as are `excluded` folders. A list holds one source per
    line; lines that begin with # are comments.

    Raises:
        UserError: a source does not exist or contains no picture, or a list cannot be read or is empty.
    """
    found, skipped = dict[Path, None](), dict[str, list[Path]]()
    skipped_folders = {str(known_path(folder)) for folder in excluded}
    for source in expand_sources(sources):
        seen, passed, failed, aside, is_named = (
            0,
            dict[str, list[Path]](),
            list[OSError](),
            list[Path](),
            not is_folder(source),
        )
        if is_named and is_archive(source) and is_file(source):
            list_archive(source)  # one that cannot be read is an error, which says why
        paths = find_files(source, skipped_folders, failed=failed, aside=aside)
        looked = chain.from_iterable(
            look(path) if is_named or path.name[:1] != "." else [(path, "hidden")] for path in paths
        )
        closed = ((Path(error.filename), "a folder that cannot be opened") for error in failed)
        for path, reason in chain(looked, closed, ((folder, SET_ASIDE) for folder in aside)):
            if reason is None:
                found[path] = None
                seen += 1
            else:
                passed.setdefault(reason, []).append(path)
        if not seen:
            endings = " ".join(sorted(IMAGE_ENDINGS))
            counts = format_skipped_counts(passed)
            also = f"; found: {counts}" if counts else ""
            raise UserError(f"{source} holds no image (looked for {endings}, in subfolders too{also}).")
        for reason, below in passed.items():
            skipped.setdefault(reason, []).extend(below)
    return Discovered(list(found), skipped)


def format_skipped_counts(skipped: dict[str, list[Path]]) -> str:
    """Return "3 not a picture, 1 hidden": the number of paths per reason, largest first; "" if nothing was skipped."""
    ordered = sorted(skipped.items(), key=lambda item: (-len(item[1]), item[0]))
    return ", ".join(f"{len(paths)} {reason}" for reason, paths in ordered)


def look(path: Path, any_ending: bool = True) -> Iterator[tuple[Path, str | None]]:
    """Yield (path, None) for a picture and each picture in an archive, and (path, reason) for what is skipped.

    A file that has an ending, but none of a picture's, is opened with `any_ending` only: that takes time for millions.
    """
    if is_archive(path) and is_file(path):
        yield from _look_at_members(path, any_ending)
    else:
        yield path, _find_skip_reason(path, any_ending)


def _find_skip_reason(path: Path, any_ending: bool) -> str | None:
    try:
        if not path.is_file():
            return "a broken link" if path.is_symlink() else "no regular file"
    except OSError:
        return CANNOT_BE_OPENED  # in a folder whose names can be read, but nothing else
    return _look_inside(path, any_ending)


def _look_at_members(archive: Path, any_ending: bool) -> Iterator[tuple[Path, str | None]]:
    try:
        listing = list_archive(archive)
    except StorageError:
        raise
    except UserError:
        yield archive, DAMAGED_ARCHIVE
        return
    for reason, names in listing.refused.items():
        yield from ((archive, reason) for _ in names)
    for name in listing.members:
        path = archive / name
        if path.name.startswith("."):
            yield path, "hidden"
        elif is_archive(path):
            yield path, "an archive within an archive"
        else:
            yield path, _look_inside(path, any_ending)


def _look_inside(path: Path, any_ending: bool) -> str | None:
    """Return why a file or an archive's member is no picture, by its extension or its first bytes; None if it is one."""
    if path.suffix.lower() in IMAGE_ENDINGS:
        return None
    if path.suffix and not any_ending:
        return NOT_A_PICTURE
    try:
        return None if detect_format(read_bytes(path, SIGNATURE_BYTES)) else NOT_A_PICTURE
    except StorageError:
        raise
    except (OSError, UserError):
        return CANNOT_BE_OPENED
