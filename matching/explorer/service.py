"""explore.py --serve: search of a kept index over HTTP, for programs. Nothing that is sent is ever written."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from fastapi import APIRouter, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from numpy.typing import NDArray
from pydantic import Field, StrictFloat
from threadpoolctl import threadpool_limits

from image_copies.data.decode import measure_size
from image_copies.data.errors import ImageError, UserError, text_of
from image_copies.data.settings import Settings
from image_copies.matching.explorer.judging import MAX_CACHED_PICTURES, judge_found
from image_copies.matching.extractor import Extractor
from image_copies.matching.hash_lists import HashLists
from image_copies.matching.index.decisions import map_decisions
from image_copies.matching.index.search import Neighbours, open_search
from image_copies.matching.index.store import DATABASE, Store, count_changes, open_store
from image_copies.matching.matches import Match, Rule, match_values
from image_copies.matching.pairs import PairJudge
from image_copies.matching.search import NEAREST, Search
from image_copies.matching.verification.picture import Picture
from image_copies.matching.views import embed_views_of, smallest_side
from image_copies.matching.web.app import add_page
from image_copies.matching.web.guard import (
    MAX_CONCURRENT_DECODES,
    MAX_CONCURRENT_UPLOADS,
    PixelRoom,
    receive_picture,
)
from image_copies.submissions.vectors.files import MAX_NORM

PAGE = Path(__file__).parent / "page"
MAX_VECTORS = 1000  # vectors in one request
MIN_NORM = 0.01  # Euclidean norm; that of what networks make is about 1
MAX_PIXELS = 50_000_000  # of a picture that is sent
TOGETHER = 2  # times as many pixels of all pictures that are looked at at once


class VectorQuestion(Settings):
    """Vectors [n][dimensions] to search with, as the extractor makes them, before query normalisation."""

    vectors: list[list[StrictFloat]] = Field(min_length=1, max_length=MAX_VECTORS)


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
        with open_store(self.index, self.extractor.identity, self.extractor.dimensions, new=False) as store:
            references = self._search_index(store)[0].ntotal
        threshold = self._threshold()
        return {
            "references": references,
            "dimensions": self.extractor.dimensions,
            "threshold": threshold,
            "most": self.rule.most,
        }

    def count_pixels(self, content: bytes) -> int:
        """Return the number of pixels of a picture.

        Raises:
            UserError: the bytes are no picture, or it has more than `max_pixels`.
        """
        try:
            width, height = measure_size(content)
        except ImageError as error:
            raise UserError(f"The file {error.problem}.") from error
        if width * height > self.max_pixels:
            raise UserError(
                f"The file is {width} x {height}, larger than {self.max_pixels:,} pixels. Send a smaller picture."
            )
        return width * height

    def embed(self, picture: Picture) -> NDArray[np.float32]:
        """Return the vector [1, d] of a picture.

        Raises:
            UserError: the bytes are no picture.
        """
        size = max(size for network in self.extractor.networks for size in network.sizes)
        with self._decoding:
            pixels = _read(picture, size)
        with self._network:
            return self.extractor.extract_picture(pixels)

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

    def embed_views(self, picture: Picture) -> NDArray[np.float32]:
        """Return the vectors [VIEWS, d] of the views of a picture that `embed` took."""
        with self._decoding:
            pixels = _read(picture, smallest_side(self.extractor))
        with self._network:
            return embed_views_of(self.extractor, pixels)

    def look(self, picture: Picture, found: Sequence[Match]) -> list[Match]:
        """Return the copies among a picture's nearest references, as a search of folders finds them, and what each is."""
        with self._decoding:
            return judge_found(self._judge, picture, found, *self._searched())

    def look_up(self, picture: Picture) -> list[Match]:
        """Return the hashes of the lists, if there are any, that a picture matches."""
        with self._decoding:
            return [] if self.hash_lists is None else self.hash_lists.find(picture.content, picture.decoded)

    def _threshold(self) -> float | None:
        """Return the lowest score of a copy in what was searched last."""
        rule, references = self._searched()
        return rule.threshold(references)

    def _searched(self) -> tuple[Rule, int]:
        """Return the rule for the references that were searched last, and their number."""
        return (self.rule, 1) if self._opened is None else (self._opened[2], self._opened[1].ntotal)

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
                self._searching = threading.Thread(target=self._search, daemon=True)
                self._searching.start()
        self._asked.put(asked)
        return asked.answer

    def close(self) -> None:
        """End the thread that searches."""
        if self._searching is not None:
            self._asked.put(None)
            self._searching.join()
            self._searching = None

    def _search(self) -> None:
        waiting = self._next()
        while waiting is not None:
            try:
                with open_store(
                    self.index, self.extractor.identity, self.extractor.dimensions, new=False
                ) as store:
                    opened = _identify_file(self.index)
                    while (
                        waiting is not None and _identify_file(self.index) == opened
                    ):  # not of a folder that was removed and made again
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
        decided, (index, rule) = map_decisions(store), self._search_index(store)
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


def service_router(service: SearchService) -> APIRouter:
    """Return the routes `/api/about`, `/api/matches`, `/api/vectors` and a page to try a picture."""

    @asynccontextmanager
    async def until_stopped(_: FastAPI) -> AsyncIterator[None]:
        with threadpool_limits(1, user_api="blas"):  # requests share the cores, and products are small
            yield
        await run_in_threadpool(service.close)

    router = APIRouter(lifespan=until_stopped)
    receiving, room = asyncio.Semaphore(MAX_CONCURRENT_UPLOADS), PixelRoom(TOGETHER * service.max_pixels)

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
                found = await _search_picture(service, Picture(content, {}), judged)
        return {"matches": [_plain(match) for match in found]}

    @router.post("/api/vectors", summary="The references that ready vectors' pictures copy, likely at best")
    async def vectors(question: VectorQuestion) -> dict[str, Any]:
        found = await asyncio.wrap_future(service.ask(service.check_vectors(question.vectors)))
        return {"matches": [[_plain(match) for match in matches] for matches in found]}

    add_page(router, PAGE)
    return router


async def _search_picture(service: SearchService, picture: Picture, judged: bool) -> list[Match]:
    """Return the references that a picture copies, and the hashes of lists that it matches."""
    vector = await run_in_threadpool(service.embed, picture)
    views = None if service.rule.tail is None else await run_in_threadpool(service.embed_views, picture)
    candidates = NEAREST if judged and service.rule.threshold(1) is not None else 0
    (found,) = await asyncio.wrap_future(service.ask(vector, picture.digest, views, candidates))
    if judged:
        found = await run_in_threadpool(service.look, picture, found)
    return found + await run_in_threadpool(service.look_up, picture)


def _read(picture: Picture, short_side: int) -> NDArray[np.uint8]:
    """Return the pixels [h, w, 3] of a picture that was sent.

    Raises:
        UserError: It is no picture.
    """
    try:
        return picture.read(short_side)
    except ImageError as error:
        raise UserError(f"The file {error.problem}.") from error


def _identify_file(index: Path) -> tuple[int, int]:
    """Return what distinguishes the index's file from another of its name."""
    try:
        state = (index / DATABASE).stat()
    except OSError as error:
        raise UserError(f"{index} holds no index ({error.strerror or error}).") from error
    return state.st_dev, state.st_ino


def _plain(match: Match) -> dict[str, Any]:
    values = {name: value for name, value in match_values(match).items() if name != "query"}
    return {name: text_of(value) if isinstance(value, Path) else value for name, value in values.items()}
