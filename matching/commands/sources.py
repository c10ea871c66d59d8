"""Where match.py's pictures come from: folders, archives, files and lists, and what they hold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from image_copies.data.sources.discovery import discover, format_skipped_counts
from image_copies.data.sources.walking import expand_sources, known_path
from image_copies.data.targets import check_target_folder
from image_copies.submissions.report.inputs import check_output_folder

from .. import results
from ..hash_lists import HashLists, is_hash_list, read_hash_lists
from ..output import Output


@dataclass(frozen=True)
class Pictures:
    """The pictures of a search, all of them found before anything is embedded.

    Attributes:
        queries: Files that may be copies.
        references: Files that may have been copied; None to look for copies among the queries.
        sources: The folders and files that are searched, as the index knows them.
        read_only: Those in which nothing is changed, nor planned to be; they are searched only if they are sources, too.
        hashes: PDQ hashes of pictures that may have been copied.
    """

    queries: Sequence[Path]
    references: Sequence[Path] | None = None
    sources: Sequence[Path] = ()
    read_only: Sequence[Path] = ()
    hashes: HashLists = field(default_factory=HashLists)

    @cached_property
    def is_protected(self) -> Callable[[Path], bool]:
        """Tells whether a file must not be touched."""
        return results.check_within(self.read_only)

    @cached_property
    def is_reference(self) -> Callable[[Path], bool]:
        """Tells whether a file was searched, or was in the index that was searched."""
        references, queries = set(self.references or ()), set(self.queries)
        return lambda path: path in references or path not in queries

    @property
    def held(self) -> Sequence[Path]:
        """Those among which copies are looked for."""
        return self.queries if self.references is None else self.references

    @property
    def paths(self) -> list[Path]:
        """All of them."""
        return [*self.queries, *(self.references or ())]


def find_pictures(
    queries: Sequence[Path],
    references: Sequence[Path],
    read_only: Sequence[Path],
    folder: Path,
    output: Output,
) -> Pictures:
    """Find the pictures of all sources, except those in the results' own folder, and say what was skipped.

    A source is a folder, an archive, a file or `@list.txt`; a reference may be a list of hashes, too.

    Raises:
        UserError: A source is missing or holds no picture, or the results would overwrite a folder that is not theirs.
    """
    check_target_folder(folder, "--output", (results.SEARCH, results.LOCK), results.WRITTEN)
    for page in results.PAGES:
        check_output_folder(folder / page, "--output")
    guarded = results.find_read_only(read_only)
    results.refuse_within(folder, guarded, "--output")
    lists = list(filter(is_hash_list, references))
    folders = [source for source in references if source not in lists]
    found = look_in(queries, folder, output)
    held = None
    if references:
        held = look_in(folders, folder, output) if folders else []
    sources = list(map(known_path, expand_sources([*queries, *folders])))
    return Pictures(found, held, sources, guarded, read_hash_lists(lists))


def look_in(named: Sequence[Path], folder: Path, output: Output) -> list[Path]:
    """Find the pictures of some sources, except those in a folder of results, and say what was skipped.

    Raises:
        UserError: A source is missing or holds no picture.
    """
    found = discover(named, excluded=[folder / name for name in results.PASSED_OVER])
    if found.skipped:
        output.say(f"passed over: {format_skipped_counts(found.skipped)}")
    output.record("skipped", {reason: len(paths) for reason, paths in found.skipped.items()})
    return found.paths
