"""Find the pictures in folders, archives and lists of files; everything skipped is counted by reason."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from image_copies.data.archives import is_archive, list_archive, read_bytes
from image_copies.data.errors import StorageError, UserError
from image_copies.data.files import describe_no_folder, is_file, is_folder, open_regular
from image_copies.data.formats import IMAGE_ENDINGS, SIGNATURE_BYTES, detect_format
from image_copies.data.images import ImageSet
from image_copies.data.remote import RemotePath, as_path

NOT_A_PICTURE, CANNOT_BE_OPENED = "not a picture", "cannot be opened"


@dataclass(frozen=True)
class Discovered:
    """The pictures that `discover` found, and what it skipped."""

    paths: list[Path]  # absolute paths of the pictures, without duplicates; archive members as `archive.zip/name/inside.jpg`
    skipped: dict[str, list[Path]] = field(default_factory=dict)  # by reason

    def images(self) -> ImageSet:
        """Return the pictures as an image set whose ids are the paths."""
        return ImageSet([str(path) for path in self.paths], self.paths)


def discover(sources: Sequence[Path], excluded: Sequence[Path] = ()) -> Discovered:
    """Find the pictures in each source: a folder with everything below it, an archive, one file, or `@list.txt`.

    A picture is recognised by its extension or, failing that, by its first bytes. Links to folders are not followed, and
    `excluded` folders, such as the one that results are written to, are skipped. A list holds one source per line; lines that
    begin with # are comments.

    Raises:
        UserError: a source does not exist or contains no picture, or a list cannot be read or is empty.
    """
    found: dict[Path, None] = {}
    skipped: dict[str, list[Path]] = {}
    skipped_folders = {os.path.realpath(folder) for folder in excluded}
    for source in expand_sources(sources):
        seen = 0
        for path, reason in _walk(source, skipped_folders):
            if reason is None:
                found[path] = None
                seen += 1
            else:
                skipped.setdefault(reason, []).append(path)
        if not seen:
            raise UserError(_describe_empty_source(source, skipped))
    return Discovered(list(found), skipped)


def expand_sources(sources: Iterable[Path]) -> Iterator[Path]:
    """Yield the sources, with each `@list.txt` replaced by the sources that it names, relative to its folder.

    Raises:
        UserError: a list cannot be read or is empty.
    """
    for source in sources:
        if not os.fspath(source).startswith("@"):
            yield source
            continue
        listing, named = as_path(Path(os.fspath(source)[1:])), 0
        try:
            with open_regular(listing) as file:
                for line in file:  # of millions, perhaps; names may hold other line breaks
                    name = os.fsdecode(line).rstrip("\n").rstrip("\r")
                    if name.strip() and not name.startswith("#"):
                        named += 1
                        yield place if isinstance(place := as_path(name), RemotePath) else listing.parent / name
        except OSError as error:
            raise UserError(f"the list {listing} cannot be read ({error.strerror or error}).") from error
        if not named:
            raise UserError(f"the list {listing} names nothing: write one file or folder per line.")


def format_skipped_counts(skipped: dict[str, list[Path]]) -> str:
    """Return "3 not a picture, 1 hidden": the number of paths per reason, largest first; "" if nothing was skipped."""
    ordered = sorted(skipped.items(), key=lambda item: (-len(item[1]), item[0]))
    return ", ".join(f"{len(paths)} {reason}" for reason, paths in ordered)


def _describe_empty_source(source: Path, skipped: dict[str, list[Path]]) -> str:
    endings = " ".join(sorted(IMAGE_ENDINGS))
    counts = format_skipped_counts(
        {reason: below for reason, paths in skipped.items() if (below := _select_below(source, paths))}
    )
    return f"{source} holds no image (looked for {endings}, in subfolders too" + (f"; found: {counts})." if counts else ").")


def _select_below(source: Path, paths: list[Path]) -> list[Path]:
    real = source if isinstance(source, RemotePath) else Path(os.path.realpath(source))
    return [path for path in paths if path == real or real in path.parents]


def _walk(source: Path, excluded: set[str]) -> Iterator[tuple[Path, str | None]]:
    """Yield (path, None) for every picture and (path, reason) for every file that is skipped."""
    if isinstance(source, RemotePath):
        yield from _walk_store(source)
        return
    if is_file(source):
        path = Path(os.path.realpath(source.parent)) / source.name
        if is_archive(path):
            list_archive(path)  # one that is named and cannot be read is an error, which says why
            yield from _walk_members(path)
        else:
            yield path, _find_skip_reason(path)
        return
    if not is_folder(source):
        raise UserError(f"{describe_no_folder(source)}. Name a folder that holds images, an archive, a picture or @list.txt.")
    unreadable: list[OSError] = []
    for folder, below, names in os.walk(os.path.realpath(source), onerror=unreadable.append):
        below[:] = sorted(name for name in below if os.path.join(folder, name) not in excluded)  # noqa: PTH118
        for name in sorted(names):
            path = Path(folder, name)
            if name.startswith("."):
                yield path, "hidden"
            elif is_archive(path) and is_file(path):
                yield from _walk_members(path)
            else:
                yield path, _find_skip_reason(path)
    yield from ((Path(error.filename), "a folder that cannot be opened") for error in unreadable)


def _walk_store(source: RemotePath) -> Iterator[tuple[Path, str | None]]:
    files = source.list_files()
    if not files:
        raise UserError(f"{source} is neither a folder nor a file. Name a folder that holds images, an archive or a picture.")
    for path in files:
        if path.name.startswith("."):
            yield path, "hidden"
        elif is_archive(path):
            yield from _walk_members(path)
        else:
            yield path, _find_skip_reason(path)


def _find_skip_reason(path: Path) -> str | None:
    try:
        if not path.is_file():
            return "a broken link" if path.is_symlink() else "no regular file"
    except OSError:
        return CANNOT_BE_OPENED  # in a folder whose names can be read, but nothing else
    return _look_inside(path)


def _walk_members(archive: Path) -> Iterator[tuple[Path, str | None]]:
    try:
        listing = list_archive(archive)
    except StorageError:
        raise
    except UserError:
        yield archive, "an archive that cannot be read"
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
            yield path, _look_inside(path)


def _look_inside(path: Path) -> str | None:
    """Return why a file or an archive's member is no picture, by its extension or its first bytes; None if it is one."""
    if path.suffix.lower() in IMAGE_ENDINGS:
        return None
    try:
        return None if detect_format(read_bytes(path, SIGNATURE_BYTES)) else NOT_A_PICTURE
    except StorageError:
        raise
    except (OSError, UserError):
        return CANNOT_BE_OPENED
