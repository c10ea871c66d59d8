"""Whether a picture may go for another one, as the plan of `match` decides it."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from image_copies.matching.files.companions import find_companions
from image_copies.matching.files.facts import Facts, picture_facts
from image_copies.matching.files.integrity import is_intact
from image_copies.matching.files.plan import PlanRow
from image_copies.matching.groups.group_plan import plan_around
from image_copies.matching.index.store import digest_of
from image_copies.matching.knowledge import Knowledge
from image_copies.matching.pairs import PairJudge
from image_copies.matching.verification.judgement import Kind

LAST_SEEN = 32  # pictures of which the pixels are kept
DAMAGED = "the picture that would stay is damaged"


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
    """Plans pairs of pictures, which are written to a folder for as long as they are looked at; files of theirs are linked there.

    Attributes:
        folder: For the pictures.
        read: Returns the name, of a file the absolute path, and the bytes of a picture by its number; raises ImageError where it
            cannot be read.
    """

    def __init__(self, folder: Path, read: Callable[[int], tuple[str, bytes]]) -> None:
        self.folder, self.read = folder, read
        self._paths: dict[int, Path] = {}
        self._facts: dict[Path, Facts] = {}
        self._digests: dict[Path, bytes] = {}
        self._known = Knowledge(self._digests, self._facts, {}, lambda one, other: 0.0, judge=PairJudge(LAST_SEEN))

    def plan(self, number: int, staying: int, leaked: bool) -> PairVerdict:
        """Return whether a picture may go for one that stays; `leaked`: whatever it has that the other lacks.

        Raises:
            ImageError: One of them cannot be read.
        """
        for other in [other for other in self._paths if other not in (number, staying)]:
            self._paths.pop(other)
            shutil.rmtree(self.folder / str(other))
        file, kept = self._write(number), self._write(staying)
        if leaked:
            known = self._known.of(kept, file).judgement
            return PairVerdict(known.kind, known.reason, known.certainty)
        rows = [
            PlanRow(1, "leave", path, kept, facts=self._facts[path], sha256=self._digests[path].hex()) for path in (kept, file)
        ]
        row = plan_around(rows, kept, "", self._known, name_originals=False)[1]
        judgement = row.judgement or replace(self._known.of(kept, file).judgement, reason=row.reason)
        if row.action == "remove" and not is_intact(kept):
            return PairVerdict(judgement.kind, f"{judgement.reason}, but {DAMAGED}", judgement.certainty, True)
        missed = judgement.is_certain and row.action != "remove"
        return PairVerdict(judgement.kind, judgement.reason, judgement.certainty, missed)

    def _write(self, number: int) -> Path:
        if number not in self._paths:
            name, content = self.read(number)
            source, folder = Path(name), self.folder / str(number)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            path = folder / source.name
            path.write_bytes(content)
            for companion in find_companions(source) if source.is_absolute() else ():
                (folder / companion).symlink_to(source.with_name(companion))
            self._paths[number] = path
            if path not in self._facts:
                self._facts[path], self._digests[path] = picture_facts(path), digest_of(path)
        return self._paths[number]
