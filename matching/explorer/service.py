"""explore.py --serve: search of a kept index over HTTP, for programs. Nothing that is sent is ever written."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Body, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from numpy.typing import NDArray
from pydantic import StrictFloat
from threadpoolctl import threadpool_limits

from image_copies.data.decode import measure_size
from image_copies.data.errors import ImageError, UserError
from image_copies.submissions.vectors.files import MAX_NORM

from ..extractor import Extractor
from ..files.facts import MEASURED_SIDE, measure_picture
from ..groups.planning import drop_flat
from ..hash_lists import HashLists
from ..index.decisions import map_decisions
from ..index.filling import open_or_none
from ..index.search import Neighbours, open_search
from ..index.store import DATABASE, Store, count_changes, open_store
from ..matches import Match, Rule, match_values, rank_by_evidence
from ..output import plain
from ..pairs import PairJudge, share_cores
from ..search import NEAREST, Search
from ..verification.picture import Picture
from ..views import embed_views_of, smallest_side
from ..web import (
    MAX_CONCURRENT_DECODES,
    MAX_CONCURRENT_UPLOADS,
    PixelRoom,
    answer_problem,
    make_app,
    receive_picture,
)

PAGE = Path(__file__).parent / "page"
# References that are not read again for the next picture, 0.6 MB each; of five times as many the features are kept
MAX_CACHED_PICTURES = 50
MAX_VECTORS = 1000  # vectors in one request
MIN_NORM = 0.01  # Euclidean norm; that of what networks make is about 1
MAX_PIXELS = 50_000_000  # of a picture that is sent
TOGETHER = 2  # times as many pixels of all pictures that are looked at at once
Vectors = Annotated[list[list[StrictFloat]], Body(embed=True, min_length=1, max_length=MAX_VECTORS)]


@dataclass
class _Request:
    """What one request asks; the digest is empty where the picture's bytes are not known."""

    vectors: NDArray[np.float32]  # [n, d]
    digest: bytes
    views: NDArray[np.float32] | None = None  # [VIEWS, d], of a single picture
    candidates: int = 0  # nearest references whatever their score; 0 to follow the rule
    answer: Future[list[list[Match]]] = field(default_factory=Future)


@dataclass
class SearchService:
    """A kept index that is searched while others may change it.

    One thread searches, with its own connection to the index; what is asked meanwhile is searched together in its next turn:
    reading all vectors costs the most, and is done once for all of them.
    """

    index: Path
    extractor: Extractor
    rule: Rule
    hash_lists: HashLists | None = None
    max_pixels: int = MAX_PIXELS
    _asked: SimpleQueue[_Request | None] = field(default_factory=SimpleQueue)
    _searching: threading.Thread | None = None
    _opened: tuple[tuple[int, int, int], Neighbours, Rule] | None = None
    _network: threading.Lock = field(default_factory=threading.Lock)
    _decoding: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(MAX_CONCURRENT_DECODES)
    )
    _opening: threading.Lock = field(default_factory=threading.Lock)
    _judge: PairJudge = field(default_factory=lambda: PairJudge(MAX_CACHED_PICTURES))

    def about(self) -> dict[str, Any]:
        """Return what the service searches.

        Raises:
            UserError: there is no index, or it cannot be used.
        """
        with self._open_store() as store:
            index, rule = self._search_index(store)
        return {
            "references": index.ntotal,
            "dimensions": self.extractor.dimensions,
            "threshold": rule.threshold(index.ntotal),
            "most": rule.most,
        }

    def count_pixels(self, content: bytes) -> int:
        """Return the number of pixels of a picture.

        Raises:
            ImageError: the bytes are no picture.
            UserError: it has more than `max_pixels`.
        """
        width, height = measure_size(content)
        if width * height > self.max_pixels:
            raise UserError(
                f"The file is {width} x {height}, larger than {self.max_pixels:,} pixels. Send a smaller picture."
            )
        return width * height

    def search(self, picture: Picture, judged: bool) -> list[Match]:
        """Return the references that a picture copies, and the hashes of lists that it matches.

        If it is to be judged, these are the copies that a search of folders finds, each with what it is.

        Raises:
            ImageError: the bytes are no picture.
            UserError: the index cannot be used.
        """
        views, size = None, max(size for network in self.extractor.networks for size in network.sizes)
        with self._decoding:
            pixels = picture.read(size)
        with self._network:
            vector = self.extractor.extract_picture(pixels)
        if self.rule.tail is not None:
            with self._decoding:
                pixels = picture.read(smallest_side(self.extractor))
            with self._network:
                views = embed_views_of(self.extractor, pixels)
        candidates = NEAREST if judged and self.rule.threshold(1) is not None else 0
        (found,) = self.ask(vector, picture.digest, views, candidates).result()
        with self._decoding:
            if judged and found:
                found = self._judge_found(picture, found)
            if self.hash_lists is not None:
                found = found + self.hash_lists.find(picture.content, picture.decoded)
        return found

    def _judge_found(self, query: Picture, found: Sequence[Match]) -> list[Match]:
        """Return what is confirmed by features or scores enough, the confirmed first, each with what it is by the pixels.

        Without a threshold nothing is verified, and all is returned. What shows nothing is left out.
        """
        assert self._opened is not None  # as something was found
        _, index, rule = self._opened
        copies = list(found)
        threshold = rule.threshold(index.ntotal)

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
                changes = rule.choose_changes(found, index.ntotal)
                evidence = self._judge.verify(query, found, changes, pool)
                copies = rule.select_verified(rank_by_evidence(found, evidence), threshold)
            paths = {path for match in copies for path in match.files}
            flat = [path for path, bare in zip(paths, pool.map(is_flat, paths), strict=True) if bare]
            return list(pool.map(judge_match, drop_flat(copies, flat)))

    def check_vectors(self, vectors: list[list[float]]) -> NDArray[np.float32]:
        """Return vectors [n, d] that were sent.

        Raises:
            UserError: they have another number of dimensions, are not finite, or have a norm that no network's have.
        """
        if any(len(vector) != self.extractor.dimensions for vector in vectors):
            raise UserError(
                f"Each vector must have {self.extractor.dimensions} numbers. Send vectors of the index's network."
            )
        with np.errstate(over="ignore"):
            array = np.array(vectors, np.float32)
            norms = np.linalg.norm(array, axis=1)  # infinite where they are too large for float32
        if not ((norms >= MIN_NORM) & (norms <= MAX_NORM)).all():
            raise UserError(
                "The vectors contain infinite, undefined, far too large or no numbers but 0. Send those of the network."
            )
        return array

    def ask(
        self,
        vectors: NDArray[np.float32],
        digest: bytes = b"",
        views: NDArray[np.float32] | None = None,
        candidates: int = 0,
    ) -> Future[list[list[Match]]]:
        """Search for vectors [n, d] in the next turn; `digest` is the SHA-256 of the picture, where it is known.

        Views are the vectors of a single picture's views, to be searched with, too. So many `candidates` are returned whatever
        their score; 0 for those that are copies by the rule.
        """
        asked = _Request(vectors, digest, views, candidates)
        with self._opening:
            if self._searching is None:
                self._searching = threading.Thread(target=self._answer_all, daemon=True)
                self._searching.start()
        self._asked.put(asked)
        return asked.answer

    def close(self) -> None:
        """End the thread that searches."""
        if self._searching is not None:
            self._asked.put(None)
            self._searching.join()
            self._searching = None

    def _open_store(self) -> AbstractContextManager[Store]:
        return open_store(self.index, self.extractor.identity, self.extractor.dimensions, new=False)

    def _answer_all(self) -> None:
        waiting = self._next()
        while waiting is not None:
            try:
                with self._open_store() as store:
                    opened = _identify_file(self.index)
                    # not of a folder that was removed and made again
                    while waiting is not None and _identify_file(self.index) == opened:
                        self._answer(store, waiting)
                        waiting = self._next()
            except Exception as error:  # each request hears of it, the next turn tries again
                for asked in waiting or []:
                    if not asked.answer.done():
                        asked.answer.set_exception(error)
                waiting = self._next()

    def _next(self) -> list[_Request] | None:
        """Wait for a request; return all that have come, up to about MAX_VECTORS vectors. None ends the thread."""
        waiting: list[_Request] = []
        count = 0
        while not waiting or (count < MAX_VECTORS and not self._asked.empty()):
            asked = self._asked.get()
            if asked is None:
                for each in waiting:
                    each.answer.set_exception(UserError("The service is being stopped."))
                return None
            waiting.append(asked)
            count += len(asked.vectors)
        return waiting

    def _answer(self, store: Store, waiting: list[_Request]) -> None:
        # opened once for all requests
        decided = map_decisions(store)
        index, rule = self._search_index(store)
        for candidates in sorted({asked.candidates for asked in waiting}):
            search = Search(store, self.extractor, rule, decided, candidates, opened=index)
            together = [asked for asked in waiting if asked.candidates == candidates]
            digests = [asked.digest for asked in together for _ in asked.vectors]
            views = [asked.views for asked in together for _ in asked.vectors]
            found = iter(search.near(np.concatenate([asked.vectors for asked in together]), digests, views))
            for asked in together:
                matches = [next(found) for _ in asked.vectors]
                if asked.answer.set_running_or_notify_cancel():
                    asked.answer.set_result(matches)

    def _search_index(self, store: Store) -> tuple[Neighbours, Rule]:
        """Return the index of the store's present state and its rule, opened again when another process has changed it."""
        with self._opening:
            # one made again may count the same changes
            state = (*_identify_file(self.index), count_changes(store))
            if self._opened is None or self._opened[0] != state:
                index = open_search(store)
                self._opened = state, index, self.rule.against(index.sample)
            return self._opened[1:]


def service_app(service: SearchService) -> FastAPI:
    """Return the application with `/api/about`, `/api/matches`, `/api/vectors` and a page to try a picture."""

    @asynccontextmanager
    async def until_stopped(_: FastAPI) -> AsyncIterator[None]:
        with threadpool_limits(1, user_api="blas"):  # requests share the cores, and products are small
            yield
        await run_in_threadpool(service.close)

    router = APIRouter(lifespan=until_stopped)
    receiving = asyncio.Semaphore(MAX_CONCURRENT_UPLOADS)
    room = PixelRoom(TOGETHER * service.max_pixels)

    @router.get("/api/about", summary="What is searched")
    def about() -> dict[str, Any]:
        return service.about()

    @router.post(
        "/api/matches",
        summary="The references that a picture copies",
        openapi_extra={
            "requestBody": {
                "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
            }
        },
    )
    async def matches(request: Request, judged: bool = True) -> dict[str, Any]:
        async with receive_picture(request, receiving) as content:
            pixels = await run_in_threadpool(service.count_pixels, content)
            async with room.hold(pixels):
                found = await run_in_threadpool(service.search, Picture(content, {}), judged)
        return {"matches": _show(found)}

    @router.post("/api/vectors", summary="The references that ready vectors' pictures copy, likely at best")
    async def search_vectors(vectors: Vectors) -> dict[str, Any]:
        found = await asyncio.wrap_future(service.ask(service.check_vectors(vectors)))
        return {"matches": list(map(_show, found))}

    app = make_app(router, PAGE)

    @app.exception_handler(ImageError)
    async def answer_image_error(_: Request, error: ImageError) -> JSONResponse:
        return answer_problem(f"The file {error.problem}.", 400)

    return app


def _identify_file(index: Path) -> tuple[int, int]:
    """Return what distinguishes the index's file from another of its name."""
    try:
        state = (index / DATABASE).stat()
    except OSError as error:
        raise UserError(f"{index} holds no index ({error.strerror or error}).") from error
    return state.st_dev, state.st_ino


def _show(matches: Sequence[Match]) -> Any:
    """Return matches as JSON has them, without the query."""
    values = plain([match_values(match) for match in matches])
    return [{name: value for name, value in each.items() if name != "query"} for each in values]
