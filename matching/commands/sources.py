"""Where match.py's pictures come from: folders, archives, files and lists, what they hold, and which are protected."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from image_copies.data.errors import UserError
from image_copies.data.files import is_there
from image_copies.data.sources.discovery import Discovered, discover, format_skipped_counts
from image_copies.data.sources.walking import expand_sources, known_path
from image_copies.data.targets import check_target_folder
from image_copies.submissions.report.inputs import check_output_folder

from ..output import Output
from ..results.folder import GALLERY, LEAKAGE_GALLERY, LOCK, MOVED, OWN_INDEX, SEARCH, WRITTEN


@dataclass(frozen=True)
class Sources:
    """Where pictures come from: folders, archives, files or `@list.txt`.

    Attributes:
        queries: Pictures that may be copies; without references, copies are looked for among them.
        references: Pictures that may have been copied.
        read_only: Folders in which nothing is changed, nor planned to be; they are searched only if they are sources, too.
        hash_lists: Lists of PDQ hashes of pictures that may have been copied.
    """

    queries: Sequence[Path]
    references: Sequence[Path] = ()
    read_only: Sequence[Path] = ()
    hash_lists: Sequence[Path] = ()

    @property
    def places(self) -> list[Path]:
        """The folders and files that are searched, as the index knows them."""
        return indexed_sources([*self.queries, *self.references])


@dataclass(frozen=True)
class Pictures:
    """What the sources hold; None where there are no references."""

    sources: Sources
    queries: Discovered
    references: Discovered | None

    @property
    def paths(self) -> list[Path]:
        """All of them."""
        return self.queries.paths + (self.references.paths if self.references else [])


def find_pictures(sources: Sources, folder: Path, output: Output) -> Pictures:
    """Find the pictures of all sources, except those in the results' own folder, and say what was skipped.

    Raises:
        UserError: A source is missing or holds no picture, or the results would overwrite a folder that is not theirs.
    """
    check_target_folder(folder, "--output", (SEARCH, LOCK), WRITTEN)
    for page in (GALLERY, LEAKAGE_GALLERY):
        check_output_folder(folder / page, "--output")
    queries = look_in(sources.queries, folder, output)
    references = None
    if sources.references:
        references = look_in(sources.references, folder, output)
    elif sources.hash_lists:
        references = Discovered([])
    return Pictures(sources, queries, references)


def look_in(named: Sequence[Path], folder: Path, output: Output) -> Discovered:
    """Find the pictures of some sources, except those in a folder of results, and say what was skipped.

    Raises:
        UserError: A source is missing or holds no picture.
    """
    found = discover(named, excluded=[folder / name for name in (GALLERY, LEAKAGE_GALLERY, OWN_INDEX, MOVED)])
    if found.skipped:
        output.say(f"passed over: {format_skipped_counts(found.skipped)}")
    output.record("skipped", {reason: len(paths) for reason, paths in found.skipped.items()})
    return found


def indexed_sources(sources: Sequence[Path]) -> list[Path]:
    """Return the paths of sources as the index knows them, each `@list.txt` replaced by what it names.

    Raises:
        UserError: a list cannot be read or is empty.
    """
    return list(map(known_path, expand_sources(sources)))


def make_protection_check(sources: Sequence[Path]) -> Callable[[Path], bool]:
    """Return a function that tells whether a file is protected: one of `sources`, or below one of them.

    Raises:
        UserError: a source does not exist, or a list cannot be read or is empty.
    """
    guarded = indexed_sources(sources)
    if missing := [path for path in guarded if not is_there(path)]:
        raise UserError(
            f"--read-only {missing[0]}: there is no such file or folder. Name what must never be touched."
        )

    def is_protected(path: Path) -> bool:
        real = known_path(path)  # a plan that a person wrote may lead there through a link
        return any(place == real or place in real.parents for place in guarded)

    return is_protected


def refuse_within(folder: Path, places: Sequence[Path], option: str, why: str = "is read-only") -> None:
    """Refuse to write into one of some places, or below one, in words: `why` follows the place.

    Raises:
        UserError: the folder is there.
    """
    real = known_path(folder)
    for place in map(known_path, places):
        if place == real or place in real.parents:
            raise UserError(f"{option} {folder} is in {place}, which {why}. Name a folder elsewhere.")
