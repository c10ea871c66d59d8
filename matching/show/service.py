"""explore.py --serve: search of a kept index over HTTP, for programs. Nothing that is sent is ever written."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Body, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import StrictFloat

from image_copies.data.decode import measure_size
from image_copies.data.errors import ImageError, UserError, text_of

from ..extractor import Extractor
from ..files.facts import MEASURED_SIDE, measure_picture
from ..groups.planning import drop_flat
from ..index.decisions import map_decisions
from ..index.filling import open_or_none
from ..index.search import Neighbours, open_search
from ..index.store import DATABASE, Store, count_changes, open_store
from ..matches import MOST_REFERENCES, Match, Rule, match_values
from ..pairs import PairJudge, share_cores
from ..search import Search
from ..threshold import Floats
from ..verification.picture import Picture
from ..views import embed_views_of, smallest_side
from .web import MAX_CONCURRENT_DECODES, MAX_HELD_BYTES, Room, make_app, receive_picture

# References that are not read again for the next picture, 0.6 MB each; of five times as many the features are kept
MAX_CACHED_PICTURES = 50
MAX_VECTORS = 1000  # vectors in one request
MAX_PIXELS = 50_000_000  # of a picture that is sent; MAX_CONCURRENT_DECODES are looked at at once
Vectors = Annotated[list[list[StrictFloat]], Body(embed=True, min_length=1, max_length=MAX_VECTORS)]
BYTES = {"schema": {"type": "string", "format": "binary"}}  # as OpenAPI describes them


class SearchService:
    """A kept index that is searched while others may change it."""

    def __init__(self, index: Path, extractor: Extractor, rule: Rule, max_pixels: int = MAX_PIXELS) -> None:
        self.index = index
        self.extractor = extractor
        self.rule = rule
        self.max_pixels = max_pixels
        self._opened: tuple[tuple[int, int], Neighbours, Rule] | None = None
        self._searching = threading.Lock()  # reading all vectors takes all memory bandwidth
        self._network = threading.Lock()  # takes all cores
        self._judge = PairJudge(MAX_CACHED_PICTURES)

    def count_references(self) -> int:
        """Return the number of different references.

        Raises:
            UserError: There is no index, or it cannot be used.
        """
        with self._open() as (_, index, _):
            return index.ntotal

    def search(self, content: bytes, judged: bool) -> list[Match]:
        """Return the references that a picture, given by its bytes, copies.

        If it is to be judged, these are the copies that a search of folders finds, each with what it is.

        Raises:
            ImageError: The bytes are no picture.
            UserError: It has more than `max_pixels`, or the index cannot be used.
        """
        width, height = measure_size(content)
        if width * height > self.max_pixels:
            raise UserError(
                f"The file is {width} x {height}, larger than {self.max_pixels:,} pixels. Send a smaller picture."
            )
        picture = Picture(content, {})
        pixels = picture.read(max(size for network in self.extractor.networks for size in network.sizes))
        with self._network:
            vector = self.extractor.extract_picture(pixels)
        views = None
        if self.rule.tail is not None:
            pixels = picture.read(smallest_side(self.extractor))
            with self._network:
                views = embed_views_of(self.extractor, pixels)
        candidates = MOST_REFERENCES if judged and self.rule.threshold(1) is not None else 0
        (found,), rule, references = self._near(vector, [picture.digest], [views], candidates)
        return self._judge_found(picture, found, rule, references) if judged and found else found

    def search_vectors(self, vectors: list[list[float]]) -> list[list[Match]]:
        """Return the references that the pictures of vectors [n, d] copy by the vectors alone.

        Raises:
            UserError: The vectors are none of the network's, or the index cannot be used.
        """
        if any(len(vector) != self.extractor.dimensions for vector in vectors):
            raise UserError(
                f"Each vector must have {self.extractor.dimensions} numbers. Send vectors of the index's network."
            )
        with np.errstate(over="ignore"):
            asked = np.array(vectors, np.float32)  # what is too large is infinite, which a search refuses
        return self._near(asked, [b""] * len(asked))[0]

    def _near(
        self,
        vectors: Floats,
        digests: Sequence[bytes],
        views: Sequence[Floats | None] = (),
        candidates: int = 0,
    ) -> tuple[list[list[Match]], Rule, int]:
        """Return the references near vectors [n, d], as `Search.near`, the rule fitted to the references, and their number.

        So many `candidates` are returned whatever their score; 0 for those that are copies by the rule.
        """
        with self._open() as (store, index, rule):
            search = Search(store, index, self.extractor, rule, map_decisions(store), candidates)
            return search.near(vectors, digests, views), rule, index.ntotal

    def _judge_found(
        self, query: Picture, found: Sequence[Match], rule: Rule, references: int
    ) -> list[Match]:
        """Return what is confirmed by features or scores enough, the confirmed first, each with what it is by the pixels.

        Without a threshold nothing is verified, and all is returned. What shows nothing is left out.
        """
        copies = list(found)
        threshold = rule.threshold(references)

        def judge_match(match: Match) -> Match:
            still_same = match.same_bytes and open_or_none(match.reference, 0)[0] == query.digest
            judgement = self._judge.judge(replace(match, same_bytes=still_same), threshold, query)
            return replace(match, judgement=judgement)

        def is_flat(path: Path) -> bool:
            try:
                picture = query if path == found[0].query else self._judge.see(path)
                return measure_picture(picture.read(MEASURED_SIDE))[1]
            except ImageError:
                return False

        with share_cores() as pool:
            if threshold is not None:
                changes = rule.choose_changes(found, references)
                copies = rule.select_verified(self._judge.verify(query, found, changes, pool), threshold)
            paths = {path for match in copies for path in match.files}
            flat = [path for path, bare in zip(paths, pool.map(is_flat, paths), strict=True) if bare]
            return list(pool.map(judge_match, drop_flat(copies, flat)))

    @contextmanager
    def _open(self) -> Iterator[tuple[Store, Neighbours, Rule]]:
        """Open the store, what is searched in its present state, and the rule; again only when another process has changed it."""
        identity, dimensions = self.extractor.identity, self.extractor.dimensions
        with self._searching, open_store(self.index, identity, dimensions, new=False) as store:
            # one made again may count the same changes
            state = (self.index / DATABASE).stat().st_ino, count_changes(store)
            if self._opened is None or self._opened[0] != state:
                index = open_search(store)
                self._opened = state, index, self.rule.against(index.sample)
            yield store, *self._opened[1:]


def service_app(service: SearchService) -> FastAPI:
    """Return the application with `/api/about`, `/api/matches`, `/api/vectors` and a page to try a picture."""
    router = APIRouter()
    room = Room(MAX_HELD_BYTES)
    looking = asyncio.Semaphore(MAX_CONCURRENT_DECODES)

    @router.get("/api/about", summary="What is searched")
    def about() -> dict[str, int]:
        return {"references": service.count_references()}

    @router.post(
        "/api/matches",
        summary="The references that a picture copies",
        openapi_extra={"requestBody": {"content": {"application/octet-stream": BYTES}}},
    )
    async def matches(request: Request, judged: bool = True) -> dict[str, Any]:
        async with receive_picture(request, room) as content, looking:
            found = await run_in_threadpool(service.search, content, judged)
        return {"matches": list(map(_show, found))}

    @router.post("/api/vectors", summary="The references that ready vectors' pictures copy, likely at best")
    def search_vectors(vectors: Vectors) -> dict[str, Any]:
        return {"matches": [list(map(_show, found)) for found in service.search_vectors(vectors)]}

    return make_app(router, "search")


def _show(match: Match) -> dict[str, Any]:
    """Return a match as JSON has it, without the query."""
    values = match_values(match) | {"reference": text_of(match.reference)}
    del values["query"]
    return values
