"""Lists of PDQ hashes, as trust and safety teams share them: which of them a picture matches, at the distance PDQ states."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.commands import name_install
from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError, UserError
from image_copies.data.sources.walking import known_path

from .matches import Match
from .verification.judgement import MAX_LIKELY, Judgement

BITS = 256
# bits of 256, and quality 0…100 of both, that PDQ's authors state for a match
MAX_DISTANCE, MIN_QUALITY = 31, 50
HASH = re.compile(r"\b[0-9a-fA-F]{64}\b")
REMEDY = "Such a list is a CSV file with 64 hexadecimal digits in each line; a first one may name columns: id,hash,quality."


@dataclass(frozen=True)
class HashLists:
    """The hashes of lists, by their names: the list and its entry's `id`, or the number of its line; words are uint64 [n, 4].

    `skipped` counts the other entries: without a whole hash, of low quality, or of another kind of hash.
    """

    names: Sequence[Path] = ()
    words: NDArray[np.uint64] = field(default_factory=lambda: np.zeros((0, 4), np.uint64))
    skipped: int = 0

    def find(self, picture: Path) -> list[Match]:
        """Return the hashes that a picture matches, the nearest first; likely copies at best, as nobody has their pictures."""
        try:
            bits, quality = _load_pdq().compute(decode_rgb(picture))
        except ImageError:
            return []
        words = np.packbits(bits.astype(bool)).view(np.uint64)
        apart = np.bitwise_count(self.words ^ words).sum(axis=1, dtype=np.int64)
        near = np.flatnonzero(apart <= (MAX_DISTANCE if quality >= MIN_QUALITY else -1))
        nearest = near[np.argsort(apart[near], kind="stable")].tolist()
        return [_make_match(picture, self.names[row], int(apart[row])) for row in nearest]


def is_hash_list(source: Path) -> bool:
    """Whether a source of references is a list of hashes, by its ending."""
    return source.suffix.lower() == ".csv"


def read_hash_lists(lists: Sequence[Path]) -> HashLists:
    """Read CSV files with a column of PDQ hashes; of entries with a `quality`, or a type of signal, those that PDQ can match.

    Raises:
        UserError: A file cannot be read or holds no such hash, or pdqhash is not installed.
    """
    names = list[Path]()
    digits = list[str]()
    skipped = 0
    for path in lists:
        try:
            entries = list(_read_entries(path))
        except (OSError, ValueError, csv.Error) as error:
            problem = getattr(error, "strerror", None) or error
            raise UserError(f"{path} cannot be read as a list of hashes ({problem}). {REMEDY}") from error
        found = [(name, own) for name, own, quality in entries if own and quality >= MIN_QUALITY]
        if not found:
            raise UserError(f"{path} holds no PDQ hash of quality {MIN_QUALITY} or more. {REMEDY}")
        skipped += len(entries) - len(found)
        names += [Path(f"{known_path(path)}/{name}") for name, _ in found]
        digits += [own for _, own in found]
    if not lists:
        return HashLists()
    _load_pdq()
    return HashLists(
        names, np.frombuffer(bytes.fromhex("".join(digits)), np.uint64).reshape(-1, 4), skipped
    )


def _read_entries(path: Path) -> Iterator[tuple[str, str, float]]:
    """Yield the name, the hash and the quality of every entry; "" for no PDQ hash. Without a header only hashes are known."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        file.seek(0)
        separator = max(",;\t", key=first.count)
        header = None if HASH.search(first) is None else [""]
        lines = csv.DictReader(file, header, delimiter=separator, restval="")
        for cells in lines:
            entry = {name.strip().lower(): cell for name, cell in cells.items() if name is not None}
            digits = next((cell.strip() for cell in entry.values() if HASH.fullmatch(cell.strip())), "")
            line = str(lines.line_num)
            # lists of ThreatExchange hold other hashes, too
            kind = entry.get("signal_type") or entry.get("type") or "pdq"
            try:
                quality = float(entry.get("quality") or 100)
            except ValueError as error:
                raise ValueError(f"line {line}: {error}; a quality is a number from 0 to 100") from error
            yield entry.get("id") or line, digits if "pdq" in kind.lower() else "", quality


def _make_match(query: Path, reference: Path, apart: int) -> Match:
    said = f"its PDQ hash is that of a list but for {apart} of {BITS} bits"
    # −‖q − r‖² of the hashes as vectors of unit length; 0 would be the same bytes
    score = -max(apart, 0.5) / (BITS / 4)
    return Match(query, reference, score, None, judgement=Judgement("likely", said, MAX_LIKELY - apart))


@cache
def _load_pdq() -> Any:
    try:
        import pdqhash  # imported here: an extra
    except ImportError as error:
        raise UserError(f"Lists of PDQ hashes need the package pdqhash: {name_install('pdq')}") from error
    return pdqhash
