"""What becomes of the pictures that occur in pairs: groups, which picture of each stays, and the class of the others."""

import hashlib
import json
import tempfile
from collections.abc import Collection as Container
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from image_copies.data.arrays import Bools
from image_copies.data.errors import ImageError
from image_copies.data.files import is_link, is_there, read_json, write_text
from image_copies.data.remote import map_files
from image_copies.data.sources.containers import Rereader, is_loose
from image_copies.data.sources.tables import is_parquet

from ..files.companions import find_companions, is_in_library
from ..files.facts import Facts, picture_facts
from ..files.keeping import ASKED, CRITERIA, KeepSettings
from ..files.plan import PlanRow
from ..files.surplus import read_attributes
from ..groups.group_plan import plan_around
from ..groups.groups import Pairs, group_components, label_components, pack_pairs
from ..knowledge import Knowledge
from ..pairs import PairJudge
from ..verification.judgement import EQUAL_BYTES, Judgement
from .vectors import Collection, Numbers, do_missing

FOLDER = "judged"  # of the results
LAST_SEEN = 32  # pictures of which the pixels are kept
DAMAGED = "the picture that would stay is damaged"
PAIRS_PER_JOB = 64
# A picture that might go: its number, that of the picture that it is compared with (which stays, or has the same bytes), the
# highest score by which it came into its group, and whether the bytes are equal and nothing else belongs to it.
CANDIDATE = np.dtype([("number", "<i8"), ("kept", "<i8"), ("score", "<f8"), ("same", "?")])
Candidates = NDArray[np.void]  # of type CANDIDATE
# What is known of a picture: whether it lies in a damaged source, and in an archive; the keys of criteria, of which the lowest
# stays; and whether it is nothing but its bytes: no other files and no tags of a desktop belong to it, and no program keeps it.
COUNTED = [criterion for criterion in (*ASKED, *CRITERIA) if criterion.column]
RANKED = ["damaged", "archived", *(str(place) for place in range(len(COUNTED)))]
KNOWN = np.dtype(
    [*zip(RANKED, ["?", "?", *(each.column for each in COUNTED)], strict=True), ("alone", "?")]
)
Compared = list[tuple[int, int]]  # numbers of a candidate and of the picture that it is compared with


# what a picture is to the one that would stay instead of it; and whether a copy is to be looked at all the same, such as one that
# has, or may have, something that the other lacks
Verdict = tuple[Judgement, bool]
EQUAL: Verdict = EQUAL_BYTES, False
UNSEEN: Verdict = Judgement("likely", "its bytes cannot be read again", 0), True


def make_knowledge(digests: Mapping[Path, bytes]) -> Knowledge:
    """Return what is known of files, by their SHA-256; they may be links, or lie in archives: what may stay is decided before."""
    facts = {path: replace(picture_facts(path), linked=False, archived=False) for path in digests}
    return Knowledge(digests, facts, {}, lambda one, other: 0.0, judge=PairJudge(LAST_SEEN))


def plan_pair(knowledge: Knowledge, file: Path, kept: Path, leaked: bool) -> Verdict:
    """Return whether a picture may go for one that stays, as a plan says; `leaked`: whatever it has that the other lacks."""
    known = knowledge.of(kept, file)
    if leaked:
        return known.judgement, False
    both = [PlanRow(1, "leave", path, kept, facts=knowledge.facts[path]) for path in (kept, file)]
    row = plan_around(both, kept, "", knowledge, name_originals=False)[1]
    judged = row.judgement or known.judgement
    goes = row.action == "remove" and knowledge.is_intact(kept)
    reason = f"{row.reason}, but {DAMAGED}" if row.action == "remove" and not goes else row.reason
    return replace(judged, reason=reason), judged.is_certain and not goes


@dataclass(frozen=True)
class Judging:
    """How pairs of pictures are judged.

    Attributes:
        collection: The pictures.
        results: The folder of the results.
        column: Of Parquet inputs.
    """

    collection: Collection
    results: Path
    column: str

    def judge(self, pairs: Compared) -> None:
        """Judge the pairs of a job and write its file."""
        known = dict(
            self.collection.look_up(np.unique(pairs), ["id", "source", "place", "bytes", "sha256"])
        )
        paths = dict[int, Path]()
        with tempfile.TemporaryDirectory() as held, Rereader(self.column) as rereader:
            for number, about in known.items():
                with suppress(ImageError):
                    paths[number] = rereader.unpack(about, Path(held) / str(number))
            knowledge = make_knowledge({path: known[number]["sha256"] for number, path in paths.items()})
            verdicts = [
                plan_pair(knowledge, paths[number], paths[staying], self.collection.has_test_sets)
                if {number, staying} <= paths.keys()
                else UNSEEN
                for number, staying in pairs
            ]
        said = [[*astuple(judgement), missed] for judgement, missed in verdicts]
        write_text(self.path(pairs), json.dumps({"verdicts": said}))

    def path(self, pairs: Compared) -> Path:
        """Return the path of the judgements of a job's pairs."""
        names = [self.collection.name_picture(number) for pair in pairs for number in pair]
        return self.results / FOLDER / f"{hashlib.sha256(json.dumps(names).encode()).hexdigest()[:20]}.json"


def find_candidates(collection: Collection, pairs: Pairs, damaged: Container[str] = ()) -> Candidates:
    """Group the pictures that occur in pairs PAIR [n] and return those that might go [n], by their numbers.

    Equal bytes come first, whatever else is in the group. Of these, and of the contents of a group, the picture stays that
    CRITERIA say, by what is known of all pictures, then the first. What lies in `damaged` sources stays only where there is
    nothing else: other programs may not find it there. So do links, rows of tables, which may be no more than a path, and members
    of archives, which do not go for a file either. With test sets there are no groups: each input is compared with the picture of
    a test set that is nearest.
    """
    numbers, places = np.unique(np.concatenate([pairs["first"], pairs["second"]]), return_inverse=True)
    first, second = np.split(places, 2)
    same = pairs["score"] > 0
    contents = label_components(first[same], second[same], len(numbers))
    if collection.has_test_sets:
        return _find_leaked(numbers, contents, contents[first], pairs, collection.inputs)
    is_shared = np.bincount(contents)[contents] > 1
    known = _look_up(collection, numbers, is_shared, damaged)
    order = np.lexsort([known[name] for name in reversed(RANKED)])
    standing = _find_best(contents, order)
    near = pack_pairs(standing[first], standing[second], pairs["score"])
    near = near[near["first"] != near["second"]]
    groups = np.arange(len(numbers))
    for found in group_components(near, len(numbers)):
        for group in found.groups:
            groups[group] = min(group)
    twins = standing != np.arange(len(numbers))
    kept = np.where(twins, standing, _find_best(groups[standing], order))
    scores = np.where(twins, 0, -np.inf)
    np.maximum.at(scores, near["first"], near["score"])
    np.maximum.at(scores, near["second"], near["score"])
    archived = known["archived"]
    going = (kept != np.arange(len(numbers))) & (~archived | archived[kept])
    columns = [numbers, numbers[kept], scores, twins & known["alone"]]
    return np.rec.fromarrays([column[going] for column in columns], dtype=CANDIDATE)


def _look_up(
    collection: Collection, numbers: Numbers, is_shared: Bools, damaged: Container[str]
) -> NDArray[np.void]:
    """Look up what decides which of pictures [n] stays, of type KNOWN [n]; `is_shared`: of which others have the bytes."""
    known = np.empty(len(numbers), KNOWN)
    looked_up = collection.look_up(numbers, ["width", "height", "bytes", "id", "source"])
    for place, (_, about) in enumerate(looked_up):
        path = Path(about["id"])
        loose = is_loose(about["source"], about["id"])
        facts = Facts(
            path,
            about["width"],
            about["height"],
            about["bytes"],
            linked=is_parquet(about["source"]) or (loose and is_link(path)),
            archived=loose and not is_there(path),
            # others are asked for by the plan
            companions=find_companions(path) if loose and is_shared[place] else (),
        )
        alone = not (facts.companions or is_in_library(path) or (loose and read_attributes(path)))
        keys = [criterion.key(facts, KeepSettings()) for criterion in COUNTED]
        known[place] = (about["source"] in damaged, facts.archived, *keys, alone)
    return known


def _find_best(labels: Numbers, order: Numbers) -> Numbers:
    """Return, for each place, the first one in an order with the same label [n]."""
    _, begins, of_label = np.unique(labels[order], return_index=True, return_inverse=True)
    best = np.empty_like(order)
    best[order] = order[begins][of_label]
    return best


def _find_leaked(
    numbers: Numbers, contents: Numbers, paired: Numbers, pairs: Pairs, begin: int
) -> Candidates:
    """Return each input that occurs in a pair with a test set, by itself or by its bytes, with the nearest; equal bytes first.

    `contents` labels the numbers [n] by their bytes, `paired` the first pictures of the pairs.
    """
    across = pairs["second"] >= begin
    pairs, paired = pairs[across], paired[across]
    order = np.lexsort((pairs["second"], -pairs["score"], paired))
    labels, begins = np.unique(paired[order], return_index=True)
    inputs = (numbers < begin) & np.isin(contents, labels)
    nearest = pairs[order[begins[np.searchsorted(labels, contents[inputs])]]]
    columns = numbers[inputs], nearest["second"], np.minimum(nearest["score"], 0), nearest["score"] > 0
    return np.rec.fromarrays(columns, dtype=CANDIDATE)


def judge_candidates(judging: Judging, candidates: Candidates) -> list[Verdict]:
    """Return the verdict on each candidate; those of other bytes are looked at."""
    verdicts = [EQUAL] * len(candidates)
    # pictures of a group, which are compared with the same one, together
    order = np.argsort(candidates["kept"], kind="stable")
    rows = order[~candidates["same"][order]]
    jobs = [rows[start : start + PAIRS_PER_JOB] for start in range(0, len(rows), PAIRS_PER_JOB)]
    pairs = [candidates[["number", "kept"]][job].tolist() for job in jobs]
    files = {judging.path(job): job for job in pairs}
    do_missing("comparing pixels", judging, Judging.judge, files, judging.results, uses_gpu=False)
    make = cache(Judgement)  # different ones are few, unlike candidates
    for job, judged in zip(jobs, map_files(read_json, list(files)), strict=True):
        for row, (*said, missed) in zip(job, judged["verdicts"], strict=True):
            verdicts[row] = make(*said), missed
    return verdicts


def decide(
    candidates: Candidates, verdicts: Sequence[Verdict], removes: Container[str]
) -> tuple[Candidates, list[Verdict], Bools]:
    """Return candidates with what stays for each, what that says of it, and whether it goes, bool [n].

    Pictures go of classes that are to be removed, but for what a person would miss. What is true of bytes that go is true of
    other pictures that have them.
    """
    going = np.array([judged.kind in removes and not missed for judged, missed in verdicts], bool)
    rows = np.arange(len(candidates))
    others = np.searchsorted(candidates["number"], candidates["kept"]).clip(max=len(rows) - 1)
    through = (candidates["number"][others] == candidates["kept"]) & going[others]
    told = np.where(through & candidates["same"], others, rows)
    decided = candidates.copy()
    decided["kept"] = candidates["kept"][np.where(through, others, rows)]
    decided["score"] = candidates["score"][told]
    return decided, [verdicts[row] for row in told], going
