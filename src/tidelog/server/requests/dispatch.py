"""From a request to its endpoint, and its answer back.

A path without variables that has the method is found in a table, and its endpoint is called at once: a small update is
read and answered in less time than Starlette's routes and middleware take, and each event of a stream would go through
them. Everything else does.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from tidelog.errors import TidelogError
from tidelog.server import problems
from tidelog.server.metrics import Metrics
from tidelog.server.requests.access import Access, check_reads_all, check_role
from tidelog.server.requests.asking import Asked
from tidelog.server.requests.bodies import JSON
from tidelog.server.requests.policy import SECURITY
from tidelog.server.tokens import Caller

Answer = Callable[[Asked], Awaitable[Response]]
AnswerToCaller = Callable[[Asked, Caller], Awaitable[Response]]

log = logging.getLogger("tidelog.server")


class Endpoint:
    """A path, and what answers each method. It is bare ASGI."""

    def __init__(self, path: str, methods: Mapping[str, Answer]) -> None:
        self.path = path
        self.methods = dict(methods)
        if "GET" in methods:
            self.methods["HEAD"] = methods["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = Asked(scope, receive)
        await (await answered(self.methods[asked.method](asked)))(scope, receive, send)


async def answered(answer: Awaitable[Response]) -> Response:
    """An answer, or the problem document of what was raised instead."""
    try:
        return await answer
    except Exception as error:
        return problems.of_raised(error).response()


class ForCallers:
    """Makes endpoints for those who have a role."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def __call__(self, role: str | None, answer: AnswerToCaller, all: bool = False) -> Answer:
        """An answer for those who have a role; with `all`, for those from whom nothing is hidden."""

        async def checked(asked: Asked) -> Response:
            caller = self._access.caller(asked)
            if role is not None:
                check_role(caller, role)
            if all:
                check_reads_all(caller)
            try:
                return await answer(asked, caller)
            except TidelogError as error:
                raise problems.for_caller(error, caller) from None

        return checked


class Dispatcher:
    """Around everything: finds endpoints, adds headers that keep browsers from doing more than they should, and counts
    requests.
    """

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        streams: Mapping[str, ASGIApp],
        page: Iterable[Route | Mount],
        lifespan: Lifespan[Starlette],
        metrics: Metrics,
    ) -> None:
        self._metrics = metrics
        routes: list[Route | Mount] = []
        self._direct: dict[tuple[str, str], ASGIApp] = {}
        for endpoint in endpoints:
            routes.append(Route(endpoint.path, endpoint, methods=list(endpoint.methods)))
            if "{" not in endpoint.path:
                self._direct.update(((method, endpoint.path), endpoint) for method in endpoint.methods)
        for path, stream in streams.items():
            routes.append(Route(path, stream, methods=["GET"]))
            self._direct["GET", path] = stream
        self._otherwise = Starlette(
            routes=[*routes, *page],
            exception_handlers={HTTPException: _http_problem, Exception: _internal_problem},
            lifespan=lifespan,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._otherwise(scope, receive, send)
            return
        metrics, method, answer = self._metrics, scope["method"], scope.get("tidelog.answer")
        head: Message | None = None  # which waits for the body

        async def guarded(message: Message) -> None:
            nonlocal head
            if message["type"] == "http.response.start":
                metrics.request(method, message["status"])
                head = message
                return
            if head is not None:
                status, headers, head = head["status"], head.get("headers", ()), None
                if answer is not None and not message.get("more_body") and answer(scope, status, headers, message):
                    return
                await send({"type": "http.response.start", "status": status, "headers": [*headers, *SECURITY]})
            await send(message)

        await self._direct.get((method, scope["path"]), self._otherwise)(scope, receive, guarded)


def json_response(content: Any) -> Response:
    return Response(msgspec.json.encode(content), media_type=JSON)


async def _http_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problems.of_status(error.status_code, str(error.detail), error.headers).response()


async def _internal_problem(_: Request, error: Exception) -> Response:
    return problems.of_raised(error).response()
