"""A search service over a few pictures, and applications that are served."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import uvicorn
from fastapi import FastAPI

from image_copies.data.sources.discovery import discover
from image_copies.matching.extractor import Extractor
from image_copies.matching.index.filling import add_pictures
from image_copies.matching.index.store import open_store
from image_copies.matching.matches import Rule
from image_copies.matching.show.service import SearchService
from image_copies.matching.show.web import configure, open_listener


@contextmanager
def serve(app: FastAPI) -> Iterator[str]:
    """Serve an application in a thread, over sockets as explore.py does it, and yield its address."""
    with open_listener(0) as listener:
        server = uvicorn.Server(configure(app, "critical"))
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def open_service(folder: Path, extractor: Extractor, rule: Rule | None = None) -> SearchService:
    """Add the pictures of `folder`/pictures to `folder`/index, and search that."""
    with open_store(folder / "index", extractor.identity, extractor.dimensions) as store:
        add_pictures(store, extractor, discover([folder / "pictures"]).paths)
    return SearchService(folder / "index", extractor, rule or Rule(None, None, 0.001, 3))
