"""The page at `/`: files that are shipped in the package, and nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parents[1] / "page" / "static"

NO_PAGE = "This is a tidelog server. Its page has not been built; /openapi.json describes what it answers.\n"


class _Assets(StaticFiles):
    """Files whose names change with their content."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if response.status_code == 200:
            response.headers["cache-control"] = "public, max-age=31536000, immutable"
        return response


async def _index(_: Request) -> Response:
    index = FOLDER / "index.html"
    if not index.is_file():
        return PlainTextResponse(NO_PAGE)
    return FileResponse(index, headers={"cache-control": "no-cache"})


async def _icon(request: Request) -> Response:
    icon = FOLDER / request.url.path.rpartition("/")[2]
    return FileResponse(icon) if icon.is_file() else Response(status_code=404)


def page_routes() -> list[Route | Mount]:
    """The routes of the page."""
    return [
        Route("/", _index),
        Route("/favicon.ico", _icon),
        Route("/favicon.svg", _icon),
        Mount("/assets", _Assets(directory=FOLDER / "assets", check_dir=False)),
    ]
