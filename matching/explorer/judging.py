"""What is found for a single picture, verified and judged as a search of folders does it."""

from collections.abc import Sequence
from dataclasses import replace

from image_copies.data.errors import ImageError
from image_copies.matching.files.facts import MEASURED_SIDE, measure_picture
from image_copies.matching.groups.planning import drop_flat
from image_copies.matching.index.filling import open_or_none
from image_copies.matching.matches import Match, Rule, rank_by_evidence
from image_copies.matching.pairs import PairJudge, share_cores
from image_copies.matching.verification.picture import Picture

# References that are not read again for the next picture, 0.6 MB each; of five times as many the features are kept
MAX_CACHED_PICTURES = 50


def judge_found(
    judge: PairJudge, query: Picture, found: Sequence[Match], rule: Rule, references: int
) -> list[Match]:
    """Return what is confirmed by features or scores enough, the confirmed first, each with what it is by the pixels.

    Without a threshold nothing is verified, and all is returned. What shows nothing is left out.

    Args:
        judge: Knows the references that were looked at last.
        query: The picture; one that can be decoded only too small is known by its vector alone.
        found: The nearest references, the best first.
        rule: When a pair counts as a copy.
        references: Number of references that were searched.
    """
    if not found:
        return []
    copies, threshold = list(found), rule.threshold(references)

    def judge_match(match: Match) -> Match:
        still_same = match.same_bytes and open_or_none(match.reference, 0)[0] == query.digest
        return replace(match, judgement=judge.judge(replace(match, same_bytes=still_same), threshold, query))

    with share_cores() as pool:
        if threshold is not None:
            changes = rule.choose_changes(found, references)
            evidence = judge.verify(query, found, changes, pool)
            copies = rule.select_verified(rank_by_evidence(found, evidence), threshold)
        if not copies:
            return []
        paths = [found[0].query, *(match.reference for match in copies)]
        seen = query, *pool.map(judge.see, paths[1:])
        flat = {path for path, bare in zip(paths, pool.map(_is_flat, seen), strict=True) if bare}
        return list(pool.map(judge_match, drop_flat(copies, flat)))


def _is_flat(picture: Picture) -> bool:
    try:
        return measure_picture(picture.read(MEASURED_SIDE))[1]
    except ImageError:
        return False
