"""What the pages of explore.py share: their files, and pictures made small enough to be shown."""

import threading
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from image_copies.data.decode import decode_rgb
from image_copies.data.errors import ImageError
from image_copies.matching.results.overlays import encode_jpeg
from image_copies.submissions.report.inputs import render


def add_page(router: APIRouter, folder: Path) -> None:
    """Serve a page: `index.html` of `folder` at the root, its other files below /page, and the style that all pages share."""
    files = StaticFiles(directory=folder)

    @router.get("/", include_in_schema=False)
    def page() -> FileResponse:
        return FileResponse(folder / "index.html")

    @router.get("/style.css", include_in_schema=False)
    def style() -> Response:
        return Response(render("style.css.jinja"), media_type="text/css")

    @router.get("/page/{name}", include_in_schema=False)
    async def file(name: str, request: Request) -> Response:
        return await files.get_response(name, request.scope)


def send_picture(path: Path, long_side: int, decoding: threading.BoundedSemaphore, cached: str) -> Response:
    """Answer with a picture as JPEG, or with status 404 and the reason where it cannot be decoded; `cached`: Cache-Control."""
    try:
        with decoding:
            small = encode_jpeg(decode_rgb(path, short_side=long_side), long_side)
    except ImageError as error:
        return JSONResponse({"message": f"It {error.problem}."}, 404)
    return Response(small, media_type="image/jpeg", headers={"Cache-Control": cached})
