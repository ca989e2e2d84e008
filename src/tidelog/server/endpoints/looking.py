"""Questions about facts and rules. A query that has been short so far is answered at once, in the event loop, if nobody
is in the way: handing it to a thread and back takes longer than it does. All others are answered in threads, beside the
updates.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.responses import PlainTextResponse, Response

from tidelog.runtime.knowledge_lock import NotNow
from tidelog.server import problems
from tidelog.server.metrics import Metrics
from tidelog.server.questions.facts import Facts
from tidelog.server.questions.formats import FORMATS, response_of
from tidelog.server.questions.overview import Overview
from tidelog.server.questions.pages import Page
from tidelog.server.questions.queries import Queries
from tidelog.server.requests import bodies
from tidelog.server.requests.asking import Asked
from tidelog.server.requests.bodies import JSON
from tidelog.server.requests.dispatch import Endpoint, ForCallers, json_response
from tidelog.server.settings import Limits
from tidelog.server.threads import Threads
from tidelog.server.tokens import READ, Caller

ROWS_OF_QUERY = 1000
ROWS_OF_FACTS = 100


class Looking:
    """Answers about what there is."""

    def __init__(
        self,
        limits: Limits,
        queries: Queries,
        facts: Facts,
        overview: Overview,
        threads: Threads,
        metrics: Metrics,
        callers: ForCallers,
    ) -> None:
        self._limits = limits
        self._queries = queries
        self._facts = facts
        self._overview = overview
        self._threads = threads
        self._metrics = metrics
        self.endpoints = [
            Endpoint("/query", {"POST": callers(READ, self._query)}),
            Endpoint("/facts/{predicate:path}", {"GET": callers(READ, self._facts_of)}),
            Endpoint("/predicates", {"GET": callers(READ, self._predicates)}),
            Endpoint("/rules", {"GET": callers(READ, self._rules, all=True)}),
            Endpoint("/graph", {"GET": callers(READ, self._graph, all=True)}),
        ]

    async def _query(self, asked: Asked, caller: Caller) -> Response:
        kind = bodies.accepted(asked, *FORMATS)
        body = bodies.decoded(asked, await bodies.read_body(asked, self._limits.max_body), bodies.Question)
        limit = self._limit(body.limit, kind, ROWS_OF_QUERY)

        def answer(waits: bool) -> Response:
            began = time.thread_time()
            try:
                return _answers(self._queries.query(caller, body, limit, waits), kind)
            finally:
                self._queries.note_time(body, time.thread_time() - began)

        with self._metrics.query():
            if self._queries.may_be_short(body):
                with suppress(NotNow):
                    return answer(waits=False)
            return await self._threads.run(lambda: answer(waits=True))

    def _limit(self, wanted: int | None, kind: str, default: int) -> int:
        most = self._limits.max_answers
        if wanted is None:
            return min(default, most) if kind == JSON else most
        if wanted < 1:
            raise problems.bad_request("`limit` is a whole number from 1 on")
        if wanted > most:
            raise problems.over_limit("max_answers", most, f"`limit` is at most {most:,}; read the rest page by page")
        return wanted

    async def _facts_of(self, asked: Asked, caller: Caller) -> Response:
        kind = bodies.accepted(asked, *FORMATS)
        given, name = asked.parameters, asked.in_path["predicate"]
        wanted = bodies.integer(given, "limit", 0, 1, 1 << 40) if "limit" in given else None
        limit = self._limit(wanted, kind, ROWS_OF_FACTS)
        where = bodies.columns(given.get("where"))
        explicit, containing, cursor = bodies.flag(given, "explicit"), given.get("filter", ""), given.get("cursor")

        def answer() -> Response:
            page = self._facts.page(caller, name, limit, cursor, explicit, containing, where)
            return response_of(page, kind, {"predicate": name, "arity": len(page.names)})

        with self._metrics.query():
            return await self._threads.run(answer)

    async def _predicates(self, asked: Asked, caller: Caller) -> Response:
        return json_response(await self._threads.run(lambda: self._overview.predicates(caller)))

    async def _rules(self, asked: Asked, caller: Caller) -> Response:
        kind = bodies.accepted(asked, JSON, "text/plain")
        found: dict[str, Any] = await self._threads.run(self._overview.rules)
        return json_response(found) if kind == JSON else PlainTextResponse(found["text"])

    async def _graph(self, asked: Asked, caller: Caller) -> Response:
        kind = bodies.accepted(asked, JSON, "image/svg+xml", "text/plain")
        format = asked.parameters.get("format", "svg" if kind == "image/svg+xml" else "json")
        if format == "json":
            return json_response(await self._threads.run(self._overview.graph))
        if format not in ("svg", "dot", "mermaid"):
            raise problems.bad_request("`format` is json, svg, dot or mermaid")
        drawn = await self._threads.run(partial(self._overview.drawn, format))
        return Response(drawn, media_type="image/svg+xml" if format == "svg" else "text/plain; charset=utf-8")


def _answers(page: Page, kind: str) -> Response:
    more = {"variables": page.names, "more": page.more, "errors": page.errors, "warnings": page.warnings}
    return response_of(page, kind, more)
