"""What becomes of the pictures that occur in pairs: groups, which picture of each stays, and the class of the others."""

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Container
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from image_copies.data.errors import ImageError, StorageError, UserError
from image_copies.data.files import read_json, write_text
from image_copies.data.remote import map_files
from image_copies.data.shards import Place, ShardWork, hold, run_shards
from image_copies.data.sources.containers import Rereader, is_loose, name_picture
from image_copies.data.sources.tables import is_parquet
from image_copies.matching.dedup.collection import Collection, Numbers, list_names
from image_copies.matching.files.companions import find_companions, is_in_library
from image_copies.matching.files.facts import Facts, picture_facts
from image_copies.matching.files.integrity import is_intact
from image_copies.matching.files.keeping import CRITERIA, Choice
from image_copies.matching.files.plan import PlanRow
from image_copies.matching.groups.components import group_components, label_components, pack_pairs
from image_copies.matching.groups.group_plan import plan_around
from image_copies.matching.index.store import digest_of
from image_copies.matching.knowledge import Knowledge
from image_copies.matching.pairs import PairJudge
from image_copies.matching.verification.judgement import Kind

NOT_JUDGED = "not judged"
LAST_SEEN = 32  # pictures of which the pixels are kept
DAMAGED = "the picture that would stay is damaged"
PAIRS_PER_JOB = 64
LIBRARY, REAL, LINKED, ROW, ARCHIVED = range(5)  # where a picture lies: what may stay for what, those of lower numbers first
# A picture that might go: its number, that of the picture that it is compared with (which stays, or has the same bytes), its
# group's, from 1, the smallest squared distance by which it came into the group, and whether the bytes are equal and no other
# files belong to it.
CANDIDATE = np.dtype([("number", "<i8"), ("kept", "<i8"), ("group", "<i8"), ("distance", "<f8"), ("same", "?")])
Candidates = NDArray[np.void]  # of type CANDIDATE
Pairs = list[tuple[int, int]]  # numbers of a candidate and of the picture that it is compared with


@dataclass(frozen=True)
class PairVerdict:
    """What a picture is to the one that would stay instead of it.

    Attributes:
        kind: The class of the two.
        reason: Why.
        certainty: How sure that is, 0…100.
        missed: Whether a copy is to be looked at all the same, such as one that has, or may have, something that the other lacks.
    """

    kind: Kind | str
    reason: str
    certainty: int
    missed: bool = False


class PairPlanner:
    """Plans pairs of pictures; of those that were looked at last, much is known."""

    def __init__(self) -> None:
        self._facts: dict[Path, Facts] = {}
        self._digests: dict[Path, bytes] = {}
        self._known = Knowledge(self._digests, self._facts, {}, lambda one, other: 0.0, judge=PairJudge(LAST_SEEN))

    def plan(self, file: Path, kept: Path, leaked: bool) -> PairVerdict:
        """Return whether a picture may go for one that stays; `leaked`: whatever it has that the other lacks.

        Raises:
            UserError: One of them cannot be read.
        """
        rows = [self._describe(path, kept) for path in (kept, file)]
        if leaked:
            known = self._known.of(kept, file).judgement
            return PairVerdict(known.kind, known.reason, known.certainty)
        row = plan_around(rows, kept, "", self._known, name_originals=False)[1]
        judgement = row.judgement or replace(self._known.of(kept, file).judgement, reason=row.reason)
        if row.action == "remove" and not is_intact(kept):
            return PairVerdict(judgement.kind, f"{judgement.reason}, but {DAMAGED}", judgement.certainty, True)
        if judgement.is_certain and row.action != "remove":
            return PairVerdict(judgement.kind, row.reason, judgement.certainty, True)
        return PairVerdict(judgement.kind, judgement.reason, judgement.certainty)

    def _describe(self, path: Path, kept: Path) -> PlanRow:
        """Return the row of a picture, which may be a link, or lie in an archive: what may stay for what is decided before."""
        if path not in self._facts:
            self._digests[path] = digest_of(path)
            self._facts[path] = replace(picture_facts(path), linked=False, archived=False)
        return PlanRow(1, "leave", path, kept, facts=self._facts[path], sha256=self._digests[path].hex())


@dataclass(frozen=True)
class Judging:
    """How pairs of pictures are judged.

    Attributes:
        collection: The pictures.
        folder: Of the judgements that are done.
        column: Of Parquet inputs.
    """

    collection: Collection
    folder: Path
    column: str

    def judge(self, pairs: Pairs, place: Place) -> None:
        """Judge the pairs of a job and write its file."""
        numbers = np.unique(np.array(pairs, np.int64))
        known = dict(self.collection.look_up(numbers, ["id", "source", "place", "bytes"]))
        leaked, found, planner = self.collection.test_sets_begin is not None, list[PairVerdict](), PairPlanner()
        with tempfile.TemporaryDirectory() as held:
            paths = self._unpack(known, Path(held))
            for number, staying in pairs:
                try:
                    found.append(planner.plan(paths[int(number)], paths[int(staying)], leaked))
                except StorageError:
                    raise
                except UserError:
                    found.append(PairVerdict(NOT_JUDGED, "its bytes cannot be read again", 0))
        write_text(self.path(pairs), json.dumps({"verdicts": [astuple(verdict) for verdict in found]}))
        place.advance(len(pairs))

    def _unpack(self, known: dict[int, dict[str, Any]], folder: Path) -> dict[int, Path]:
        """Return where the pictures can be read: what is no file is written to a folder, each tar and table read once."""
        paths = dict[int, Path]()
        with Rereader(self.column) as rereader:
            for number, about in known.items():
                if is_loose(about["source"], about["id"]):
                    paths[number] = Path(about["id"])
                    continue
                paths[number] = folder / str(number) / PurePath(about["id"]).name
                paths[number].parent.mkdir()
                with suppress(ImageError):
                    paths[number].write_bytes(rereader.read(about))
        return paths

    def path(self, pairs: Pairs) -> Path:
        """Return the path of the judgements of a job's pairs."""
        digest = hashlib.sha256(json.dumps([list(map(int, pair)) for pair in pairs]).encode()).hexdigest()
        return self.folder / f"planned-{digest[:20]}.json"


def find_candidates(collection: Collection, pairs: NDArray[np.void], damaged: Container[str] = ()) -> Candidates:
    """Group the pictures that occur in pairs PAIR [n] and return those that might go [n], by the group and their numbers.

    Equal bytes come first, whatever else is in the group. Of these, and of the contents of a group, the picture stays that
    CRITERIA say, by what is known of all pictures, then the first. What lies in `damaged` sources stays only where there is
    nothing else: other programs may not find it there. Links stay only where there is no file, and members of archives only where
    there is nothing else, and do not go for a file or link; of equal bytes a file or link stays before a table's row, which may
    be no more than its path. With test sets there are no groups: each input is compared with the picture of a test set that is
    nearest.
    """
    numbers, places = np.unique(np.concatenate([pairs["first"], pairs["second"]]), return_inverse=True)
    first, second = places[: len(pairs)], places[len(pairs) :]
    digests = np.empty(len(numbers), "S32")
    names = np.empty(len(numbers), "S20")  # digests: of a picture that two sources hold, neither is a copy
    lies = np.full(len(numbers), REAL, np.int8)
    within, alone = np.zeros(len(numbers), bool), np.ones(len(numbers), bool)  # in a damaged source; without companions
    twins = np.zeros(len(numbers), bool)
    twins[first[pairs["same"]]] = twins[second[pairs["same"]]] = True
    keys = [(criterion.key, np.empty(len(numbers), criterion.column)) for criterion in CRITERIA if criterion.column]
    columns = ["sha256", "width", "height", "bytes", "id", "source", "place"]
    for place, (_, about) in enumerate(collection.look_up(numbers, columns)):
        digests[place], path, companions = about["sha256"], Path(about["id"]), tuple[str, ...]()
        name = f"{name_picture(about['source'], about['id'])} {about['place']}"
        names[place] = hashlib.sha256(name.encode()).digest()[:20]
        within[place] = about["source"] in damaged
        if is_parquet(about["source"]):
            lies[place] = ROW
        elif is_loose(about["source"], about["id"]):
            lies[place], companions = _find_place(about["id"]), find_companions(path) if twins[place] else ()
        alone[place] = not companions
        facts = Facts(path, about["width"], about["height"], about["bytes"], companions=companions)
        for key, column in keys:
            column[place] = key(facts, Choice())
    same = pairs["same"] & (digests[first] == digests[second]) & (names[first] != names[second])
    near = ~pairs["same"]
    if collection.test_sets_begin is not None:
        return _find_leaked(numbers, first, second, pairs["distance"], same, near)
    del digests, names  # the largest arrays
    twin_of = label_components(first[same], second[same], len(numbers))
    best = [column for _, column in reversed(keys)]
    best_first = np.lexsort((*best, lies, within, twin_of))
    _, begins, contents_of = np.unique(twin_of[best_first], return_index=True, return_inverse=True)
    twin_of[best_first] = best_first[begins][contents_of]
    lies[lies == ROW] = REAL  # of other bytes, and no path of them
    one, other = twin_of[first[near]], twin_of[second[near]]
    apart = one != other
    packed = pack_pairs(one[apart], other[apart], -pairs["distance"][near][apart])
    places = np.arange(len(numbers))
    groups = np.full(len(numbers), -1)  # by their lowest content
    for found in group_components(packed, len(numbers)):
        for group in found.groups:
            groups[group] = min(group)
    groups = np.where(groups < 0, places, groups)[twin_of]
    contents = np.flatnonzero(twin_of == places)
    best_first = contents[np.lexsort(tuple(column[contents] for column in (*best, lies, within, groups)))]
    _, begins = np.unique(groups[best_first], return_index=True)
    kept = twin_of.copy()
    kept[best_first] = np.repeat(best_first[begins], np.diff(begins, append=len(best_first)))
    distances = np.full(len(numbers), np.inf)
    np.minimum.at(distances, np.concatenate([packed["first"], packed["second"]]), np.tile(-packed["score"], 2))
    distances[twin_of != places] = 0
    going = np.flatnonzero((kept != places) & (lies != LIBRARY) & ((lies != ARCHIVED) | (lies[kept] == ARCHIVED)))
    going = going[np.argsort(groups[going], kind="stable")]
    return _pack(numbers, going, kept[going], groups[going], distances[going], (twin_of[going] != going) & alone[going])


def _find_place(path: str) -> int:
    try:
        if stat.S_ISLNK(os.lstat(path).st_mode):
            return LINKED
        return LIBRARY if is_in_library(Path(path)) else REAL
    except OSError:  # or gone since it was listed
        return ARCHIVED


def _pack(
    numbers: Numbers, going: Numbers, kept: Numbers, groups: Numbers, distances: NDArray[np.float64], same: NDArray[np.bool_]
) -> Candidates:
    """Return candidates [n] of places in `numbers` [n], and of labels of groups [n], which are numbered from 1."""
    candidates = np.empty(len(going), CANDIDATE)
    candidates["number"], candidates["kept"], candidates["distance"] = numbers[going], numbers[kept], distances
    candidates["group"], candidates["same"] = np.unique(groups, return_inverse=True)[1] + 1, same
    return candidates


def _find_leaked(
    numbers: Numbers,
    first: Numbers,
    second: Numbers,
    distances: NDArray[np.float64],
    same: NDArray[np.bool_],
    near: NDArray[np.bool_],
) -> Candidates:
    """Return each input that occurs in a pair, with the nearest picture of a test set; equal bytes come first."""
    chosen = np.flatnonzero(same | near)
    ordered = chosen[np.lexsort((second[chosen], distances[chosen], ~same[chosen], first[chosen]))]
    rows = ordered[np.unique(first[ordered], return_index=True)[1]]
    return _pack(numbers, first[rows], second[rows], first[rows], distances[rows], same[rows])


def judge_candidates(judging: Judging, candidates: Candidates, most: int | None) -> list[PairVerdict]:
    """Return the verdict on each candidate; at most `most` pairs, drawn at random, are looked at. None for all."""
    rows = np.flatnonzero(~candidates["same"])
    if most is not None and most < len(rows):
        rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
    equal, unseen = PairVerdict("same file", "the same bytes", 100), PairVerdict(NOT_JUDGED, "nobody looked at the pixels", 0)
    verdicts = [equal if same else unseen for same in candidates["same"]]
    jobs = [rows[start : start + PAIRS_PER_JOB] for start in range(0, len(rows), PAIRS_PER_JOB)]
    pairs, known = candidates[["number", "kept"]], list_names(judging.folder)
    paths = [judging.path(pairs[job].tolist()) for job in jobs]
    missing = (pairs[job].tolist() for path, job in zip(paths, jobs, strict=True) if path.name not in known)
    work: ShardWork[Judging, Pairs, None] = ShardWork(
        "comparing pixels", "pair", partial(hold, judging), Judging.judge, len, folder=judging.folder
    )
    for _ in run_shards(work, missing, len(rows)):
        pass
    different = dict[PairVerdict, PairVerdict]()  # which are few, unlike candidates
    for job, judged in zip(jobs, map_files(read_json, paths), strict=True):
        for row, said in zip(job, judged["verdicts"], strict=True):
            verdict = PairVerdict(*said)
            verdicts[row] = different.setdefault(verdict, verdict)
    return verdicts
