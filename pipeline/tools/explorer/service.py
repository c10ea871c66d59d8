"""explore.py --serve: search of a kept index over HTTP, for programs. Nothing that is sent is ever written."""

import hashlib
import threading
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse
from numpy.typing import NDArray
from pydantic import Field

from data.decode import decode_rgb
from data.errors import ImageError, UserError
from data.names import text_of
from data.settings import Settings
from pipeline.tools.explorer.app import DECODED_AT_ONCE, guard
from pipeline.tools.extractor import Extractor
from pipeline.tools.match_search import Search
from submissions.index.matches import Match, Rule
from submissions.index.search import SearchIndex, open_search
from submissions.index.store import changes, open_store

MAX_VECTORS = 1000  # of one request


class VectorQuestion(Settings):
    """Vectors as the extractor makes them, before query normalisation: [n][dimensions]."""

    vectors: list[list[float]] = Field(min_length=1, max_length=MAX_VECTORS)


@dataclass
class SearchService:
    """A kept index that is searched while others may change it.

    Attributes:
        index: folder of the index.
        extractor: what its vectors were made with.
        rule: when a reference counts as a copy.
    """

    index: Path
    extractor: Extractor
    rule: Rule
    _opened: tuple[int, SearchIndex] | None = None
    _network: threading.Lock = field(default_factory=threading.Lock)
    _decoding: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(DECODED_AT_ONCE))
    _opening: threading.Lock = field(default_factory=threading.Lock)

    def about(self) -> dict[str, Any]:
        """Return what the service searches."""
        with open_store(self.index, self.extractor.identity, self.extractor.dimensions, new=False) as store:
            references = self._search_index(store).ntotal
        threshold = self.rule.threshold(references)
        return {"references": references, "dimensions": self.extractor.dimensions, "threshold": threshold, "most": self.rule.most}

    def match_picture(self, content: bytes) -> list[dict[str, Any]]:
        """Return the references that a picture copies, best first.

        Raises:
            UserError: the bytes are no picture.
        """
        size = max(size for network in self.extractor.networks for size in network.sizes)
        try:
            with self._decoding:
                pixels = decode_rgb(content, short_side=size)
        except ImageError as error:
            raise UserError(f"The file {error.problem}.") from error
        with self._network:
            vector = self.extractor.extract_picture(pixels)
        return self._match(vector, hashlib.sha256(content).digest())[0]

    def match_vectors(self, vectors: list[list[float]]) -> list[list[dict[str, Any]]]:
        """Return the references that each vector's picture copies, best first.

        Raises:
            UserError: the vectors have another number of dimensions, or are not finite.
        """
        if any(len(vector) != self.extractor.dimensions for vector in vectors):
            raise UserError(f"Each vector must have {self.extractor.dimensions} numbers.")
        with np.errstate(over="ignore"):  # looked at below
            array = np.array(vectors, np.float32)
        if not np.isfinite(array).all():
            raise UserError("The vectors hold numbers that are not finite.")
        return self._match(array, b"")

    def _match(self, vectors: NDArray[np.float32], digest: bytes) -> list[list[dict[str, Any]]]:
        with open_store(self.index, self.extractor.identity, self.extractor.dimensions, new=False) as store:
            search = Search(store, self.extractor, self.rule)
            search.__dict__["index"] = self._search_index(store)  # opened once for all requests
            return [[_plain(match) for match in matches] for matches in search.near(vectors, digest)]

    def _search_index(self, store: Any) -> SearchIndex:
        """The index of the store's present state; opened again when another process has changed it."""
        with self._opening:
            state = changes(store)
            if self._opened is None or self._opened[0] != state:
                self._opened = state, open_search(store)
            return self._opened[1]


def make_service(service: SearchService) -> FastAPI:
    """Make the application: `/api/about`, `/api/matches`, `/api/vectors`, `/openapi.json` and a page that lists them."""
    app = FastAPI(title="Copies of pictures", docs_url=None, redoc_url=None)

    @app.get("/api/about", summary="What is searched")
    def about() -> dict[str, Any]:
        return service.about()

    @app.post(
        "/api/matches",
        summary="The references that a picture copies",
        openapi_extra={
            "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
        },
    )
    async def matches(request: Request) -> dict[str, Any]:
        if request.headers.get("content-type") != "application/octet-stream":  # what no other site's form can send
            raise UserError("Send the file's bytes as application/octet-stream.")
        content = await request.body()
        return {"matches": await run_in_threadpool(service.match_picture, content)}

    @app.post("/api/vectors", summary="The references that ready vectors' pictures copy")
    def vectors(question: VectorQuestion) -> dict[str, Any]:
        return {"matches": service.match_vectors(question.vectors)}

    @app.get("/", include_in_schema=False)
    def page() -> HTMLResponse:
        lines = [
            f"<li><code>{method.upper()} {escape(path)}</code> {escape(about.get('summary', ''))}</li>"
            for path, methods in app.openapi()["paths"].items()
            for method, about in methods.items()
        ]
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Copies of pictures</title>'
        return HTMLResponse(f'{head}<h1>Copies of pictures</h1><ul>{"".join(lines)}</ul><a href="openapi.json">openapi.json</a>')

    guard(app)
    return app


def _plain(match: Match) -> dict[str, Any]:
    return {"reference": text_of(match.reference), "score": match.score, "expected_false_alarms": match.false_alarms}
