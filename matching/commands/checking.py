"""match.py's --check: every byte of an index is read and compared with its checksums."""

from pathlib import Path

from image_copies.matching.index.store import check_vectors, open_known_store
from image_copies.matching.output import Output
from image_copies.submissions.search.index_files import check_files


def check_bytes(index: Path, output: Output) -> int:
    """Read an index and report its damaged files; return the exit code, 1 where there are any.

    Raises:
        UserError: there is no index, or its database is damaged.
    """
    with open_known_store(index) as store:
        vectors = check_vectors(store)
    files, damaged = check_files(index)
    output.record("check", {"vectors": vectors, "files": files, "damaged": damaged})
    for path in damaged:
        output.say(f"{path} is damaged: the next search writes it again from the database")
    output.say(f"{index}: {vectors:,} vectors in the database and {files} files read, {len(damaged)} damaged")
    return 1 if damaged else 0
